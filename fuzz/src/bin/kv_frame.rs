//! Frames of the memcached binary protocol: a decoded frame encodes and decodes to the same frame.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use reattempt_clients::kv::Frame;
use reattempt_clients::kv::frame::{decode_duration, framing_extras, split_collection_id};

const LIMIT: usize = 1 << 16;

fuzz_target!(|data: &[u8]| {
    let mut input = BytesMut::from(data);
    while let Ok(Some(frame)) = Frame::decode(&mut input, LIMIT) {
        let _ = framing_extras(&frame.framing).count();
        let _ = (
            split_collection_id(&frame.key),
            decode_duration(frame.specific),
        );
        let mut out = BytesMut::new();
        frame.encode(&mut out).expect("a decoded frame fits");
        assert_eq!(Frame::decode(&mut out, LIMIT), Ok(Some(frame)));
    }
});

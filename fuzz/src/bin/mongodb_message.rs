//! OP_MSG, OP_QUERY and OP_REPLY: any bytes after any header, and any document alone.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reattempt_clients::mongodb::client::{ServerDescription, TopologyDescription};
use reattempt_clients::mongodb::wire::{Header, Message, OpMsg, decode_document};

const LIMIT: usize = 1 << 16;

fuzz_target!(|data: &[u8]| {
    if let Ok(document) = decode_document(data) {
        let hello = ServerDescription::from_hello("a:1", &document);
        let mut known = TopologyDescription::new(&["a:1".to_owned()], None, false);
        known.apply(hello);
        let _ = known.to_string();
    }
    let Some((head, body)) = data.split_first_chunk::<16>() else {
        return;
    };
    let _ = Header::decode(head, LIMIT);
    let op_codes = [
        1,
        2004,
        2013,
        i32::from_le_bytes([head[0], head[1], head[2], head[3]]),
    ];
    for op_code in op_codes {
        let header = Header {
            length: 16,
            request_id: 1,
            response_to: 2,
            op_code,
        };
        if let Ok(Message::Msg(message)) = Message::decode(header, body) {
            let _ = OpMsg::encode(1, 2, &message.document);
        }
    }
});

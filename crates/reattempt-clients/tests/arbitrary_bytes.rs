//! What the fuzz targets hold, on every test run: no bytes of a peer panic, and what was read is
//! written the same.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use reattempt_clients::kv::frame::{
    FrameError, HEADER_LEN, decode_duration, framing_extras, split_collection_id,
};
use reattempt_clients::kv::sasl::Mechanism;
use reattempt_clients::kv::{Frame, Magic};
use reattempt_clients::mongodb::client::{
    ConnectionString, ServerDescription, TopologyDescription,
};
use reattempt_clients::mongodb::scram::RULES;
use reattempt_clients::mongodb::wire::{Header, Message, OpMsg, decode_document};
use reattempt_clients::scram::ScramClient;

const LIMIT: usize = 1 << 16;

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..most)
}

/// A KV header whose lengths are small enough to be believed now and then.
fn kv_bytes() -> impl Strategy<Value = Vec<u8>> {
    let magic = prop::sample::select(vec![0x80, 0x81, 0x08, 0x18, 0x82, 0x83, 0x00]);
    let lengths = (any::<u8>(), 0_u8..8, 0_u8..8, 0_u8..8, 0_u32..40);
    (magic, lengths, any::<u64>(), bytes(64)).prop_map(
        |(magic, (opcode, framing, key, extras, body), rest, tail)| {
            let mut out = vec![magic, opcode, framing, key, extras, 0, 0, 1];
            out.extend(body.to_be_bytes());
            out.extend(rest.to_be_bytes());
            out.extend([0; 4]);
            out.extend(tail);
            out
        },
    )
}

/// A document whose lengths are right, of elements that are not.
fn almost_bson() -> impl Strategy<Value = Vec<u8>> {
    bytes(60).prop_map(|elements| {
        let length = i32::try_from(elements.len() + 5).unwrap();
        [&length.to_le_bytes()[..], &elements, &[0]].concat()
    })
}

proptest! {
    #[test]
    fn kv_frames_are_refused_or_written_back_the_same(input in prop_oneof![kv_bytes(), bytes(80)]) {
        let mut buffer = BytesMut::from(&input[..]);
        while let Ok(Some(frame)) = Frame::decode(&mut buffer, LIMIT) {
            let _ = framing_extras(&frame.framing).count();
            let _ = (split_collection_id(&frame.key), decode_duration(frame.specific));
            let mut out = BytesMut::new();
            frame.encode(&mut out).expect("its parts fitted once");
            prop_assert_eq!(Frame::decode(&mut out, LIMIT), Ok(Some(frame)));
        }
    }

    #[test]
    fn a_body_that_is_too_long_is_refused_by_its_header(length in (LIMIT as u32 + 1)..) {
        let mut header = [0; HEADER_LEN];
        header[0] = Magic::Response.byte();
        header[8..12].copy_from_slice(&length.to_be_bytes());
        let refused = Frame::decode(&mut BytesMut::from(&header[..]), LIMIT);
        let too_long = matches!(refused, Err(FrameError::BodyTooLong { .. }));
        prop_assert!(too_long);
    }

    #[test]
    fn small_encodings_do_not_panic(input in bytes(300)) {
        let _ = framing_extras(&input).count();
        let _ = split_collection_id(&Bytes::from(input));
    }

    #[test]
    fn mongodb_messages_do_not_panic(
        head in any::<[u8; 16]>(), flags in 0_u32..3, kind in 0_u8..2,
        section in prop_oneof![almost_bson(), bytes(80)],
    ) {
        let _ = Header::decode(&head, LIMIT);
        let body = [&flags.to_le_bytes()[..], &[kind], &section].concat();
        for op_code in [1, 2004, 2013, i32::from_le_bytes([head[0], head[1], head[2], head[3]])] {
            let header = Header { length: 16, request_id: 1, response_to: 2, op_code };
            let _ = Message::decode(header, &section);
            if let Ok(Message::Msg(message)) = Message::decode(header, &body) {
                let _ = OpMsg::encode(1, 2, &message.document);
            }
        }
    }

    #[test]
    fn any_document_can_be_a_hello(document in prop_oneof![almost_bson(), bytes(80)]) {
        if let Ok(document) = decode_document(&document) {
            let mut known = TopologyDescription::new(&["a:1".to_owned()], None, false);
            known.apply(ServerDescription::from_hello("a:1", &document));
            let _ = known.to_string();
        }
    }

    #[test]
    fn connection_strings_do_not_panic(text in ".{0,60}", form in "[a-z:@/?%=&,\\[\\]0-9A-F.]{0,60}") {
        for text in [text, form] {
            let read = text.parse::<ConnectionString>().map_err(|error| error.to_string());
            let behind = format!("mongodb://{text}").parse::<ConnectionString>();
            let _ = (read, behind.map_err(|error| error.to_string()));
        }
    }

    #[test]
    fn no_word_of_a_scram_server_panics(
        word in bytes(60), form in "r=[a-z]{0,9},s=[A-Za-z0-9+/]{0,8}={0,2},i=[0-9]{0,4}",
    ) {
        for word in [&word[..], form.as_bytes()] {
            for rules in [Mechanism::ScramSha1.scram().expect("scram"), RULES] {
                let mut client = ScramClient::new(rules, "u", "p", "");
                let _ = (client.answer(word, &mut None), client.verify(word));
            }
        }
    }
}

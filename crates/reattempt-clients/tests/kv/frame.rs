use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};

use reattempt_clients::kv::KvRequest;
use reattempt_clients::kv::frame::{
    DEFAULT_MAX_BODY, Frame, FrameError, Magic, decode_duration, encode_duration, framing_extras,
    put_collection_id, put_framing_extra, split_collection_id,
};
use reattempt_couchbase::KvRequest as _;
use reattempt_couchbase::kv::Opcode;

fn frame(magic: Magic) -> Frame {
    Frame {
        datatype: 1,
        specific: 0x0102,
        cas: 0x1122_3344_5566_7788,
        extras: Bytes::from_static(b"extr"),
        key: Bytes::from_static(b"key"),
        value: Bytes::from_static(b"value"),
        ..Frame::new(magic, Opcode(0x42), 0xdead_beef)
    }
}

fn bytes(frame: &Frame) -> BytesMut {
    let mut out = BytesMut::new();
    frame.encode(&mut out).expect("encode");
    out
}

#[test]
fn every_magic_comes_back_as_it_went() {
    for byte in [0x80, 0x81, 0x08, 0x18, 0x82, 0x83] {
        let magic = Magic::from_byte(byte).expect("magic");
        assert_eq!(magic.byte(), byte);
        let sent = frame(magic);
        let mut wire = bytes(&sent);
        assert_eq!(wire[0], byte);
        let got = Frame::decode(&mut wire, DEFAULT_MAX_BODY)
            .expect("decode")
            .expect("whole");
        assert_eq!(got, sent);
        assert!(wire.is_empty());
    }
}

#[test]
fn framing_extras_make_a_flex_frame() {
    let mut framing = BytesMut::new();
    put_framing_extra(&mut framing, 0, &[1, 2]).expect("put");
    put_framing_extra(&mut framing, 200, &[7; 40]).expect("put");
    put_framing_extra(&mut framing, 15, &[]).expect("put");
    let sent = Frame {
        framing: framing.freeze(),
        ..frame(Magic::Response)
    };
    let mut wire = bytes(&sent);
    assert_eq!(wire[0], 0x18);
    let got = Frame::decode(&mut wire, DEFAULT_MAX_BODY)
        .expect("decode")
        .expect("whole");
    assert_eq!(got.magic, Magic::FlexResponse);
    let extras: Vec<_> = framing_extras(&got.framing).map(Result::unwrap).collect();
    assert_eq!(
        extras,
        [(0, &[1, 2][..]), (200, &[7; 40][..]), (15, &[][..])]
    );
    assert_eq!((got.key, got.value), (sent.key, sent.value));
}

#[test]
fn a_request_with_the_extra_of_durability_is_durable() {
    let with = |extras: &[(u8, &[u8])]| {
        let mut framing = BytesMut::new();
        for (id, data) in extras {
            put_framing_extra(&mut framing, *id, data).expect("put");
        }
        KvRequest::set("k", "v", 0, 0).with_framing(&*framing)
    };
    assert!(!with(&[]).is_durable());
    assert!(!with(&[(5, &[])]).is_durable());
    assert!(with(&[(1, &[1])]).is_durable());
    assert!(with(&[(5, &[]), (1, &[3, 0x10, 0])]).is_durable());
    let more = with(&[(1, &[1]), (5, &[2, 3])]);
    let cut_off = more.framing().split_last().unwrap().1;
    assert!(more.is_durable() && !more.clone().with_framing(cut_off).is_durable());
    let whole = with(&[(1, &[1])]);
    assert!(
        !whole
            .clone()
            .with_framing(&whole.framing()[..1])
            .is_durable()
    );
}

#[test]
fn requests_that_are_sent_alike_are_equal() {
    let get = KvRequest::get("k");
    assert_eq!(get.clone().with_cas(0).with_framing([]), get);
    assert_ne!(get.clone().with_cas(1), get);
}

#[test]
fn cut_off_framing_extras_are_an_error() {
    for bad in [
        &[0x02, 1][..],
        &[0xf0][..],
        &[0x0f][..],
        &[0x0f, 1, 2][..],
        &[0xff, 0][..],
    ] {
        let cut_off = Err(FrameError::FramingCutOff { offset: 0 });
        assert!(framing_extras(bad).eq([cut_off]), "{bad:?}");
    }
}

#[test]
fn a_partial_frame_waits_at_every_length() {
    let wire = bytes(&frame(Magic::Request));
    for length in 0..wire.len() {
        let mut part = BytesMut::from(&wire[..length]);
        assert_eq!(Frame::decode(&mut part, DEFAULT_MAX_BODY), Ok(None));
        assert_eq!(part.len(), length);
    }
}

#[test]
fn a_wrong_magic_is_found_with_the_first_byte() {
    let mut wire = BytesMut::from(&b"G"[..]);
    let error = Frame::decode(&mut wire, DEFAULT_MAX_BODY);
    assert_eq!(error, Err(FrameError::UnknownMagic { byte: b'G' }));
}

#[test]
fn an_absurd_length_is_found_with_the_header() {
    let mut wire = bytes(&frame(Magic::Response));
    wire[8..12].copy_from_slice(&[0xff; 4]);
    wire.truncate(24);
    let error = Frame::decode(&mut wire, 1000);
    assert_eq!(
        error,
        Err(FrameError::BodyTooLong {
            length: 0xffff_ffff,
            limit: 1000
        })
    );
}

#[test]
fn the_longest_possible_body_is_waited_for() {
    let mut wire = bytes(&frame(Magic::Response));
    wire[8..12].copy_from_slice(&[0xff; 4]);
    assert_eq!(Frame::decode(&mut wire, usize::MAX), Ok(None));
}

#[test]
fn parts_longer_than_the_body_are_an_error() {
    let mut wire = bytes(&frame(Magic::Response));
    wire[8..12].copy_from_slice(&6u32.to_be_bytes());
    let error = Frame::decode(&mut wire, 1000);
    let expected = FrameError::PartsExceedBody {
        framing: 0,
        extras: 4,
        key: 3,
        body: 6,
    };
    assert_eq!(error, Err(expected));
}

#[test]
fn parts_too_long_for_their_field_are_not_written() {
    let mut out = BytesMut::new();
    let long = Frame {
        key: vec![b'k'; 65_536].into(),
        ..frame(Magic::Request)
    };
    assert!(matches!(
        long.encode(&mut out),
        Err(FrameError::PartTooLong {
            part: "key",
            length: 65_536,
            limit: 65_535
        })
    ));
    let long = Frame {
        key: vec![b'k'; 256].into(),
        ..frame(Magic::FlexRequest)
    };
    assert!(long.encode(&mut out).is_err());
    assert!(out.is_empty());
}

#[test]
fn collection_ids_are_leb128() {
    for (id, wire) in [
        (0, &[0x00][..]),
        (0x7f, &[0x7f]),
        (0x80, &[0x80, 0x01]),
        (0x555, &[0xd5, 0x0a]),
        (u32::MAX, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
    ] {
        let mut out = BytesMut::new();
        put_collection_id(&mut out, id);
        assert_eq!(out, wire);
        out.put_slice(b"key");
        let split = split_collection_id(&out.freeze());
        assert_eq!(split, Ok((id, Bytes::from_static(b"key"))));
    }
    for bad in [
        &[][..],
        &[0x80],
        &[0xff, 0xff, 0xff, 0xff, 0x1f],
        &[0xff; 6],
    ] {
        let split = split_collection_id(&Bytes::copy_from_slice(bad));
        assert_eq!(split, Err(FrameError::BadCollectionId));
    }
}

#[test]
fn durations_survive_the_wire_within_a_percent() {
    assert_eq!(decode_duration(0), Duration::ZERO);
    assert_eq!(encode_duration(Duration::from_secs(100_000)), u16::MAX);
    for micros in [500u64, 10_000, 100_000, 2_000_000, 60_000_000] {
        let sent = Duration::from_micros(micros);
        let got = decode_duration(encode_duration(sent));
        assert!(
            got.abs_diff(sent) <= sent / 50,
            "{sent:?} came back as {got:?}"
        );
    }
}

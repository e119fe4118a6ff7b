use bytes::BytesMut;

use super::*;
use crate::kv::frame::Magic;

/// A response that arrives before its request was sent is ignored; the later one counts.
#[test]
fn nothing_answers_a_request_that_has_not_left() {
    let shared = Shared::new("h:1".into(), 1, Agreed::default(), None);
    let (opaque, mut outcome) = shared.enqueue(&KvRequest::get("k")).unwrap();
    let answer = |cas| Frame {
        cas,
        ..Frame::new(Magic::Response, opcode::GET, opaque)
    };
    shared.answer(answer(1)).unwrap();
    assert_eq!(shared.ignored(), 1);
    assert!(outcome.try_recv().is_err());
    let mut out = BytesMut::new();
    shared.drain(&mut out, usize::MAX, |_, _| {});
    assert!(!out.is_empty());
    shared.mark_sent([opaque].into_iter());
    shared.answer(answer(2)).unwrap();
    assert_eq!(outcome.try_recv().unwrap().unwrap().cas, 2);
}

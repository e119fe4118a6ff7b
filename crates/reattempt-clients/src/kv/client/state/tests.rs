use bytes::BytesMut;

use super::*;
use crate::kv::frame::{Frame, Magic};

/// A response that arrives before its request was sent is ignored; the later one counts.
#[test]
fn nothing_answers_a_request_that_has_not_left() {
    let shared = Shared::new("h:1".into(), 1, Agreed::default(), None);
    let (opaque, mut outcome) = shared.enqueue(&KvRequest::get("k")).unwrap();
    let answer = |cas| Frame {
        cas,
        ..Frame::new(Magic::Response, Opcode::GET, opaque)
    };
    shared.answer(answer(1).into()).unwrap();
    assert_eq!(shared.ignored(), 1);
    assert!(outcome.try_recv().is_err());
    let mut out = BytesMut::new();
    shared.drain(&mut out, usize::MAX, |_, _| {});
    assert!(!out.is_empty());
    shared.mark_sent([opaque].into_iter());
    shared.answer(answer(2).into()).unwrap();
    assert_eq!(outcome.try_recv().unwrap().unwrap().cas, 2);
}

/// Dropping one does not search the others: a batch may be dropped at once.
#[test]
fn many_requests_that_are_not_sent_are_dropped_quickly() {
    const MANY: u32 = 100_000;
    let shared = Shared::new("h:1".into(), 1, Agreed::default(), None);
    let begun = tokio::time::Instant::now();
    let asked = (0..MANY).map(|_| shared.enqueue(&KvRequest::get("k")).unwrap());
    let mut asked: Vec<_> = asked.collect();
    let (kept, _outcome) = asked.swap_remove(0);
    for (opaque, _) in asked.into_iter().rev() {
        shared.forget(opaque);
        let requests = shared.requests();
        assert!(requests.queue.len() <= 2 * requests.pending.len());
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(10));
    let (mut out, mut noted) = (BytesMut::new(), Vec::new());
    shared.drain(&mut out, usize::MAX, |opaque, length| {
        noted.push((opaque, length));
    });
    assert_eq!(noted, [(kept, out.len())]);
    assert_eq!(
        (shared.outstanding(), shared.requests().queue.len()),
        (1, 0)
    );
}

/// C19 C20 C39: also if the caller has dropped the request.
#[test]
fn a_status_closes_the_connection_even_without_a_caller() {
    let map = r#"{"version": 2, "revision": 1, "errors": {
        "ff0": {"name": "A", "desc": "", "attrs": ["conn-state-invalidated", "retry-now"]},
        "ff1": {"name": "B", "desc": "", "attrs": ["special-handling"]},
        "ff2": {"name": "C", "desc": "", "attrs": ["retry-now"]}}}"#;
    for (status, closes) in [
        (0x08, true),
        (0x1f, true),
        (0x25, true),
        (0x84, true),
        (0xff0, true),
        (0xff1, true),
        (0xff2, false),
        (0x24, false),
        (0, false),
    ] {
        for waits in [true, false] {
            let agreed = Agreed {
                error_map: Some(map.into()),
                bucket: true,
                ..Agreed::default()
            };
            let shared = Shared::new("h:1".into(), 1, agreed, None);
            let (opaque, mut outcome) = shared.enqueue(&KvRequest::get("k")).unwrap();
            shared.mark_sent([opaque].into_iter());
            if !waits {
                shared.forget(opaque);
            }
            let answer = Frame {
                specific: status,
                ..Frame::new(Magic::Response, Opcode::GET, opaque)
            };
            shared.answer(answer.into()).unwrap();
            assert_eq!(shared.is_closed(), closes, "{status:#x}, waits: {waits}");
            let answered = outcome.try_recv().map(|outcome| outcome.unwrap().status);
            assert_eq!(answered.ok(), waits.then_some(Status(status)));
        }
    }
}

/// C39: one that never had a bucket is polled for a configuration, and is of use without one.
#[test]
fn only_a_connection_that_lost_its_bucket_is_closed() {
    for bucket in [true, false] {
        for opcode in [Opcode::GET_CLUSTER_CONFIG, Opcode::GET] {
            let agreed = Agreed {
                bucket,
                ..Agreed::default()
            };
            let shared = Shared::new("h:1".into(), 1, agreed, None);
            let answer = Frame {
                specific: Status::NO_BUCKET.0,
                ..Frame::new(Magic::Response, opcode, 1)
            };
            shared.answer(answer.into()).unwrap();
            assert_eq!(shared.is_closed(), bucket, "{opcode:?}");
        }
    }
}

#[test]
fn a_configuration_too_long_for_the_parser_is_not_kept() {
    let shared = Shared::new("h:1".into(), 1, Agreed::default(), None);
    let most = cluster_config::MAX_BYTES;
    for (length, kept) in [(most, Some(most)), (most + 1, Some(most))] {
        shared.config_arrived(&vec![b' '; length]);
        assert_eq!(shared.config().map(|config| config.len()), kept);
    }
}

/// A node that refuses many requests repeats it with each of them.
#[test]
fn a_configuration_that_is_repeated_is_reported_once() {
    let reported: Arc<Mutex<Vec<Bytes>>> = Arc::default();
    let hook = {
        let reported = Arc::clone(&reported);
        move |body: &[u8], _: &str| lock(&reported).push(Bytes::copy_from_slice(body))
    };
    let shared = Shared::new("h:1".into(), 1, Agreed::default(), Some(Arc::new(hook)));
    for body in ["a", "a", "b", "b", "a"] {
        shared.config_arrived(body.as_bytes());
        assert_eq!(shared.config().as_deref(), Some(body.as_bytes()));
    }
    assert_eq!(*lock(&reported), ["a", "b", "a"]);
}

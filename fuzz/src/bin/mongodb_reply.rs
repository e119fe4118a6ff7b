//! A MongoDB reply with any elements, as a success (cursor, counts, write errors) and as an error
//! (code, labels, back-off), and the classifier's verdict on both under every gate.
#![no_main]

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use libfuzzer_sys::fuzz_target;
use reattempt::Verdict;
use reattempt_clients::mongodb::MongoReply;
use reattempt_clients::mongodb::client::{MongoError, Origin, ServerError, WriteError};
use reattempt_clients::mongodb::wire::{decode_document, read_reply};
use reattempt_mongodb::{MongoClassifier, MongoFailure, NotEligible, ReadGate};

/// Longer replies are decoded on a thread of a runtime, which a target does without.
const LIMIT: usize = 1 << 12;

const GATES: [Option<ReadGate>; 4] = [
    None,
    Some(ReadGate::Retry),
    Some(ReadGate::Overload(NotEligible::Operation)),
    Some(ReadGate::Once(NotEligible::Disabled)),
];

fuzz_target!(|data: &[u8]| {
    // Header, lengths and end are fixed, so that the input is used for the elements.
    let mut document = (data.len() as i32 + 5).to_le_bytes().to_vec();
    document.extend(data);
    document.push(0);
    let length = 16 + 4 + 1 + document.len() as i32;
    let mut message = [length, 1, 2, 2013, 0].map(i32::to_le_bytes).concat();
    message.push(0);
    message.extend(&document);
    let read =
        pin!(read_reply(&mut &message[..], LIMIT)).poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(read) = read else {
        panic!("all bytes were there");
    };
    let whole = decode_document(&document);
    let (Ok(Some(read)), Ok(document)) = (read, whole) else {
        return;
    };
    assert_eq!(read.bytes, message.len());
    let reply = MongoReply::new(read.document, read.list);
    assert_ne!(reply.cursor_id(), Some(0));
    if reply.list.is_some() {
        assert_eq!(reply.values().count(), reply.count());
    }
    let _ = (reply.collection(), reply.operation_time(), reply.counted());
    let _ = WriteError::of(&reply).map(|error| error.to_string());

    for handshake in [false, true] {
        let origin = Origin {
            server: "a:1".to_owned(),
            max_wire_version: Some(21),
            connection: Some(1),
        };
        let error = MongoError::from(ServerError::read(origin, document.clone(), 1, handshake));
        let _ = error.to_string();
        assert!(error.base_backoff().is_none_or(|base| !base.is_zero()));
        for classifier in [MongoClassifier::seed_2022(), MongoClassifier::current()] {
            for gate in &GATES {
                let verdict = classifier.verdict_on(&error, gate.as_ref());
                let retried = matches!(verdict, Verdict::Retry(_));
                match gate {
                    Some(ReadGate::Once(_)) => assert!(!retried),
                    Some(ReadGate::Overload(_)) => {
                        assert!(!retried || MongoFailure::labels(&error).is_retryable_overload());
                    }
                    _ => {}
                }
            }
        }
    }
});

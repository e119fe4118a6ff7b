use std::collections::BTreeSet;
use std::time::Duration;

use reattempt::health::Outcome;
use reattempt::reason::*;
use reattempt::{
    Call, CallContext, Classify, Failure, Idempotency, ReadPushback, RetryReason, ServerPushback,
    Stage, Verdict,
};

use crate::kv::*;
use crate::testing::{Answer, Lost, Request, map};

fn verdict(classifier: KvClassifier, answer: &Answer) -> Verdict {
    let outcome: Result<_, &Lost> = Ok(answer);
    classifier.classify(outcome, &CallContext::default())
}

/// The reason to retry after this response, if there is one.
fn retried(classifier: KvClassifier, answer: &Answer) -> Option<RetryReason> {
    match verdict(classifier, answer) {
        Verdict::Retry(failure) => {
            assert_eq!(failure.stage, Stage::Response);
            assert_eq!(failure.code, Some(answer.status.into()));
            Some(failure.reason)
        }
        _ => None,
    }
}

const DEFAULT: KvClassifier = KvClassifier::new();
const CURRENT: KvClassifier = KvClassifier::new().with_current_server_codes();

/// C33 C34 C35 C36 C37
#[test]
fn of_all_known_statuses_six_are_sent_again() {
    let retryable: Vec<_> = Status::KNOWN
        .iter()
        .filter_map(|status| Some((status.0, retried(DEFAULT, &Answer::of(status.0))?)))
        .collect();
    assert_eq!(
        retryable,
        [
            (0x07, KV_NOT_MY_VBUCKET),
            (0x09, KV_LOCKED),
            (0x86, KV_TEMPORARY_FAILURE),
            (0x88, KV_COLLECTION_OUTDATED),
            (0xa2, KV_SYNC_WRITE_IN_PROGRESS),
            (0xa4, KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS),
        ]
    );
}

#[test]
fn of_all_final_statuses_four_are_the_nodes_failures() {
    let failed = Status::KNOWN.iter().filter(|status| {
        let verdict = verdict(DEFAULT, &Answer::of(status.0));
        matches!(verdict, Verdict::Fatal(failure) if !failure.is_answer())
    });
    let failed: Vec<_> = failed.map(|status| status.0).collect();
    assert_eq!(failed, [0x25, 0x82, 0x84, 0xa3]);
}

#[test]
fn an_unknown_status_is_an_answer_only_if_its_attributes_say_so() {
    let words = [
        ("success", true),
        ("item-only", true),
        ("invalid-input", true),
        ("auth", true),
        ("support", true),
        ("subdoc", true),
        ("item-locked retry-now no-retry", true),
        ("item-deleted", true),
        ("rate-limit", true),
        ("guard-rail", true),
        ("system-constraint", false),
        ("item-only internal", true),
        ("internal", false),
        ("temp", false),
        ("retry-now no-retry", false),
    ];
    for (words, expected) in words {
        let answer = Answer::of(0xff0).map(&map(&[("ff0", words, "")]));
        let Verdict::Fatal(failure) = verdict(DEFAULT, &answer) else {
            panic!("{words}");
        };
        assert_eq!(failure.is_answer(), expected, "{words}");
    }
    let unmapped = verdict(DEFAULT, &Answer::of(0xff0));
    assert!(matches!(unmapped, Verdict::Fatal(failure) if !failure.is_answer()));
}

/// Calls that wait for a locked document say nothing against its node.
#[test]
fn a_retried_answer_about_the_document_is_no_failure() {
    let outcome = |answer: &Answer| Outcome::of(&verdict(DEFAULT, answer));
    for status in [0x07, 0x09, 0x88, 0xa2, 0xa4] {
        let outcome = outcome(&Answer::of(status));
        assert_eq!(outcome, Outcome::Success, "{status:#x}");
    }
    assert_eq!(outcome(&Answer::of(0x86)), Outcome::Failure);
    for (words, expected) in [
        ("item-only item-locked retry-now", Outcome::Success),
        ("temp retry-later", Outcome::Failure),
    ] {
        let answer = Answer::of(0xff0).map(&map(&[("ff0", words, "")]));
        assert_eq!(
            retried(DEFAULT, &answer),
            Some(KV_ERROR_MAP_RETRY_INDICATED)
        );
        assert_eq!(outcome(&answer), expected, "{words}");
    }
}

/// C33 C36: also with the codes that current clients handle.
#[test]
fn the_option_adds_four_statuses() {
    let added: Vec<_> = Status::KNOWN
        .iter()
        .filter(|status| retried(DEFAULT, &Answer::of(status.0)).is_none())
        .filter_map(|status| Some((status.0, retried(CURRENT, &Answer::of(status.0))?)))
        .collect();
    assert_eq!(
        added,
        [
            (0x0c, SERVICE_RESPONSE_CODE_INDICATED),
            (0x0d, SERVICE_RESPONSE_CODE_INDICATED),
            (0x85, KV_TEMPORARY_FAILURE),
            (0x8c, KV_COLLECTION_OUTDATED),
        ]
    );
}

#[test]
fn any_other_known_status_is_final_with_its_code() {
    assert_eq!(verdict(DEFAULT, &Answer::of(0)), Verdict::Success);
    let not_found = Failure::new(UNKNOWN, Stage::Response).code(1);
    assert_eq!(verdict(DEFAULT, &Answer::of(1)), Verdict::Fatal(not_found));
}

/// A step of an authentication is not a successful read, whatever the node returns.
#[test]
fn what_is_half_a_success_is_one_of_its_own_operations_only() {
    for opcode in (0..=255).map(Opcode) {
        for (status, of) in [
            (0x00, true),
            (0x21, (0x21..=0x22).contains(&opcode.0)),
            (0xa6, opcode == Opcode::RANGE_SCAN_CONTINUE),
            (0xa7, opcode == Opcode::RANGE_SCAN_CONTINUE),
            (0xcd, (0xc5..=0xd3).contains(&opcode.0)),
        ] {
            let answer = Answer::of(status).to(opcode);
            let success = verdict(DEFAULT, &answer) == Verdict::Success;
            assert_eq!(success, of, "{status:#x} to {opcode}");
            assert_eq!(retried(CURRENT, &answer), None);
        }
    }
}

/// C34
#[test]
fn an_unknown_collection_is_the_answer_to_a_lookup_of_its_id() {
    let answer = Answer::of(0x88).to(Opcode::COLLECTIONS_GET_ID);
    assert_eq!(retried(DEFAULT, &answer), None);
    for opcode in [Opcode::COLLECTIONS_GET_ID, Opcode::COLLECTIONS_GET_SCOPE_ID] {
        assert_eq!(retried(CURRENT, &Answer::of(0x8c).to(opcode)), None);
    }
}

/// C35
#[test]
fn an_unlock_that_meets_a_lock_is_final() {
    assert_eq!(retried(DEFAULT, &Answer::of(0x09).to(Opcode::UNLOCK)), None);
}

/// C40
#[test]
fn replication_and_connection_setup_are_left_out() {
    for opcode in (0..=255).map(Opcode) {
        let left_out = (0x50..=0x67).contains(&opcode.0)
            || [0x1f, 0x20, 0x21, 0x22, 0x89, 0xfe].contains(&opcode.0);
        for status in [0x07, 0x86, 0xa2, 0xa4] {
            let answer = Answer::of(status).to(opcode);
            assert_eq!(retried(CURRENT, &answer).is_none(), left_out, "{opcode}");
        }
    }
}

/// C16 C17 C18 C21
#[test]
fn of_an_unknown_status_the_map_decides() {
    let map = map(&[
        ("f0", "temp", ""),
        ("f1", "retry-now", ""),
        ("f2", "temp retry-later of-tomorrow", ""),
        ("f3", "auto-retry", ""),
        ("f4", "retry-now retry-later auto-retry no-retry", ""),
        ("f5", "item-locked auth", ""),
        ("f7", "success subdoc", ""),
        ("ff01", "retry-now", ""),
    ]);
    let retried = |status| retried(DEFAULT, &Answer::of(status).map(&map));
    for status in [0xf1, 0xf2, 0xf3, 0xff01] {
        assert_eq!(retried(status), Some(KV_ERROR_MAP_RETRY_INDICATED));
    }
    for status in [0xf0, 0xf4, 0xf5, 0xf6] {
        assert_eq!(retried(status), None, "{status:x}");
    }
    // RFC 0013 uses no attribute but those of a retry: the caller reads the status.
    let marked = verdict(DEFAULT, &Answer::of(0xf7).map(&map));
    let failure = Failure::new(UNKNOWN, Stage::Response).code(0xf7);
    assert_eq!(marked, Verdict::Fatal(failure.server_failed(false)));
    assert_eq!(super::super::Status(0xf1).name(), None);
    let unmapped: Option<RetryReason> = {
        let answer = Answer::of(0xf1);
        self::retried(DEFAULT, &answer)
    };
    assert_eq!(unmapped, None, "without a map it is not retryable");
}

/// C16
#[test]
fn a_known_status_beats_the_map() {
    let map = map(&[
        ("1", "retry-now", ""),
        ("c", "retry-later", ""),
        ("d", "fetch-config retry-now", ""),
        ("82", "retry-later", ""),
        ("85", "retry-now", ""),
        ("86", "no-retry conn-state-invalidated", ""),
        ("8c", "retry-now", ""),
        ("a3", "retry-now", ""),
    ]);
    for status in [0x01, 0x0c, 0x0d, 0x82, 0x85, 0x8c, 0xa3] {
        let answer = Answer::of(status).map(&map);
        assert_eq!(retried(DEFAULT, &answer), None, "{status:x}");
    }
    let answer = Answer::of(0x82).map(&map);
    assert_eq!(retried(CURRENT, &answer), None, "final with the option too");
    let answer = Answer::of(0x86).map(&map);
    assert_eq!(retried(DEFAULT, &answer), Some(KV_TEMPORARY_FAILURE));
    assert!(!Status(0x86).closes_connection(Some(&map)));
}

/// C19 C20 C39
#[test]
fn some_statuses_cost_the_connection() {
    let map = map(&[
        ("f0", "conn-state-invalidated retry-now", ""),
        ("f1", "special-handling", ""),
        ("f2", "fetch-config retry-now", ""),
    ]);
    let closing: Vec<_> = (0..=0xff)
        .filter(|status| Status(*status).closes_connection(Some(&map)))
        .collect();
    assert_eq!(closing, [0x08, 0x1f, 0x25, 0x84, 0xf0, 0xf1]);
    assert!(Status(0xf2).attributes(Some(&map)).fetch_config());
    let both = Answer::of(0xf2).map(&map);
    assert_eq!(retried(DEFAULT, &both), Some(KV_ERROR_MAP_RETRY_INDICATED));
}

/// C12 C13
#[test]
fn how_far_a_lost_attempt_came_decides_on_it() {
    let verdict = |error: &dyn Fn() -> Lost| {
        let outcome: Result<&Answer, _> = Err(&error());
        DEFAULT.classify(outcome, &CallContext::default())
    };
    assert_eq!(
        verdict(&|| Lost::At(Stage::Dispatch)),
        Verdict::Retry(Failure::new(SOCKET_NOT_AVAILABLE, Stage::Dispatch))
    );
    let in_flight = Failure::new(SOCKET_CLOSED_WHILE_IN_FLIGHT, Stage::InFlight);
    assert!(!in_flight.safe);
    assert_eq!(
        verdict(&|| Lost::At(Stage::InFlight)),
        Verdict::Retry(in_flight)
    );
    assert_eq!(verdict(&|| Lost::ForGood), Verdict::Fatal(in_flight));
}

/// C12: whatever the client reports, a lost response never allows a second write.
#[test]
fn a_client_cannot_call_a_lost_answer_safe() {
    struct Careless(RetryReason);
    impl KvTransportError for Careless {
        fn stage(&self) -> Stage {
            Stage::InFlight
        }
        fn reason(&self) -> RetryReason {
            self.0
        }
    }
    for (reason, counts_as) in [
        (NODE_NOT_AVAILABLE, SOCKET_CLOSED_WHILE_IN_FLIGHT),
        (KV_NOT_MY_VBUCKET, SOCKET_CLOSED_WHILE_IN_FLIGHT),
        (KV_LOCKED, SOCKET_CLOSED_WHILE_IN_FLIGHT),
        (UNKNOWN, UNKNOWN),
    ] {
        let outcome: Result<&Answer, _> = Err(&Careless(reason));
        let verdict = DEFAULT.classify(outcome, &CallContext::default());
        let failure = verdict.failure().unwrap();
        assert!(!failure.safe && !failure.reason.always_retry(), "{reason}");
        assert_eq!(failure.reason, counts_as);
    }
}

/// C13: and the client cannot make an unsent request unsafe.
#[test]
fn what_was_never_sent_is_safe_whatever_the_client_calls_it() {
    struct Careless;
    impl KvTransportError for Careless {
        fn stage(&self) -> Stage {
            Stage::Dispatch
        }
        fn reason(&self) -> RetryReason {
            UNKNOWN
        }
    }
    assert!(!UNKNOWN.allows_non_idempotent_retry());
    let outcome: Result<&Answer, _> = Err(&Careless);
    let verdict = DEFAULT.classify(outcome, &CallContext::default());
    assert!(verdict.failure().unwrap().safe);
}

/// C31
#[test]
fn twelve_operations_are_idempotent() {
    let idempotent: BTreeSet<_> = (0..=255)
        .filter(|code| Opcode(*code).is_idempotent())
        .collect();
    let listed = [
        0x00, 0x0a, 0x83, 0x91, 0x92, 0xb5, 0xba, 0xbb, 0xc5, 0xc6, 0xd0, 0xd2,
    ];
    assert_eq!(idempotent, BTreeSet::from(listed));
}

/// C31
#[test]
fn the_callers_word_on_idempotency_beats_the_operations() {
    use reattempt::HasCallContext;
    let mut touch = Call::new(Request {
        opcode: Opcode::GET_AND_TOUCH,
        key: None,
    });
    attach_idempotency(&mut touch);
    let said = |call: &Call<Request>| call.context().unwrap().idempotency();
    assert_eq!(said(&touch), Idempotency::NotIdempotent);
    let mut get = Call::new(Request::get(b"k"));
    get.context_mut()
        .set_idempotency(Idempotency::NotIdempotent);
    attach_idempotency(&mut get);
    assert_eq!(said(&get), Idempotency::NotIdempotent);
}

#[test]
fn a_throttled_request_comes_back_when_the_server_says() {
    let read = |answer: &Answer| {
        let outcome: Result<_, &Lost> = Ok(answer);
        KvPushback::new()
            .read(outcome, &CallContext::default())
            .valid()
    };
    let mut throttled = Answer::of(0x0c);
    assert_eq!(read(&throttled), None);
    throttled.framing_extras = vec![0x32, 0, 100];
    // 100 ^ 1.74 / 2 = 1509.9 µs.
    let after = ServerPushback::After(Duration::from_micros(1509));
    assert_eq!(read(&throttled), Some(after));
    throttled.framing_extras = vec![0x32, 0, 0];
    assert_eq!(read(&throttled), None, "the strategy's own back-off");
    throttled.status = 0x00;
    assert_eq!(read(&throttled), None, "throttled, but successful");
}

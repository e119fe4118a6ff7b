//! Which errors are retryable, by kind, code, label and gate.

use reattempt::admission::was_accepted;
use reattempt::health::Outcome;
use reattempt::strategy::RetryOnce;
use reattempt::test_util::FailingCall;
use reattempt::{RoutePolicy, StopReason};

use super::*;
use crate::labels::{RETRYABLE_ERROR, SYSTEM_OVERLOADED_ERROR};
use crate::{ReadOperation, RetryReads};

struct Broken(FailureKind);

impl MongoFailure for Broken {
    fn kind(&self) -> FailureKind {
        self.0
    }
}

fn is_retryable(kind: FailureKind) -> bool {
    matches!(
        MongoClassifier::seed_2022().verdict(kind),
        Verdict::Retry(_)
    )
}

fn classify(kind: FailureKind, context: &CallContext) -> Verdict {
    let error = Broken(kind);
    MongoClassifier::seed_2022().classify(Err::<&(), _>(&error), context)
}

/// M3
#[test]
fn a_network_exception_is_retryable_at_every_stage() {
    for stage in [Stage::Dispatch, Stage::InFlight, Stage::Response] {
        assert!(is_retryable(FailureKind::Network { stage }), "{stage:?}");
    }
}

/// M4
#[test]
fn each_code_of_the_table_is_retryable_and_kept() {
    for row in codes::SEED_2022 {
        let kind = FailureKind::command(Some(row.code.into()));
        let failure = *MongoClassifier::seed_2022()
            .verdict(kind)
            .failure()
            .unwrap();
        assert!(is_retryable(kind), "{}", row.name);
        assert_eq!((failure.code, failure.reason), (Some(row.code), row.reason));
    }
}

/// M4
#[test]
fn the_later_codes_are_retryable_by_option() {
    for code in [134, 262] {
        let kind = FailureKind::command(Some(code));
        assert!(!is_retryable(kind));
        let later = MongoClassifier::seed_2022().with_codes_134_and_262();
        assert!(matches!(later.verdict(kind), Verdict::Retry(_)));
    }
}

#[test]
fn a_command_that_cannot_be_built_says_nothing_of_the_server() {
    let outcome = |kind| Outcome::of(&MongoClassifier::seed_2022().verdict(kind));
    assert_eq!(outcome(FailureKind::Invalid), Outcome::Nothing);
    // What is not known may be the server's doing.
    for (stage, expected) in [
        (Stage::Dispatch, Outcome::Failure),
        (Stage::InFlight, Outcome::Lost),
        (Stage::Response, Outcome::Failure),
    ] {
        assert_eq!(outcome(FailureKind::Client { stage }), expected);
    }
    // Its server could not be reached.
    assert_eq!(outcome(FailureKind::Selection), Outcome::Failure);
}

/// A connection that breaks is one failure of its server, however many calls wait for another.
#[test]
fn a_cleared_pool_says_nothing_of_the_server() {
    let verdict = MongoClassifier::seed_2022().verdict(FailureKind::PoolCleared);
    assert_eq!(Outcome::of(&verdict), Outcome::Nothing);
    assert!(verdict.failure().unwrap().safe);
    assert_eq!(
        was_accepted(StopReason::Attempts, true, || verdict.failure().copied()),
        None
    );
}

/// M5
#[test]
fn a_cleared_pool_is_retryable_and_no_other_pool_error() {
    assert!(is_retryable(FailureKind::PoolCleared));
    assert!(!is_retryable(FailureKind::WaitQueueTimeout));
}

/// M6
#[test]
fn the_handshake_is_judged_like_a_command_and_was_never_sent() {
    let kind = FailureKind::handshake(Some(91));
    assert!(is_retryable(kind));
    assert!(is_retryable(FailureKind::network_before_sending()));
    assert!(
        !is_retryable(FailureKind::handshake(Some(18))),
        "a refused login"
    );
    assert!(
        MongoClassifier::seed_2022()
            .verdict(kind)
            .failure()
            .unwrap()
            .safe
    );
}

/// M7
#[test]
fn an_answer_is_a_success_whatever_is_in_it() {
    let answer = Ok::<_, &Broken>(&"{ ok: 1, writeConcernError: { code: 91 } }");
    let verdict = MongoClassifier::seed_2022().classify(answer, &CallContext::default());
    assert_eq!(verdict, Verdict::Success);
}

/// M8, E5
#[test]
fn everything_else_is_final() {
    for code in [50, 11601, 43, 13, 18, 0, -1, i64::MAX, i64::MIN] {
        assert!(!is_retryable(FailureKind::command(Some(code))), "{code}");
    }
    assert!(!is_retryable(FailureKind::command(None)));
    assert!(!is_retryable(FailureKind::Client {
        stage: Stage::Response
    }));
}

#[test]
fn an_internal_error_is_no_answer() {
    let is_answer = |code| {
        let verdict = classify(FailureKind::command(Some(code)), &CallContext::default());
        verdict.failure().unwrap().is_answer()
    };
    assert!(is_answer(26) && !is_answer(1) && !is_answer(8));
}

/// An overload error with its own back-off.
struct Overloaded;

impl MongoFailure for Overloaded {
    fn kind(&self) -> FailureKind {
        FailureKind::command(Some(462))
    }

    fn labels(&self) -> ErrorLabels {
        ErrorLabels::read([SYSTEM_OVERLOADED_ERROR, RETRYABLE_ERROR])
    }

    fn base_backoff(&self) -> Option<Duration> {
        Some(Duration::from_millis(30))
    }
}

#[test]
fn a_boxed_or_shared_error_is_judged_as_the_error_itself() {
    // The option for overload errors alone.
    let classifier = MongoClassifier::seed_2022().with_overload_errors();
    let verdict = classifier.verdict_on(&Overloaded, None);
    let Verdict::Retry(failure) = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(failure.reason, MONGODB_SYSTEM_OVERLOADED);
    let detail = FailureDetail::of(&failure);
    assert_eq!(detail.base_backoff, Some(Duration::from_millis(30)));
    assert_eq!(classifier.verdict_on(&Box::new(Overloaded), None), verdict);
    assert_eq!(classifier.verdict_on(&Arc::new(Overloaded), None), verdict);
}

#[test]
fn no_failure_of_a_read_is_retried_by_force() {
    let classifier = MongoClassifier::current();
    assert!(!Classify::<(), Broken>::may_force(&classifier));
}

/// M13
#[test]
fn a_failed_selection_is_final() {
    assert!(!is_retryable(FailureKind::Selection));
    assert!(!is_retryable(FailureKind::NotSupported));
}

/// M14
#[test]
fn a_gated_calls_first_failure_is_fatal() {
    let mut context = CallContext::default();
    RetryReads::default().attach(&mut context, ReadOperation::Find, true);
    for kind in [FailureKind::command(Some(189)), FailureKind::PoolCleared] {
        assert!(matches!(classify(kind, &context), Verdict::Fatal(_)));
    }
}

/// M12 M14
#[test]
fn a_failure_on_an_old_server_is_fatal() {
    for (version, retried) in [(5, false), (6, true)] {
        let mut context = CallContext::default();
        RetryReads::default().attach(&mut context, ReadOperation::Find, false);
        let context = FailingCall::new(context).context;
        crate::report_wire_version(&context.reporter(), version);
        for kind in [FailureKind::command(Some(189)), FailureKind::PoolCleared] {
            let verdict = classify(kind, &context);
            assert_eq!(matches!(verdict, Verdict::Retry(_)), retried, "{version}");
        }
    }
}

/// M10
#[test]
fn no_policy_on_one_call_switches_retries_on() {
    let mut with_strategy = CallContext::default();
    with_strategy.set_strategy(Arc::new(RetryOnce));
    let mut with_policy = CallContext::default();
    with_policy.set_policy(Arc::new(
        RoutePolicy::new("the caller's own").retry(RetryOnce),
    ));
    for mut context in [with_strategy, with_policy] {
        RetryReads::new(false).attach(&mut context, ReadOperation::Find, false);
        let verdict = classify(FailureKind::PoolCleared, &context);
        assert!(matches!(verdict, Verdict::Fatal(_)));
    }
}

#[test]
fn without_a_gate_only_what_was_never_sent_is_safe() {
    let context = CallContext::default();
    let safe = |kind| {
        classify(kind, &context)
            .failure()
            .is_some_and(|failure| failure.safe)
    };
    assert!(!safe(FailureKind::network_in_flight()));
    assert!(safe(FailureKind::network_before_sending()));
    assert!(safe(FailureKind::PoolCleared));
}

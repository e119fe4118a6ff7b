//! Calls of a read, driven through the machine by hand.

use std::time::Instant;

use reattempt::machine::{Action, Keep, Wait};
use reattempt::test_util::FailingCall;
use reattempt::{AttemptKind, CallContext, CallDeadline, StopReason};

use super::*;
use crate::FailureKind as Kind;
use crate::labels::{NO_WRITES_PERFORMED, RETRYABLE_ERROR, SYSTEM_OVERLOADED_ERROR};
use crate::{
    ErrorLabels, MongoClassifier, MongoFailure, NotEligible, ReadGate, ReadOperation, RetryReads,
    report_wire_version,
};

/// An error of this kind with these labels and this `baseBackoffMS`.
#[derive(Clone, Copy, Debug)]
struct Broken(Kind, &'static [&'static str], Option<u64>);

impl MongoFailure for Broken {
    fn kind(&self) -> Kind {
        self.0
    }

    fn labels(&self) -> ErrorLabels {
        ErrorLabels::read(self.1)
    }

    fn base_backoff(&self) -> Option<Duration> {
        self.2.map(Duration::from_millis)
    }
}

/// One call of a read, driven through the machine by hand.
struct Read {
    strategy: RetryableReads,
    classifier: MongoClassifier,
    gate: ReadGate,
    call: FailingCall,
    now: Instant,
}

impl Read {
    fn begin(strategy: RetryableReads) -> Self {
        #[allow(
            clippy::disallowed_methods,
            reason = "a base for arithmetic; no time passes here"
        )]
        let now = Instant::now();
        let mut context = CallContext::default();
        RetryReads::default().attach(&mut context, ReadOperation::Find, false);
        Self {
            strategy,
            classifier: MongoClassifier::seed_2022(),
            gate: ReadGate::Retry,
            call: FailingCall::new(context),
            now,
        }
    }

    fn seed() -> Self {
        Self::begin(RetryableReads::seed_2022())
    }

    /// Fails the current attempt; if another is due, it becomes the current one.
    fn fails(&mut self, kind: Kind) -> Action {
        self.fails_with(&Broken(kind, &[], None))
    }

    fn fails_with(&mut self, error: &Broken) -> Action {
        let verdict = self.classifier.verdict_on(error, Some(&self.gate));
        self.call.fails(self.now, &verdict, &self.strategy)
    }

    fn stopped(&self) -> Option<StopReason> {
        self.call.context.info().stopped()
    }
}

fn surfaced(action: &Action) -> Surface {
    match action {
        Action::Return(surface) => *surface,
        other => panic!("the call should have ended, got {other:?}"),
    }
}

/// Which failure is kept during the next attempt.
fn kept(action: &Action) -> Keep {
    match action {
        Action::Wait(wait) => wait.keep,
        other => panic!("another attempt should follow, got {other:?}"),
    }
}

const STEPPED_DOWN: Kind = Kind::command(Some(189));

/// M1 M2 M15
#[test]
fn a_retryable_error_is_retried_once_and_at_once() {
    let mut read = Read::seed();
    let Action::Wait(wait) = read.fails(STEPPED_DOWN) else {
        panic!("one retry is due")
    };
    let at_once = Wait {
        until: None,
        kind: AttemptKind::Retry,
        keep: Keep::New,
        nudge: false,
        spends: Some(Surface::New),
    };
    assert_eq!(wait, at_once);
    assert_eq!(surfaced(&read.fails(STEPPED_DOWN)), Surface::New);
    assert_eq!(read.stopped(), Some(StopReason::Attempts));
    assert_eq!(read.call.context.info().attempts(), 2);
}

/// M8 M15
#[test]
fn any_other_error_ends_the_call() {
    let mut read = Read::seed();
    assert_eq!(surfaced(&read.fails(Kind::command(Some(50)))), Surface::New);
    assert_eq!(read.stopped(), Some(StopReason::Fatal));
}

/// M13
#[test]
fn the_first_selection_error_goes_to_the_caller() {
    assert_eq!(surfaced(&Read::seed().fails(Kind::Selection)), Surface::New);
}

/// M12 M14
#[test]
fn a_server_that_is_too_old_runs_the_read_once() {
    let mut read = Read::seed();
    report_wire_version(&read.call.context.reporter(), 5);
    assert_eq!(surfaced(&read.fails(STEPPED_DOWN)), Surface::New);
    assert_eq!(read.call.context.info().attempts(), 1);
}

/// M30
#[test]
fn an_attempt_that_died_at_checkout_uses_the_retry_up() {
    for first in [
        Kind::PoolCleared,
        Kind::network_before_sending(),
        Kind::handshake(Some(91)),
    ] {
        let mut read = Read::seed();
        assert!(matches!(read.fails(first), Action::Wait(_)));
        assert_eq!(surfaced(&read.fails(STEPPED_DOWN)), Surface::New);
    }
}

/// M22 M23 M24 M29
#[test]
fn a_second_failure_before_the_server_raises_the_original() {
    let never_sent = [
        Kind::Selection,
        Kind::PoolCleared,
        Kind::WaitQueueTimeout,
        Kind::network_before_sending(),
        Kind::handshake(Some(18)),
        Kind::handshake(Some(91)),
        Kind::NotSupported,
        Kind::Client {
            stage: Stage::Dispatch,
        },
    ];
    for second in never_sent {
        let mut read = Read::seed();
        read.fails(STEPPED_DOWN);
        assert_eq!(surfaced(&read.fails(second)), Surface::Held, "{second:?}");
    }
}

/// M27 M28
#[test]
fn a_second_failure_that_shows_an_attempt_is_raised() {
    let shown = [
        STEPPED_DOWN,
        Kind::command(Some(50)),
        Kind::command(None),
        Kind::network_in_flight(),
        Kind::Client {
            stage: Stage::Response,
        },
    ];
    for second in shown {
        let mut read = Read::seed();
        read.fails(Kind::network_in_flight());
        assert_eq!(surfaced(&read.fails(second)), Surface::New, "{second:?}");
    }
}

/// M22
#[test]
fn what_the_transport_knows_of_the_second_attempt_decides() {
    let mut read = Read::seed();
    read.fails(STEPPED_DOWN);
    read.call.context.reporter().stage(Stage::Dispatch);
    assert_eq!(
        surfaced(&read.fails(Kind::network_in_flight())),
        Surface::Held
    );
}

#[test]
fn it_retries_until_the_deadline_and_raises_the_last_sent() {
    let mut read = Read::begin(RetryableReads::seed_2022().until_deadline());
    let limit = read.now + Duration::from_secs(1);
    read.call
        .context
        .attach_deadline(CallDeadline::attached(limit));
    for kind in [STEPPED_DOWN, Kind::network_in_flight()] {
        assert_eq!(kept(&read.fails(kind)), Keep::New);
    }
    assert_eq!(kept(&read.fails(Kind::PoolCleared)), Keep::Held);
    read.now = limit;
    assert_eq!(surfaced(&read.fails(Kind::PoolCleared)), Surface::Held);
    assert_eq!(read.stopped(), Some(StopReason::Deadline));
}

#[test]
fn without_a_deadline_there_is_still_only_one_retry() {
    let mut read = Read::begin(RetryableReads::seed_2022().until_deadline());
    assert!(matches!(read.fails(STEPPED_DOWN), Action::Wait(_)));
    assert_eq!(surfaced(&read.fails(STEPPED_DOWN)), Surface::New);
}

const BOTH: &[&str] = &[SYSTEM_OVERLOADED_ERROR, RETRYABLE_ERROR];

/// A busy server's own code, with both labels.
const BUSY: Broken = Broken(Kind::command(Some(462)), BOTH, None);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn by_2026(strategy: RetryableReads) -> Read {
    Read {
        classifier: MongoClassifier::current(),
        ..Read::begin(strategy)
    }
}

/// A call by the rules of 2026 whose jitter always returns this share.
fn current(roll: f64) -> Read {
    let strategy = RetryableReads::current().randomness(Randomness::Fixed(roll));
    by_2026(strategy)
}

impl Read {
    /// The delay before the next attempt, if there is one.
    fn waits_after(&mut self, error: &Broken) -> Option<Duration> {
        match self.fails_with(error) {
            Action::Wait(wait) => Some(wait.until.map_or(Duration::ZERO, |until| until - self.now)),
            _ => None,
        }
    }

    fn limited(mut self, to: Duration) -> Self {
        let at = self.now + to;
        self.call
            .context
            .attach_deadline(CallDeadline::enforced(at));
        self
    }
}

#[test]
fn an_overloaded_server_gets_two_retries_with_growing_delays() {
    let mut read = current(1.0);
    assert_eq!(read.waits_after(&BUSY), Some(ms(200)));
    assert_eq!(read.waits_after(&BUSY), Some(ms(400)));
    assert_eq!(surfaced(&read.fails_with(&BUSY)), Surface::New);
    assert_eq!(read.stopped(), Some(StopReason::Attempts));
    assert_eq!(read.call.context.info().attempts(), 3);
}

#[test]
fn the_delay_is_a_random_share() {
    let mut read = current(0.25);
    assert_eq!(read.waits_after(&BUSY), Some(ms(50)));
    assert_eq!(current(0.0).waits_after(&BUSY), Some(ms(0)));
}

#[test]
fn the_servers_own_base_replaces_the_usual_one() {
    let mut read = current(1.0);
    let with_base = |base| Broken(BUSY.0, BOTH, Some(base));
    assert_eq!(read.waits_after(&with_base(50)), Some(ms(100)));
    let asked = read.waits_after(&with_base(0));
    assert_eq!(asked, Some(ms(400)), "0 asks for nothing");
    for base in [50_000, u64::MAX] {
        let longest = current(1.0).waits_after(&with_base(base));
        assert_eq!(longest, Some(ms(10_000)));
    }
}

/// An overload error needs both labels; with one, only its code counts.
#[test]
fn one_label_alone_is_no_overload_error() {
    const ALONE: [&[&str]; 3] = [
        &[SYSTEM_OVERLOADED_ERROR],
        &[RETRYABLE_ERROR],
        &[NO_WRITES_PERFORMED],
    ];
    for labels in ALONE {
        let mut read = current(1.0);
        assert_eq!(read.waits_after(&Broken(BUSY.0, labels, None)), None);
        assert_eq!(read.stopped(), Some(StopReason::Fatal), "{labels:?}");
    }
}

/// A code of the table is retryable without labels, and waits if the server reports overload.
#[test]
fn a_retryable_code_of_a_busy_server_waits_too() {
    let busy = Broken(STEPPED_DOWN, &[SYSTEM_OVERLOADED_ERROR], None);
    assert_eq!(current(1.0).waits_after(&busy), Some(ms(200)));
    let not_busy = Broken(STEPPED_DOWN, &[RETRYABLE_ERROR], None);
    assert_eq!(current(1.0).waits_after(&not_busy), Some(ms(0)));
}

/// A network exception of the handshake, labelled by the pool.
#[test]
fn a_client_may_label_its_own_errors() {
    let refused = Broken(Kind::network_before_sending(), BOTH, None);
    assert_eq!(current(1.0).waits_after(&refused), Some(ms(200)));
}

/// Without one the retries until the deadline are only spread; its cap applies to the whole call.
#[test]
fn one_overload_error_caps_the_whole_call() {
    let down = Broken(STEPPED_DOWN, &[], None);
    let mut read = current(1.0);
    assert_eq!(read.waits_after(&down), Some(ms(0)));
    // The exponent counts every retry.
    assert_eq!(read.waits_after(&BUSY), Some(ms(400)));
    assert_eq!(read.waits_after(&down), None);

    let mut read = current(1.0).limited(ms(60_000));
    assert_eq!(read.waits_after(&BUSY), Some(ms(200)));
    assert_eq!(read.waits_after(&down), Some(ms(0)));
    // Also with a deadline far away.
    assert_eq!(read.waits_after(&down), None);

    let mut read = current(1.0);
    assert_eq!(read.waits_after(&down), Some(ms(0)));
    // Without one there is one retry.
    assert_eq!(read.waits_after(&down), None);
    assert_eq!(read.stopped(), Some(StopReason::Attempts));

    let mut read = current(1.0).limited(ms(60_000));
    for _ in 0..16 {
        assert_eq!(read.waits_after(&down), Some(ms(0)), "until the deadline");
    }
    for most in [1, 2, 4, 8, 16, 32, 64, 100, 100] {
        assert_eq!(read.waits_after(&down), Some(ms(most)));
    }
    assert_eq!(read.waits_after(&BUSY), None, "earlier retries count");
}

#[test]
fn a_delay_beyond_the_deadline_is_not_begun() {
    let mut read = current(1.0).limited(ms(150));
    assert_eq!(surfaced(&read.fails_with(&BUSY)), Surface::New);
    assert_eq!(read.stopped(), Some(StopReason::Deadline));
    assert_eq!(
        current(1.0).limited(ms(250)).waits_after(&BUSY),
        Some(ms(200))
    );

    // The waits from the 17th retry on, too: 1, 2, 4, 8 and 16 ms fit, 32 ms do not.
    let down = Broken(STEPPED_DOWN, &[], None);
    let mut read = current(1.0).limited(ms(20));
    for _ in 0..16 + 5 {
        assert!(read.waits_after(&down).is_some());
    }
    assert_eq!(surfaced(&read.fails_with(&down)), Surface::New);
    assert_eq!(read.stopped(), Some(StopReason::Deadline));
}

#[test]
fn max_adaptive_retries_is_an_option() {
    let with = |max| {
        let strategy = RetryableReads::current().overload_backoff(max);
        by_2026(strategy.randomness(Randomness::Fixed(1.0)))
    };
    assert_eq!(with(0).waits_after(&BUSY), None);
    let down = Broken(STEPPED_DOWN, &[], None);
    assert_eq!(
        with(0).waits_after(&down),
        Some(ms(0)),
        "other errors keep their retry"
    );
    let mut one = with(1);
    assert_eq!(one.waits_after(&BUSY), Some(ms(200)));
    assert_eq!(one.waits_after(&BUSY), None);
}

/// E10: the exponent saturates.
#[test]
fn no_number_of_retries_overflows_the_delay() {
    let strategy = RetryableReads::current().overload_backoff(u32::MAX);
    let mut read = by_2026(strategy.randomness(Randomness::Fixed(1.0)));
    let error = Broken(BUSY.0, BOTH, Some(1));
    let mut last = Duration::ZERO;
    for retry in 1..=200_u32 {
        let delay = read.waits_after(&error).expect("another attempt");
        assert!(delay >= last, "retry {retry}: {delay:?}");
        last = delay;
    }
    assert_eq!(last, ms(10_000));
    let view_of = |retries| {
        let failure = Failure::new(MONGODB_SYSTEM_OVERLOADED, Stage::Response);
        read.strategy
            .delay(&RetryView::new(&failure, read.now).retries(retries))
    };
    assert_eq!(view_of(u32::MAX), ms(10_000));
}

/// By the rules of 2022, labels are ignored.
#[test]
fn the_rules_of_2022_know_no_overload() {
    assert_eq!(Read::seed().waits_after(&BUSY), None);
    let down = Broken(STEPPED_DOWN, BOTH, Some(50));
    let mut read = Read::seed();
    assert_eq!(read.waits_after(&down), Some(ms(0)));
    assert_eq!(read.waits_after(&down), None);
}

/// For a command that may write, a failure without effect is raised only if all failures are like
/// that, and then the first.
#[test]
fn an_error_that_wrote_nothing_yields_to_one_that_may_have() {
    const NOTHING: Broken = Broken(
        BUSY.0,
        &[
            SYSTEM_OVERLOADED_ERROR,
            RETRYABLE_ERROR,
            NO_WRITES_PERFORMED,
        ],
        None,
    );
    let raised = |gate: ReadGate, errors: [&Broken; 3]| {
        let mut call = Read {
            gate,
            ..current(0.0)
        };
        // The error that is kept during the next attempt.
        let mut held = 0;
        for (n, error) in errors.iter().enumerate() {
            match call.fails_with(error) {
                Action::Wait(wait) if wait.keep == Keep::New => held = n,
                Action::Wait(_) | Action::Return(Surface::Held) => {}
                Action::Return(Surface::New) => return n,
                other => panic!("{other:?}"),
            }
        }
        held
    };
    let write = ReadGate::Overload(NotEligible::Operation);
    assert_eq!(raised(write, [&NOTHING, &NOTHING, &NOTHING]), 0);
    assert_eq!(raised(write, [&BUSY, &NOTHING, &NOTHING]), 0);
    assert_eq!(raised(write, [&NOTHING, &BUSY, &NOTHING]), 1);
    assert_eq!(raised(write, [&NOTHING, &NOTHING, &BUSY]), 2);
    assert_eq!(raised(write, [&BUSY, &BUSY, &BUSY]), 2);
    assert_eq!(
        raised(ReadGate::Retry, [&NOTHING, &NOTHING, &NOTHING]),
        2,
        "a read"
    );
}

/// M1: what a recovery layer may know before the first failure.
#[test]
fn the_most_attempts_are_those_of_the_strategy() {
    let seed = RetryableReads::seed_2022;
    assert_eq!(seed().max_attempts(), Some(2));
    assert_eq!(seed().overload_backoff(5).max_attempts(), Some(6));
    assert_eq!(seed().overload_backoff(0).max_attempts(), Some(2));
    let most = seed().overload_backoff(u32::MAX).max_attempts();
    assert_eq!(most, Some(u32::MAX));
    assert_eq!(seed().until_deadline().max_attempts(), None);
}

/// The one retry waits for the deadline; a delay of the back-off that does not fit is not begun.
#[test]
fn only_a_backoff_gives_up_before_the_deadline() {
    let one_retry = RetryableReads::default();
    assert_eq!(one_retry.on_deadline(), Some(OnDeadline::Cap));
    let current = RetryableReads::current();
    assert_eq!(current.on_deadline(), Some(OnDeadline::GiveUp));
}

//! The strategy: how often, when, and which error is raised (Executing Retryable Read Commands).

use std::time::Duration;

use reattempt_core::{Decision, Failure, RetryStrategy, RetryView, Stage, Surface};

/// Exactly one retry, at once, and the error that tells the caller most (Executing Retryable Read Commands).
///
/// Which of two failures a call returns depends on nothing but how far the second one came: if its command never
/// reached a server (selection, checkout, handshake and authentication, rebuilding the command), the original is raised;
/// anything else is the second's, because the caller can infer from it that an attempt was made.
///
/// The retry itself has no delay. A client that has to find a new primary may still take up to its server selection
/// timeout: put a deadline outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryableReads {
    until_deadline: bool,
}

impl RetryableReads {
    /// The specification of 2022-01-25.
    #[must_use]
    pub const fn seed_2022() -> Self {
        Self {
            until_deadline: false,
        }
    }

    /// Sends again, at once, as often as fits before the call's time limit instead of only once; a call without a limit is
    /// still retried once (the specification since 2022-10-18, with `timeoutMS`).
    #[must_use]
    pub const fn until_deadline(mut self) -> Self {
        self.until_deadline = true;
        self
    }
}

impl RetryStrategy for RetryableReads {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        let more = self.until_deadline && view.context.limit().is_some();
        if more || view.retries == 0 {
            Decision::After(Duration::ZERO)
        } else {
            Decision::Stop
        }
    }

    fn max_attempts(&self) -> Option<u32> {
        if self.until_deadline { None } else { Some(2) }
    }

    fn holds(&self) -> bool {
        true
    }

    fn surface(&self, _held: &Failure, new: &Failure) -> Surface {
        if new.stage == Stage::Dispatch {
            Surface::Held
        } else {
            Surface::New
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use reattempt_core::machine::{Action, Env, Keep, RetryMachine, Wait};
    use reattempt_core::{AttemptKind, CallContext, Stopped, TimeLimit};

    use super::*;
    use crate::FailureKind as Kind;
    use crate::{MongoClassifier, ReadOperation, RetryReads, report_wire_version};

    /// One call of a read, driven through the machine by hand.
    struct Read {
        strategy: RetryableReads,
        machine: RetryMachine,
        context: CallContext,
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
            RetryReads::default().stamp(&mut context, ReadOperation::Find, false);
            context.start_attempt(1, AttemptKind::Initial);
            Self {
                strategy,
                machine: RetryMachine::new(),
                context,
                now,
            }
        }

        fn seed() -> Self {
            Self::begin(RetryableReads::seed_2022())
        }

        /// The attempt that is out fails; if another is due, it is out after this.
        fn fails(&mut self, kind: Kind) -> Action {
            let verdict = MongoClassifier::seed_2022().verdict(kind);
            let (found, env) = (self.context.findings(), Env::new(&self.context));
            let action = self
                .machine
                .failed(self.now, &verdict, found, &self.strategy, &env);
            if let Action::Wait(wait) = &action {
                self.context
                    .start_attempt(self.context.attempt() + 1, wait.kind);
            }
            action
        }

        fn stopped(&self) -> Option<Stopped> {
            self.context.info().stopped()
        }
    }

    fn surfaced(action: &Action) -> Surface {
        match action {
            Action::Return(surface) => *surface,
            other => panic!("the call should have ended, got {other:?}"),
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
        };
        assert_eq!(wait, at_once);
        assert_eq!(surfaced(&read.fails(STEPPED_DOWN)), Surface::New);
        assert_eq!(read.stopped(), Some(Stopped::Attempts));
        assert_eq!(read.context.info().attempts(), 2);
    }

    /// M8 M15
    #[test]
    fn any_other_error_ends_the_call() {
        let mut read = Read::seed();
        assert_eq!(surfaced(&read.fails(Kind::command(Some(50)))), Surface::New);
        assert_eq!(read.stopped(), Some(Stopped::Fatal));
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
        report_wire_version(&read.context.reporter(), 5);
        assert_eq!(surfaced(&read.fails(STEPPED_DOWN)), Surface::New);
        assert_eq!(read.context.info().attempts(), 1);
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
    fn a_second_failure_that_never_reached_a_server_raises_the_original() {
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
        read.context.reporter().stage(Stage::Dispatch);
        assert_eq!(
            surfaced(&read.fails(Kind::network_in_flight())),
            Surface::Held
        );
    }

    #[test]
    fn until_the_deadline_it_goes_on_and_raises_the_last_that_was_sent() {
        let mut read = Read::begin(RetryableReads::seed_2022().until_deadline());
        let limit = read.now + Duration::from_secs(1);
        read.context.stamp_limit(TimeLimit::stamped(limit));
        for kind in [STEPPED_DOWN, Kind::network_in_flight()] {
            assert!(matches!(
                read.fails(kind),
                Action::Wait(Wait {
                    keep: Keep::New,
                    ..
                })
            ));
        }
        let action = read.fails(Kind::PoolCleared);
        assert!(matches!(
            action,
            Action::Wait(Wait {
                keep: Keep::Held,
                ..
            })
        ));
        read.now = limit;
        assert_eq!(surfaced(&read.fails(Kind::PoolCleared)), Surface::Held);
        assert_eq!(read.stopped(), Some(Stopped::Deadline));
    }

    #[test]
    fn without_a_deadline_there_is_still_only_one_retry() {
        let mut read = Read::begin(RetryableReads::seed_2022().until_deadline());
        assert!(matches!(read.fails(STEPPED_DOWN), Action::Wait(_)));
        assert_eq!(surfaced(&read.fails(STEPPED_DOWN)), Surface::New);
    }
}

//! What a client's failure means (Terms, Retryable Error).

use std::sync::Arc;

use reattempt_core::{CallContext, Classify, Failure, RetryReason, Stage, Verdict};

use crate::codes;
use crate::gate::ReadGate;
use crate::reasons::{
    MONGODB_CLIENT_ERROR, MONGODB_NETWORK_ERROR, MONGODB_POOL_CLEARED, MONGODB_SERVER_ERROR,
    MONGODB_SERVER_NOT_SUPPORTED, MONGODB_SERVER_SELECTION_FAILED, MONGODB_WAIT_QUEUE_TIMEOUT,
};

/// What failed, in the specification's words. Never a text: a server's messages and code names are not looked at.
///
/// A [`Stage`] says if an attempt was made: `Dispatch` while the command had not been written (connecting, TLS, hello,
/// authentication), `InFlight` once any of it may have been, `Response` when the server answered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// The server answered with `ok: 0` (or `0.0`, or `false`) and this top-level `code`, if it had one.
    ///
    /// Not for numbers inside `writeErrors` or `writeConcernError`: a reply with `ok: 1` is a success here.
    Server {
        /// The code, of whatever BSON number; [`codes::code_from_f64`] reads doubles.
        code: Option<i64>,
        /// `Dispatch` in the handshake, authentication included; `Response` for the command itself.
        stage: Stage,
    },
    /// Any network exception, a socket timeout and half a reply included.
    Network {
        /// How far the attempt had come.
        stage: Stage,
    },
    /// The pool had been cleared, so that no connection was handed out.
    PoolCleared,
    /// No server could be selected in time.
    Selection,
    /// No connection came free in time.
    WaitQueueTimeout,
    /// The selected server does not support retryable reads, or cannot be sent an equivalent command.
    NotSupported,
    /// Anything else that went wrong inside the client: a command that cannot be built, a reply that cannot be read.
    Client {
        /// How far the attempt had come.
        stage: Stage,
    },
}

impl FailureKind {
    /// The server's error answer to the command.
    #[must_use]
    pub const fn command(code: Option<i64>) -> Self {
        Self::Server {
            code,
            stage: Stage::Response,
        }
    }

    /// The server's error answer to `hello` or a step of the authentication.
    #[must_use]
    pub const fn handshake(code: Option<i64>) -> Self {
        Self::Server {
            code,
            stage: Stage::Dispatch,
        }
    }

    /// A network exception while connecting or in the handshake.
    #[must_use]
    pub const fn network_before_sending() -> Self {
        Self::Network {
            stage: Stage::Dispatch,
        }
    }

    /// A network exception after the command may have been sent.
    #[must_use]
    pub const fn network_in_flight() -> Self {
        Self::Network {
            stage: Stage::InFlight,
        }
    }
}

/// A client's error that can say what kind of failure it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what kind of MongoDB failure it is",
    note = "implement `MongoFailure` for the error type of the service right below the retry layer"
)]
pub trait MongoFailure {
    /// The kind of failure.
    fn kind(&self) -> FailureKind;
}

impl<E: MongoFailure + ?Sized> MongoFailure for Box<E> {
    fn kind(&self) -> FailureKind {
        (**self).kind()
    }
}

impl<E: MongoFailure + ?Sized> MongoFailure for Arc<E> {
    fn kind(&self) -> FailureKind {
        (**self).kind()
    }
}

/// Says of a client's error if a read may be sent again after it (Terms, Retryable Error).
///
/// An answer is a success: a client turns `ok: 0` into an error. Where the call's policy has a
/// [`ReadGate`], that is obeyed: a call that runs once fails for good with its first failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MongoClassifier {
    added_codes: bool,
}

impl MongoClassifier {
    /// The eleven codes of 2022, network exceptions and a cleared pool.
    #[must_use]
    pub const fn seed_2022() -> Self {
        Self { added_codes: false }
    }

    /// Also the codes 134 (ReadConcernMajorityNotAvailableYet) and 262 (ExceededTimeLimit), which the
    /// specification added in November 2023.
    #[must_use]
    pub const fn with_codes_134_and_262(mut self) -> Self {
        self.added_codes = true;
        self
    }

    /// The verdict on a kind of failure, without any gate.
    #[must_use]
    pub fn verdict(&self, kind: FailureKind) -> Verdict {
        let fatal = |reason: RetryReason, stage| Verdict::Fatal(Failure::new(reason, stage));
        match kind {
            FailureKind::Server { code, stage } => self.server(code, stage),
            FailureKind::Network { stage } => {
                Verdict::Retry(unless_sent(Failure::new(MONGODB_NETWORK_ERROR, stage)))
            }
            FailureKind::PoolCleared => {
                Verdict::Retry(Failure::new(MONGODB_POOL_CLEARED, Stage::Dispatch))
            }
            FailureKind::Selection => fatal(MONGODB_SERVER_SELECTION_FAILED, Stage::Dispatch),
            FailureKind::WaitQueueTimeout => fatal(MONGODB_WAIT_QUEUE_TIMEOUT, Stage::Dispatch),
            FailureKind::NotSupported => fatal(MONGODB_SERVER_NOT_SUPPORTED, Stage::Dispatch),
            FailureKind::Client { stage } => fatal(MONGODB_CLIENT_ERROR, stage),
        }
    }

    fn server(self, code: Option<i64>, stage: Stage) -> Verdict {
        let row = code.and_then(|code| codes::find(code, self.added_codes));
        let reason = row.map_or(MONGODB_SERVER_ERROR, |row| row.reason);
        let mut failure = unless_sent(Failure::new(reason, stage));
        failure.code = code.and_then(|code| i32::try_from(code).ok());
        if row.is_some() {
            Verdict::Retry(failure)
        } else {
            Verdict::Fatal(failure)
        }
    }
}

/// A command that was never written cannot have been carried out.
fn unless_sent(failure: Failure) -> Failure {
    let safe = failure.safe || failure.stage == Stage::Dispatch;
    failure.safe(safe)
}

impl<Res, Err: MongoFailure> Classify<Res, Err> for MongoClassifier {
    fn classify(&self, outcome: Result<&Res, &Err>, context: &CallContext) -> Verdict {
        let Err(error) = outcome else {
            return Verdict::Success;
        };
        let verdict = self.verdict(error.kind());
        let gate = context
            .policy()
            .and_then(|policy| policy.get_data::<ReadGate>());
        match (verdict, gate) {
            (Verdict::Retry(failure), Some(ReadGate::Retry)) => Verdict::Retry(failure.safe(true)),
            (Verdict::Retry(failure), Some(ReadGate::Once(_))) => Verdict::Fatal(failure),
            _ => verdict,
        }
    }

    fn may_force(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use reattempt_core::strategy::Once;

    use super::*;
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

    /// M13
    #[test]
    fn a_failed_selection_is_final() {
        assert!(!is_retryable(FailureKind::Selection));
        assert!(!is_retryable(FailureKind::NotSupported));
    }

    /// M14
    #[test]
    fn a_gated_call_fails_for_good_with_its_first_failure() {
        let mut context = CallContext::default();
        RetryReads::default().stamp(&mut context, ReadOperation::Find, true);
        for kind in [FailureKind::command(Some(189)), FailureKind::PoolCleared] {
            assert!(matches!(classify(kind, &context), Verdict::Fatal(_)));
        }
    }

    /// M10
    #[test]
    fn no_stamp_on_one_call_switches_retries_on() {
        let mut context = CallContext::default();
        context.set_strategy(Arc::new(Once));
        RetryReads::new(false).stamp(&mut context, ReadOperation::Find, false);
        assert!(matches!(
            classify(FailureKind::PoolCleared, &context),
            Verdict::Fatal(_)
        ));
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
}

//! Classifies a client's failures (Terms, Retryable Error).

use std::sync::Arc;
use std::time::Duration;

use reattempt::{CallContext, Classify, Failure, RetryReason, RoutePolicy, Stage, Verdict};

use crate::codes;
use crate::reasons::{
    MONGODB_CLIENT_ERROR, MONGODB_INVALID_COMMAND, MONGODB_NETWORK_ERROR, MONGODB_POOL_CLEARED,
    MONGODB_SERVER_ERROR, MONGODB_SERVER_NOT_SUPPORTED, MONGODB_SERVER_SELECTION_FAILED,
    MONGODB_SYSTEM_OVERLOADED, MONGODB_WAIT_QUEUE_TIMEOUT,
};
use crate::{ErrorLabels, FailureDetail, ReadGate};

/// What failed, in the specification's terms. Never a text: the server's messages and code names
/// are ignored.
///
/// The [`Stage`] says how far the attempt came: `Dispatch` before the command was written
/// (connecting, TLS, hello, authentication), `InFlight` once any part of it may have been written,
/// `Response` when the server answered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// The server answered with `ok: 0` (or `0.0`, or `false`) and this top-level `code`, if any.
    ///
    /// Not for numbers inside `writeErrors` or `writeConcernError`: a reply with `ok: 1` is a
    /// success here.
    Server {
        /// The code, of any BSON number type; [`codes::code_from_f64`] reads doubles.
        code: Option<i64>,
        /// `Dispatch` in the handshake, including authentication; `Response` for the command
        /// itself.
        stage: Stage,
    },
    /// Any network exception, including a socket timeout and a partial reply.
    Network {
        /// How far the attempt came.
        stage: Stage,
    },
    /// The pool was cleared, so no connection was checked out.
    PoolCleared,
    /// No server could be selected in time.
    Selection,
    /// No connection became available in time.
    WaitQueueTimeout,
    /// The selected server does not support retryable reads, or cannot be sent an equivalent
    /// command.
    NotSupported,
    /// The client cannot build the command. Nothing was sent, and it says nothing about the server.
    Invalid,
    /// Any other failure inside the client, such as a reply that cannot be parsed.
    Client {
        /// How far the attempt came.
        stage: Stage,
    },
}

impl FailureKind {
    /// The server's error reply to the command.
    #[must_use]
    pub const fn command(code: Option<i64>) -> Self {
        Self::Server {
            code,
            stage: Stage::Response,
        }
    }

    /// The server's error reply to `hello` or to a step of the authentication.
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

/// A client error that reports its kind of failure.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what kind of MongoDB failure it is",
    note = "implement `MongoFailure` for the error type of the service right below the retry layer"
)]
pub trait MongoFailure {
    /// The kind of failure.
    fn kind(&self) -> FailureKind;

    /// The error labels, from the server and the client; none by default. Used only by options.
    fn labels(&self) -> ErrorLabels {
        ErrorLabels::NONE
    }

    /// The server's `baseBackoffMS`, if the error has one; none by default. Used only by the
    /// overload back-off.
    fn base_backoff(&self) -> Option<Duration> {
        None
    }
}

impl<E: MongoFailure + ?Sized> MongoFailure for Box<E> {
    fn kind(&self) -> FailureKind {
        (**self).kind()
    }

    fn labels(&self) -> ErrorLabels {
        (**self).labels()
    }

    fn base_backoff(&self) -> Option<Duration> {
        (**self).base_backoff()
    }
}

impl<E: MongoFailure + ?Sized> MongoFailure for Arc<E> {
    fn kind(&self) -> FailureKind {
        (**self).kind()
    }

    fn labels(&self) -> ErrorLabels {
        (**self).labels()
    }

    fn base_backoff(&self) -> Option<Duration> {
        (**self).base_backoff()
    }
}

/// Decides whether a read may be retried after a client's error (Terms, Retryable Error).
///
/// A reply is a success: a client turns `ok: 0` into an error. A [`ReadGate`] in the call's policy
/// is obeyed: the first failure of a call that runs once is final. So is a failure on a server that
/// is [too old](crate::report_wire_version).
///
/// | option | [`seed_2022`](Self::seed_2022) | [`current`](Self::current) |
/// | --- | --- | --- |
/// | [codes 134 and 262](Self::with_codes_134_and_262) | no | yes |
/// | [overload errors](Self::with_overload_errors) | no | yes |
/// | [`NoWritesPerformed`](Self::with_no_writes_performed) | no | yes |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MongoClassifier {
    added_codes: bool,
    overload: bool,
    no_writes: bool,
}

impl MongoClassifier {
    /// The eleven codes of 2022, network exceptions and a cleared pool.
    #[must_use]
    pub const fn seed_2022() -> Self {
        Self {
            added_codes: false,
            overload: false,
            no_writes: false,
        }
    }

    /// The specification of 2026: enables all options below.
    #[must_use]
    pub const fn current() -> Self {
        Self::seed_2022()
            .with_codes_134_and_262()
            .with_overload_errors()
            .with_no_writes_performed()
    }

    /// Also the codes 134 (ReadConcernMajorityNotAvailableYet) and 262 (ExceededTimeLimit), which
    /// the specification added in November 2023.
    #[must_use]
    pub const fn with_codes_134_and_262(mut self) -> Self {
        self.added_codes = true;
        self
    }

    /// Also any error with both labels `SystemOverloadedError` and `RetryableError`, for any code
    /// and any command that the call's [`ReadGate`] allows. A retried error with the first label
    /// gets the reason [`MONGODB_SYSTEM_OVERLOADED`], which makes
    /// [`RetryableReads`](crate::RetryableReads) back off: only for a strategy with
    /// [`overload_backoff`](crate::RetryableReads::overload_backoff), because any other sends again
    /// at once, or after its own delay. [`MongoClientLayer`](crate::MongoClientLayer) does without
    /// it for a strategy of its own that does not back off, and for hedged reads. It does not know
    /// the strategy that a route's policy or the caller sets instead: that one has to back off.
    #[must_use]
    pub const fn with_overload_errors(mut self) -> Self {
        self.overload = true;
        self
    }

    /// Without overload errors, unless the strategy backs off after them.
    #[cfg(feature = "tokio")]
    pub(crate) const fn for_strategy(self, strategy: &crate::RetryableReads) -> Self {
        if strategy.backs_off() {
            self
        } else {
            self.without_overload_errors()
        }
    }

    /// For what sends again without back-off.
    #[cfg(feature = "tokio")]
    pub(crate) const fn without_overload_errors(mut self) -> Self {
        self.overload = false;
        self
    }

    /// For a command that is retried only when the server is overloaded (such as a write): an error
    /// with the label `NoWritesPerformed` is not raised if another error of the call may have
    /// written (since January 2026). Reads always raise the last error that shows an attempt.
    #[must_use]
    pub const fn with_no_writes_performed(mut self) -> Self {
        self.no_writes = true;
        self
    }

    /// The verdict on a kind of failure, ignoring gates and labels.
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
            FailureKind::Invalid => fatal(MONGODB_INVALID_COMMAND, Stage::Dispatch),
            FailureKind::Client { stage } => fatal(MONGODB_CLIENT_ERROR, stage),
        }
    }

    fn server(self, code: Option<i64>, stage: Stage) -> Verdict {
        let row = code.and_then(|code| codes::find(code, self.added_codes));
        let reason = row.map_or(MONGODB_SERVER_ERROR, |row| row.reason);
        let mut failure = unless_sent(Failure::new(reason, stage));
        failure.code = code.and_then(|code| i32::try_from(code).ok());
        // InternalError and UnknownError.
        failure.server_failed = row.is_none() && matches!(code, Some(1 | 8));
        if row.is_some() {
            Verdict::Retry(failure)
        } else {
            Verdict::Fatal(failure)
        }
    }

    /// The verdict on an error of a call with this gate; `None` for a call without one.
    #[must_use]
    pub fn verdict_on<E: MongoFailure + ?Sized>(
        &self,
        error: &E,
        gate: Option<&ReadGate>,
    ) -> Verdict {
        let verdict = self.verdict(error.kind());
        let (mut failure, by_kind) = match verdict {
            Verdict::Retry(failure) => (failure, true),
            Verdict::Fatal(failure) => (failure, false),
            Verdict::Success | Verdict::Committed => return verdict,
        };
        let labels = if self.overload || self.no_writes {
            error.labels()
        } else {
            ErrorLabels::NONE
        };
        let by_labels = self.overload && labels.is_retryable_overload();
        let retried = match gate {
            Some(ReadGate::Once(_)) => false,
            Some(ReadGate::Overload(_)) => by_labels,
            Some(ReadGate::Retry) | None => by_kind || by_labels,
        };
        let reads = matches!(gate, Some(ReadGate::Retry));
        failure.safe |= by_labels || (reads && retried);
        let mut detail = FailureDetail {
            no_writes: self.no_writes
                && labels.is_no_writes_performed()
                && matches!(gate, Some(ReadGate::Overload(_))),
            base_backoff: None,
        };
        if !retried {
            return Verdict::Fatal(detail.put(failure));
        }
        if self.overload && labels.is_overload() {
            failure.reason = MONGODB_SYSTEM_OVERLOADED;
            detail.base_backoff = error.base_backoff();
        }
        Verdict::Retry(detail.put(failure))
    }
}

/// A command that was never written cannot have taken effect.
fn unless_sent(failure: Failure) -> Failure {
    let safe = failure.safe || failure.stage == Stage::Dispatch;
    failure.safe(safe)
}

impl<Res, Err: MongoFailure> Classify<Res, Err> for MongoClassifier {
    fn classify(&self, outcome: Result<&Res, &Err>, context: &CallContext) -> Verdict {
        let Err(error) = outcome else {
            return Verdict::Success;
        };
        let gate_of = |policy: Option<&'_ Arc<RoutePolicy>>| -> Option<ReadGate> {
            policy.and_then(|policy| policy.data()).copied()
        };
        // The client's own gate first: no policy of a single call may allow more (M10).
        let gate = gate_of(context.route_policy()).or_else(|| gate_of(context.policy()));
        match self.verdict_on(error, gate.as_ref()) {
            // The selected server is too old: as final as any other reason to run once (M14).
            Verdict::Retry(failure) if context.report().forbidden => Verdict::Fatal(failure),
            verdict => verdict,
        }
    }

    fn may_force(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;

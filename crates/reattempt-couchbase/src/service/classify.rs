//! The verdict on one HTTP response of a service, or on a lost attempt.

use reattempt::reason::{
    CIRCUIT_BREAKER_OPEN, SOCKET_CLOSED_WHILE_IN_FLIGHT, SOCKET_NOT_AVAILABLE,
};
use reattempt::{CallContext, Classify, Failure, OnDeadline, StackCheck, Stage, Verdict};

use super::{HttpService, ServiceAnswer};

/// Classifies a response or a transport error.
///
/// Responses are classified by [`HttpService::verdict`], from what a
/// [`ServiceErrorLayer`](super::ServiceErrorLayer) below has read of their body. Without that layer
/// only the status is known, which is logged once at WARN; clones of the classifier share this.
///
/// Transport errors are classified by the HTTP client's own classifier, and its verdict is mapped
/// to RFC 0049's reasons:
///
/// | its verdict | RFC 0049 reason |
/// | --- | --- |
/// | never sent, or certainly not processed | `SOCKET_NOT_AVAILABLE`, also for a request that is not idempotent |
/// | any other failure that may be retried | `SOCKET_CLOSED_WHILE_IN_FLIGHT` |
/// | fatal | its own reason, and fatal |
///
/// An attempt that a circuit breaker refused is retryable, with reason `CIRCUIT_BREAKER_OPEN`: best
/// effort waits for the circuit to close.
#[derive(Clone, Debug)]
pub struct ServiceClassifier<T> {
    service: HttpService,
    transport: T,
    reads_bodies: StackCheck,
}

impl<T> ServiceClassifier<T> {
    /// For responses of this service; `transport` classifies the errors of the HTTP client.
    #[must_use]
    pub fn new(service: HttpService, transport: T) -> Self {
        Self {
            service,
            transport,
            reads_bodies: StackCheck::default(),
        }
    }
}

/// Maps a verdict on a lost attempt to RFC 0049's reasons.
fn lost(verdict: Verdict) -> Verdict {
    let Verdict::Retry(mut failure) = verdict else {
        return verdict;
    };
    failure.safe |= failure.stage == Stage::Dispatch;
    failure.reason = if failure.safe {
        SOCKET_NOT_AVAILABLE
    } else {
        SOCKET_CLOSED_WHILE_IN_FLIGHT
    };
    Verdict::Retry(failure)
}

impl<B, E, T> Classify<http::Response<B>, E> for ServiceClassifier<T>
where
    T: Classify<http::Response<B>, E>,
{
    fn classify(&self, outcome: Result<&http::Response<B>, &E>, context: &CallContext) -> Verdict {
        let Ok(response) = outcome else {
            // RFC 0049, Retry Reasons: the strategy may wait for the circuit to close.
            if context.report().circuit_open {
                return Verdict::Retry(Failure::new(CIRCUIT_BREAKER_OPEN, Stage::Dispatch));
            }
            return lost(self.transport.classify(outcome, context));
        };
        match response.extensions().get::<ServiceAnswer>() {
            Some(answer) => self.service.verdict(response.status(), answer),
            None => {
                self.reads_bodies.warn(
                    "ServiceClassifier",
                    "got a response whose body was not read, so it knows only the status: \
                     put ServiceErrorLayer below the recovery layer",
                );
                self.service
                    .verdict(response.status(), &ServiceAnswer::unread())
            }
        }
    }

    fn may_force(&self) -> bool {
        self.service.may_force() || self.transport.may_force()
    }

    /// RFC 0049, Capping the Retry Duration: for every strategy that was not told to give up.
    fn on_deadline(&self) -> OnDeadline {
        OnDeadline::Cap
    }

    fn unknown_error(&self, error: &E, failure: &Failure) -> Option<String> {
        self.transport.unknown_error(error, failure)
    }
}

//! The verdict on one answer of a service over HTTP, or on an attempt that was lost.

use std::sync::atomic::{AtomicBool, Ordering};

use reattempt::reason::{SOCKET_CLOSED_WHILE_IN_FLIGHT, SOCKET_NOT_AVAILABLE};
use reattempt::{CallContext, Classify, Failure, Stage, Verdict};

use super::{HttpService, ServiceAnswer};

/// Says what an answer or a transport error came to.
///
/// Answers are judged by [`HttpService::verdict`], from what a
/// [`ServiceErrorLayer`](super::ServiceErrorLayer) below has read of their body. Without that layer
/// only the status is known, which is said once a process at WARN.
///
/// Transport errors are judged by another classifier, the HTTP client's own, and its verdict is put
/// in RFC 0049's words:
///
/// | it says | RFC 0049 says |
/// | --- | --- |
/// | never sent, or surely not processed | `SOCKET_NOT_AVAILABLE`, also for a request that is not idempotent |
/// | any other failure that may be retried | `SOCKET_CLOSED_WHILE_IN_FLIGHT` |
/// | fatal | the same, and fatal |
#[derive(Clone, Copy, Debug)]
pub struct ServiceClassifier<T> {
    service: HttpService,
    transport: T,
}

impl<T> ServiceClassifier<T> {
    /// For answers of this service; `transport` tells what the errors of the HTTP client mean.
    #[must_use]
    pub const fn new(service: HttpService, transport: T) -> Self {
        Self { service, transport }
    }
}

static UNREAD: AtomicBool = AtomicBool::new(false);

#[cold]
#[inline(never)]
fn warn_unread() {
    if !UNREAD.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            "ServiceClassifier got an answer whose body nobody has looked into, so it knows no error but by status: \
             put ServiceErrorLayer below the recovery layer"
        );
    }
}

/// A verdict on a lost attempt, in RFC 0049's words.
fn lost(verdict: Verdict) -> Verdict {
    let put = |failure: Failure| {
        let reason = if failure.safe {
            SOCKET_NOT_AVAILABLE
        } else {
            SOCKET_CLOSED_WHILE_IN_FLIGHT
        };
        Failure { reason, ..failure }
    };
    match verdict {
        Verdict::Retry(failure) => Verdict::Retry(put(Failure {
            safe: failure.safe || failure.stage == Stage::Dispatch,
            ..failure
        })),
        other => other,
    }
}

impl<B, E, T> Classify<http::Response<B>, E> for ServiceClassifier<T>
where
    T: Classify<http::Response<B>, E>,
{
    fn classify(&self, outcome: Result<&http::Response<B>, &E>, context: &CallContext) -> Verdict {
        let Ok(response) = outcome else {
            return lost(self.transport.classify(outcome, context));
        };
        match response.extensions().get::<ServiceAnswer>() {
            Some(answer) => self.service.verdict(response.status(), answer),
            None => {
                warn_unread();
                self.service
                    .verdict(response.status(), &ServiceAnswer::unread())
            }
        }
    }

    fn may_force(&self) -> bool {
        self.service.may_force() || self.transport.may_force()
    }
}

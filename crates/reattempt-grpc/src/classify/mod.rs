//! `GrpcClassifier`: decides from a gRPC response whether another attempt is possible (A6).

#[cfg(test)]
mod tests;

use http::Response;
use reattempt::reason::ReasonClass;
use reattempt::{
    CallContext, Classify, Elapsed, Failure, RetryReason, Stage, Transparent, Verdict,
};
use reattempt_http::{RefusedStream, TransportError, TransportFault};

use crate::head::status_in_head;
use crate::reasons::{GRPC_CONTROL_PLANE, GRPC_UNKNOWN};
use crate::{Code, CodeSet, ControlPlaneFailure, MethodPolicy};

/// Classifies gRPC answers by the head of the response.
///
/// | outcome | verdict |
/// | --- | --- |
/// | `grpc-status` in the head (Trailers-Only), OK | success |
/// | `grpc-status` in the head, a retryable code | retry |
/// | `grpc-status` in the head, another code | fatal |
/// | a head without it, HTTP 200 | committed: the status comes in the trailers |
/// | a head without it, another HTTP status | by gRPC's mapping of HTTP statuses |
/// | a head without it, a content type that is not gRPC's | UNKNOWN |
/// | a head without it, and nothing after it ([`GrpcOutcomeLayer`](crate::GrpcOutcomeLayer) sees that) | UNKNOWN |
/// | a [`ControlPlaneFailure`] | never sent, and judged by its code; one that is dropped is fatal |
/// | no connection could be made | UNAVAILABLE, never sent; transparent while there is a backend that the call has not tried |
/// | shed by a layer of this client (tower's `LoadShed`) | UNAVAILABLE, never sent: the policy decides |
/// | never sent on a connection that existed, or past a GOAWAY's last stream | UNAVAILABLE, transparent until the deadline |
/// | refused stream | UNAVAILABLE, transparent once; see [`GrpcClassifier::refused`] |
/// | the connection lost while the call waited for a free stream | UNAVAILABLE; never sent, and transparent until the deadline, if its body was not read |
/// | no answer within the attempt's time | DEADLINE_EXCEEDED |
/// | a request that the transport cannot send | INTERNAL, fatal |
/// | a request whose own body was cancelled | CANCELLED, fatal |
/// | an error of a type that no reader knows | UNKNOWN |
/// | another transport error | UNAVAILABLE; for a reset stream the code of its HTTP/2 error |
///
/// A committed call counts in the throttle only if a [`GrpcOutcomeLayer`](crate::GrpcOutcomeLayer)
/// stands below the recovery layer. In a stack with a throttle but without that layer the recovery
/// layer logs a WARN, once.
///
/// The policy defines which codes are retryable ([`MethodPolicy`] in the call's `RoutePolicy`).
/// Without a policy, this classifier's own set applies: UNAVAILABLE, unless set by
/// [`GrpcClassifier::retryable`].
///
/// ```
/// use http::Response;
/// use reattempt::{CallContext, Classify, Verdict};
/// use reattempt_grpc::GrpcClassifier;
/// use reattempt_grpc::reasons::GRPC_UNAVAILABLE;
///
/// let answer = Response::builder()
///     .header("grpc-status", "14")
///     .body(())
///     .unwrap();
/// let verdict = Classify::<_, std::io::Error>::classify(
///     &GrpcClassifier::new(),
///     Ok(&answer),
///     &CallContext::default(),
/// );
/// let Verdict::Retry(failure) = verdict else {
///     panic!()
/// };
/// assert_eq!((failure.reason, failure.code), (GRPC_UNAVAILABLE, Some(14)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GrpcClassifier {
    retryable: CodeSet,
    refused: RefusedStream,
}

impl GrpcClassifier {
    /// UNAVAILABLE is retryable for calls without a service config.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            retryable: CodeSet::EMPTY.with(Code::Unavailable),
            refused: RefusedStream::Unprocessed,
        }
    }

    /// Sets the retryable codes for calls without a service config: in that only its codes are
    /// retryable, also if it names none.
    #[must_use]
    pub const fn retryable(mut self, codes: CodeSet) -> Self {
        self.retryable = codes;
        self
    }

    /// Sets what REFUSED_STREAM means for calls whose policy does not say:
    /// [`RefusedStream::Unprocessed`] by default, as in A6. If it is ambiguous, the failure is
    /// UNAVAILABLE in flight and only the policy decides.
    #[must_use]
    pub const fn refused(mut self, refused: RefusedStream) -> Self {
        self.refused = refused;
        self
    }
}

impl GrpcClassifier {
    #[cfg(all(feature = "tokio", feature = "tonic"))]
    pub(crate) const fn retryable_codes(self) -> CodeSet {
        self.retryable
    }

    fn refused_for(&self, context: &CallContext) -> RefusedStream {
        let of_method = MethodPolicy::of(context).and_then(|method| method.refused);
        of_method.unwrap_or(self.refused)
    }
}

impl Default for GrpcClassifier {
    fn default() -> Self {
        Self::new()
    }
}

pub(crate) fn failure_of(code: Code, stage: Stage) -> Failure {
    Failure::new(code.reason().unwrap_or(GRPC_UNKNOWN), stage).code(code.number())
}

/// Maps a transport fault to a gRPC code and a failure.
pub(crate) fn failure_of_fault(fault: TransportFault) -> (Code, Failure) {
    let (code, stage) = match fault {
        TransportFault::ConnectFailed | TransportFault::Shed | TransportFault::NeverSent => {
            (Code::Unavailable, Stage::Dispatch)
        }
        TransportFault::StreamReset(error) => (Code::from_http2_error(error), Stage::InFlight),
        TransportFault::Timeout => (Code::DeadlineExceeded, Stage::InFlight),
        TransportFault::RequestFailed => (Code::Internal, Stage::InFlight),
        TransportFault::Abandoned => (Code::Cancelled, Stage::InFlight),
        // A peer that violates the protocol loses the connection and all calls on it.
        TransportFault::StreamRefused
        | TransportFault::PastGoaway
        | TransportFault::DispatchGone
        | TransportFault::ConnectionClosed
        | TransportFault::ConnectionReset
        | TransportFault::Protocol => (Code::Unavailable, Stage::InFlight),
        _ => (Code::Unknown, Stage::InFlight),
    };
    let transparent = match fault {
        TransportFault::ConnectFailed => Transparent::NextBackend,
        TransportFault::NeverSent | TransportFault::PastGoaway => Transparent::Unlimited,
        TransportFault::StreamRefused => Transparent::Once,
        TransportFault::DispatchGone => Transparent::IfUnread,
        _ => Transparent::No,
    };
    let mut failure = failure_of(code, stage).transparent(transparent);
    failure.reason = request_failed(fault).unwrap_or(failure.reason);
    (code, failure)
}

/// The reason of a request that failed by itself: its code does not say that the server has no part
/// in it.
pub(crate) fn request_failed(fault: TransportFault) -> Option<RetryReason> {
    let verdict = fault.verdict();
    let own = verdict.failure().map(|failure| failure.reason);
    own.filter(|reason| reason.class() == ReasonClass::Request)
}

impl<B, E: TransportError> Classify<Response<B>, E> for GrpcClassifier {
    fn classify(&self, outcome: Result<&Response<B>, &E>, context: &CallContext) -> Verdict {
        let codes = || MethodPolicy::codes(context, self.retryable);
        let judge = |code: Code, failure: Failure| {
            if codes().contains(code) {
                Verdict::Retry(failure)
            } else {
                Verdict::Fatal(failure)
            }
        };
        let response = match outcome {
            Ok(response) => response,
            Err(error) => {
                let fault = error.fault().with_refused(self.refused_for(context));
                let (code, failure) = failure_of_fault(fault);
                return match fault {
                    // A further attempt with the same body would fail the same way. (Of an attempt
                    // that was cut off for another one no verdict counts.)
                    TransportFault::RequestFailed | TransportFault::Abandoned => {
                        Verdict::Fatal(failure)
                    }
                    _ => judge(code, failure),
                };
            }
        };
        let Some(code) = status_in_head(response) else {
            return Verdict::Committed;
        };
        if code == Code::Ok {
            return Verdict::Success;
        }
        if let Some(own) = response.extensions().get::<ControlPlaneFailure>() {
            // Never sent, but the policy decides (A54). A dropped call is final.
            let mut failure = failure_of(code, Stage::Dispatch);
            failure.reason = GRPC_CONTROL_PLANE;
            return if own.is_dropped() {
                Verdict::Fatal(failure)
            } else {
                judge(code, failure)
            };
        }
        // A response made by this client's own deadline never came from the server.
        let stage = match response.extensions().get::<Elapsed>() {
            Some(_) => Stage::InFlight,
            None => Stage::Response,
        };
        judge(code, failure_of(code, stage))
    }

    fn unknown_error(&self, error: &E, failure: &Failure) -> Option<String> {
        let is_unread = failure.reason == GRPC_UNKNOWN && error.fault() == TransportFault::Unknown;
        if is_unread {
            error.unknown_type()
        } else {
            None
        }
    }
}

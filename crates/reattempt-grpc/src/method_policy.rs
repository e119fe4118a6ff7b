//! The policy data that gRPC's own layers read.

use reattempt::CallContext;
use reattempt_http::RefusedStream;

use crate::CodeSet;

/// The data of a route policy that gRPC's own layers read for a method.
///
/// [`GrpcClassifier`](crate::GrpcClassifier) and [`GrpcOutcomeLayer`](crate::GrpcOutcomeLayer) read
/// the codes, the classifier also `refused`, [`MessageLimitLayer`](crate::MessageLimitLayer) the
/// limits, [`WaitForReadyLayer`](crate::WaitForReadyLayer) `wait_for_ready`. A
/// [`ServiceConfig`](crate::service_config::ServiceConfig) adds it to each policy it makes.
///
/// ```
/// use reattempt::RoutePolicy;
/// use reattempt_grpc::{Code, CodeSet, MethodPolicy};
///
/// let data = MethodPolicy::new(CodeSet::of(&[Code::Unavailable]))
///     .max_request_message_bytes(64 * 1024);
/// let policy = RoutePolicy::new("shop.Cart/Add").with_data(data);
/// assert_eq!(policy.data::<MethodPolicy>(), Some(&data));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MethodPolicy {
    /// The codes that may be retried (`retryableStatusCodes`), or that leave other hedges running
    /// (`nonFatalStatusCodes`).
    pub retryable: CodeSet,
    /// The longest request message in bytes (`maxRequestMessageBytes`).
    pub max_request_message_bytes: Option<u64>,
    /// The longest response message in bytes (`maxResponseMessageBytes`).
    pub max_response_message_bytes: Option<u64>,
    /// Whether calls wait for a connection (`waitForReady`); if absent, the client decides.
    pub wait_for_ready: Option<bool>,
    /// What REFUSED_STREAM means for a call; if absent, the classifier decides.
    pub refused: Option<RefusedStream>,
}

impl MethodPolicy {
    /// Only the retryable (for hedging: non-fatal) codes; everything else is unset.
    #[must_use]
    pub const fn new(retryable: CodeSet) -> Self {
        Self {
            retryable,
            max_request_message_bytes: None,
            max_response_message_bytes: None,
            wait_for_ready: None,
            refused: None,
        }
    }

    /// Limits each request message, in bytes.
    #[must_use]
    pub const fn max_request_message_bytes(mut self, bytes: u64) -> Self {
        self.max_request_message_bytes = Some(bytes);
        self
    }

    /// Limits each response message, in bytes.
    #[must_use]
    pub const fn max_response_message_bytes(mut self, bytes: u64) -> Self {
        self.max_response_message_bytes = Some(bytes);
        self
    }

    /// Sets whether calls wait for a connection.
    #[must_use]
    pub const fn wait_for_ready(mut self, waits: bool) -> Self {
        self.wait_for_ready = Some(waits);
        self
    }

    /// Sets what REFUSED_STREAM means for a call.
    #[must_use]
    pub const fn refused(mut self, refused: RefusedStream) -> Self {
        self.refused = Some(refused);
        self
    }

    /// The data of the call's policy.
    pub(crate) fn of(context: &CallContext) -> Option<&Self> {
        context.policy()?.data()
    }

    /// The codes of the call's policy, else `default`.
    pub(crate) fn codes(context: &CallContext, default: CodeSet) -> CodeSet {
        Self::of(context).map_or(default, |method| method.retryable)
    }
}

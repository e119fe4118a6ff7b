//! The data that a method's policy carries for gRPC's own layers.

use reattempt::CallContext;
use reattempt_http::RefusedStream;

use crate::CodeSet;

/// A route policy's data: what gRPC's own layers read of a method.
///
/// [`GrpcClassifier`](crate::GrpcClassifier) and [`GrpcOutcomeLayer`](crate::GrpcOutcomeLayer) read
/// the codes, the classifier `refused` too, [`MessageLimitLayer`](crate::MessageLimitLayer) the
/// limits, [`WaitForReadyLayer`](crate::WaitForReadyLayer) `wait_for_ready`. A
/// [`ServiceConfig`](crate::service_config::ServiceConfig) puts it into each policy it makes.
///
/// ```
/// use reattempt::RoutePolicy;
/// use reattempt_grpc::{Code, CodeSet, MethodPolicy};
///
/// let data = MethodPolicy::new(CodeSet::of(&[Code::Unavailable]))
///     .max_request_message_bytes(64 * 1024);
/// let policy = RoutePolicy::new("shop.Cart/Add").data(data);
/// assert_eq!(policy.get_data::<MethodPolicy>(), Some(&data));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MethodPolicy {
    /// The codes that another attempt may mend (`retryableStatusCodes`) or that leave other hedges
    /// running (`nonFatalStatusCodes`).
    pub retryable: CodeSet,
    /// The longest request message in bytes (`maxRequestMessageBytes`).
    pub max_request_message_bytes: Option<u64>,
    /// The longest response message in bytes (`maxResponseMessageBytes`).
    pub max_response_message_bytes: Option<u64>,
    /// Whether calls wait for a connection (`waitForReady`); absent is the client's choice.
    pub wait_for_ready: Option<bool>,
    /// What REFUSED_STREAM says of a call; absent is the classifier's choice.
    pub refused: Option<RefusedStream>,
}

impl MethodPolicy {
    /// These codes are retryable (or, for hedging, not fatal); nothing else is said.
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

    /// With a limit to each request message, in bytes.
    #[must_use]
    pub const fn max_request_message_bytes(mut self, bytes: u64) -> Self {
        self.max_request_message_bytes = Some(bytes);
        self
    }

    /// With a limit to each response message, in bytes.
    #[must_use]
    pub const fn max_response_message_bytes(mut self, bytes: u64) -> Self {
        self.max_response_message_bytes = Some(bytes);
        self
    }

    /// Calls wait for a connection, or do not.
    #[must_use]
    pub const fn wait_for_ready(mut self, waits: bool) -> Self {
        self.wait_for_ready = Some(waits);
        self
    }

    /// REFUSED_STREAM says this of a call.
    #[must_use]
    pub const fn refused(mut self, refused: RefusedStream) -> Self {
        self.refused = Some(refused);
        self
    }

    /// What the call's policy says.
    pub(crate) fn of(context: &CallContext) -> Option<&Self> {
        context.policy()?.get_data()
    }

    /// The codes in force for a call: its policy's, else `default`.
    pub(crate) fn codes(context: &CallContext, default: CodeSet) -> CodeSet {
        Self::of(context).map_or(default, |method| method.retryable)
    }
}

//! One reason per status code, and one for calls that the control plane failed.
//!
//! All of them allow a request of any method to be sent again: A6 leaves that to the policy's set
//! of codes, and "does not provide a mechanism to specifically mark a method as idempotent"
//! (Retryable Status Codes). None is an always-retry reason.

use reattempt::retry_reasons;

retry_reasons! {
    /// Status 1.
    pub GRPC_CANCELLED(true, false, answer);
    /// Status 2.
    pub GRPC_UNKNOWN(true, false);
    /// Status 3.
    pub GRPC_INVALID_ARGUMENT(true, false, answer);
    /// Status 4.
    pub GRPC_DEADLINE_EXCEEDED(true, false, overload);
    /// Status 5.
    pub GRPC_NOT_FOUND(true, false, answer);
    /// Status 6.
    pub GRPC_ALREADY_EXISTS(true, false, answer);
    /// Status 7.
    pub GRPC_PERMISSION_DENIED(true, false, answer);
    /// Status 8.
    pub GRPC_RESOURCE_EXHAUSTED(true, false, overload);
    /// Status 9.
    pub GRPC_FAILED_PRECONDITION(true, false, answer);
    /// Status 10.
    pub GRPC_ABORTED(true, false, answer);
    /// Status 11.
    pub GRPC_OUT_OF_RANGE(true, false, answer);
    /// Status 12.
    pub GRPC_UNIMPLEMENTED(true, false);
    /// Status 13.
    pub GRPC_INTERNAL(true, false);
    /// Status 14.
    pub GRPC_UNAVAILABLE(true, false, not_accepted);
    /// Status 15.
    pub GRPC_DATA_LOSS(true, false);
    /// Status 16.
    pub GRPC_UNAUTHENTICATED(true, false, answer);
    /// Never sent: the client could not make its credentials, or pick a backend (A54,
    /// [`ControlPlaneFailure`](crate::ControlPlaneFailure)). The status is the failure's code.
    pub GRPC_CONTROL_PLANE(true, false, request);
}

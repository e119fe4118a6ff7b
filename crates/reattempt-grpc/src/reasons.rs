//! One reason per status code.
//!
//! All of them allow a request of any method to be sent again: A6 leaves that to the policy's set
//! of codes, and "does not provide a mechanism to specifically mark a method as idempotent"
//! (Retryable Status Codes). None is an always-retry reason.

use reattempt::retry_reasons;

retry_reasons! {
    /// Status 1.
    pub GRPC_CANCELLED(true, false);
    /// Status 2.
    pub GRPC_UNKNOWN(true, false);
    /// Status 3.
    pub GRPC_INVALID_ARGUMENT(true, false);
    /// Status 4.
    pub GRPC_DEADLINE_EXCEEDED(true, false);
    /// Status 5.
    pub GRPC_NOT_FOUND(true, false);
    /// Status 6.
    pub GRPC_ALREADY_EXISTS(true, false);
    /// Status 7.
    pub GRPC_PERMISSION_DENIED(true, false);
    /// Status 8.
    pub GRPC_RESOURCE_EXHAUSTED(true, false);
    /// Status 9.
    pub GRPC_FAILED_PRECONDITION(true, false);
    /// Status 10.
    pub GRPC_ABORTED(true, false);
    /// Status 11.
    pub GRPC_OUT_OF_RANGE(true, false);
    /// Status 12.
    pub GRPC_UNIMPLEMENTED(true, false);
    /// Status 13.
    pub GRPC_INTERNAL(true, false);
    /// Status 14.
    pub GRPC_UNAVAILABLE(true, false);
    /// Status 15.
    pub GRPC_DATA_LOSS(true, false);
    /// Status 16.
    pub GRPC_UNAUTHENTICATED(true, false);
}

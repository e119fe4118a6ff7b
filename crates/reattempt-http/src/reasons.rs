//! Reasons of HTTP, by meaning.
//!
//! A reason allows a retry of a request that is not idempotent only where HTTP itself states that
//! the request was not processed.

use reattempt::{RetryReason, retry_reasons};

retry_reasons! {
    /// 408: the server timed out waiting for the request. Gateways also return it for a backend
    /// that may have received it, so it does not promise that nothing was processed.
    pub HTTP_REQUEST_TIMEOUT(false, false, overload);
    /// 425: the server refuses a request that might be replayed (RFC 8470, section 5.2).
    pub HTTP_TOO_EARLY(true, false);
    /// 429: refused by a rate limit, before it was processed (RFC 6585, section 4).
    pub HTTP_TOO_MANY_REQUESTS(true, false, overload);
    /// 500: it is unknown how far the request came, so only an idempotent one is retried.
    pub HTTP_INTERNAL_SERVER_ERROR(false, false);
    /// 502: the gateway received no valid response from the upstream server.
    pub HTTP_BAD_GATEWAY(false, false, not_accepted);
    /// 503: overloaded or down for maintenance. A gateway also returns it after it has forwarded
    /// the request.
    pub HTTP_SERVICE_UNAVAILABLE(false, false, overload);
    /// 504: the gateway received no response from the upstream server in time.
    pub HTTP_GATEWAY_TIMEOUT(false, false, overload);
    /// Any other failure status below 500: the server's answer to the request.
    pub HTTP_STATUS(false, false, answer);
    /// 409 to an attempt whose idempotency key another attempt of the call has: the server still
    /// processes that one (draft-ietf-httpapi-idempotency-key-header, Error Handling).
    pub HTTP_KEY_IN_USE(false, false, item);
    /// Any other status from 500 on.
    pub HTTP_SERVER_ERROR(false, false);
    /// No connection could be made, or a new one ended before the request; nothing was sent.
    pub HTTP_CONNECT_FAILED(true, false, unsent);
    /// A layer of this client refused the request before it was sent (tower's `LoadShed`).
    pub HTTP_SHED(true, false, request);
    /// The connection closed before the request was written to it.
    pub HTTP_NEVER_SENT(true, false, unsent);
    /// HTTP/2: refused before any processing (REFUSED_STREAM, or past the last stream of a GOAWAY;
    /// RFC 9113, section 8.7).
    pub HTTP_STREAM_REFUSED(true, false);
    /// HTTP/2: the stream was reset for another reason, or refused by a server whose refusals are
    /// [ambiguous](crate::RefusedStream::Ambiguous).
    pub HTTP_STREAM_RESET(false, false);
    /// The connection ended while the request was in flight, or while it waited for an HTTP/2
    /// stream.
    pub HTTP_CONNECTION_CLOSED(false, false);
    /// The connection failed while the request was in flight.
    pub HTTP_CONNECTION_RESET(false, false);
    /// No response within the timeout of one attempt.
    pub HTTP_TIMEOUT(false, false, overload);
    /// The response body failed.
    pub HTTP_BODY_FAILED(false, false);
    /// The response violates the protocol.
    pub HTTP_PROTOCOL_ERROR(false, false);
    /// The request itself cannot be sent: it is invalid, or its own body failed.
    pub HTTP_REQUEST_FAILED(false, false, request);
    /// Another attempt had already read more of a body that exceeded its buffer.
    pub HTTP_REQUEST_ABANDONED(false, false, request);
}

/// The reason for a failure status.
#[must_use]
pub const fn of_status(status: u16) -> RetryReason {
    match status {
        408 => HTTP_REQUEST_TIMEOUT,
        425 => HTTP_TOO_EARLY,
        429 => HTTP_TOO_MANY_REQUESTS,
        500 => HTTP_INTERNAL_SERVER_ERROR,
        502 => HTTP_BAD_GATEWAY,
        503 => HTTP_SERVICE_UNAVAILABLE,
        504 => HTTP_GATEWAY_TIMEOUT,
        501 | 505.. => HTTP_SERVER_ERROR,
        _ => HTTP_STATUS,
    }
}

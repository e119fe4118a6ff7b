//! Maps errors to status codes.

use reattempt::RetryReason;
use reattempt_http::{TransportError, TransportFault};

use crate::Code;
use crate::classify::{failure_of_fault, request_failed};

/// Maps an error of a call, or of a response stream, to a status code. Implemented for closures
/// `Fn(&E) -> Code`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` finds no status code in `{E}`",
    note = "name the code with `GrpcOutcomeLayer::new().body_error(|error: &{E}| …)` or with `ErrorCodes::new().body(…)`; for tonic switch on feature `tonic`"
)]
pub trait BodyErrorCode<E> {
    /// The code of this error.
    fn code(&self, error: &E) -> Code;

    /// The reason, if the request failed by itself, because its own body did for example: that says
    /// nothing about the server ([`ReasonClass::Request`](reattempt::reason::ReasonClass)).
    fn request_failed(&self, _: &E) -> Option<RetryReason> {
        None
    }
}

#[diagnostic::do_not_recommend]
impl<F, E> BodyErrorCode<E> for F
where
    F: Fn(&E) -> Code,
{
    fn code(&self, error: &E) -> Code {
        self(error)
    }
}

/// Reads the error types that reattempt-http knows, boxed or not; any other error is UNKNOWN. With
/// feature `tonic`, a `tonic::Status` (the body error of a tonic channel) has its own code, unless
/// its source is more precise: a broken connection is UNAVAILABLE.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByKnownError;

impl<E: 'static> BodyErrorCode<E> for ByKnownError {
    fn code(&self, error: &E) -> Code {
        let fault = TransportFault::of_any(error);
        #[cfg(feature = "tonic")]
        if fault == TransportFault::Unknown {
            let error: &dyn std::any::Any = error;
            if let Some(status) = error.downcast_ref::<tonic::Status>() {
                return Code::from(status.code() as i32);
            }
        }
        failure_of_fault(fault).0
    }

    fn request_failed(&self, error: &E) -> Option<RetryReason> {
        request_failed(TransportFault::of_any(error))
    }
}

/// Uses the error's [`TransportError`] implementation, for error types of your own.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByTransportError;

impl<E: TransportError> BodyErrorCode<E> for ByTransportError {
    fn code(&self, error: &E) -> Code {
        failure_of_fault(error.fault()).0
    }

    fn request_failed(&self, error: &E) -> Option<RetryReason> {
        request_failed(error.fault())
    }
}

/// How a layer that needs both maps the errors of a service and of its response streams.
///
/// ```
/// use reattempt_grpc::{Code, ErrorCodes};
///
/// struct Broken;
/// let errors = ErrorCodes::new().body(|_: &Broken| Code::Unavailable);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ErrorCodes<C = ByKnownError, R = ByKnownError> {
    pub(crate) call: C,
    pub(crate) body: R,
}

impl ErrorCodes {
    /// Uses [`ByKnownError`] for both.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            call: ByKnownError,
            body: ByKnownError,
        }
    }
}

impl<C, R> ErrorCodes<C, R> {
    /// Maps the errors that the service returns instead of a response.
    #[must_use]
    pub fn call<N>(self, call: N) -> ErrorCodes<N, R> {
        ErrorCodes {
            call,
            body: self.body,
        }
    }

    /// Maps the errors of a response stream.
    #[must_use]
    pub fn body<N>(self, body: N) -> ErrorCodes<C, N> {
        ErrorCodes {
            call: self.call,
            body,
        }
    }
}

/// For layers that do not read errors.
#[derive(Clone, Copy, Debug)]
pub struct NotAsked;

impl<E> BodyErrorCode<E> for NotAsked {
    fn code(&self, _: &E) -> Code {
        Code::Unknown
    }
}

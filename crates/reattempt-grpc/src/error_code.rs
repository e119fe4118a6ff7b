//! Which status code an error stands for.

use reattempt_http::{TransportError, TransportFault};

use crate::Code;
use crate::classify::failure_of_fault;

/// Says which code an error of a call, or of its answer's stream, stands for. Closures
/// `Fn(&E) -> Code` implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` finds no status code in `{E}`",
    note = "name the code with `GrpcOutcomeLayer::new().body_error(|error: &{E}| …)` or with `ErrorCodes::new().body(…)`; for tonic switch on feature `tonic`"
)]
pub trait BodyErrorCode<E> {
    /// The code.
    fn code(&self, error: &E) -> Code;
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

/// Looks into errors of the types that reattempt-http knows, boxed or not; any other is UNKNOWN.
/// With feature `tonic` a `tonic::Status`, as the bodies of its channel have it, stands for its own
/// code, unless what caused it says more: a connection that broke is UNAVAILABLE.
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
}

/// Goes by the [`TransportError`], for error types of your own.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByTransportError;

impl<E: TransportError> BodyErrorCode<E> for ByTransportError {
    fn code(&self, error: &E) -> Code {
        failure_of_fault(error.fault()).0
    }
}

/// How codes are found in errors of a service and in errors of its answers' streams, for a layer
/// that asks for both.
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
    /// Both by [`ByKnownError`].
    #[must_use]
    pub const fn new() -> Self {
        Self {
            call: ByKnownError,
            body: ByKnownError,
        }
    }
}

impl<C, R> ErrorCodes<C, R> {
    /// Reads errors that the service returns in place of an answer like this.
    #[must_use]
    pub fn call<N>(self, call: N) -> ErrorCodes<N, R> {
        ErrorCodes {
            call,
            body: self.body,
        }
    }

    /// Reads errors of an answer's stream like this.
    #[must_use]
    pub fn body<N>(self, body: N) -> ErrorCodes<C, N> {
        ErrorCodes {
            call: self.call,
            body,
        }
    }
}

/// For who does not look at errors.
#[derive(Clone, Copy, Debug)]
pub struct NotAsked;

impl<E> BodyErrorCode<E> for NotAsked {
    fn code(&self, _: &E) -> Code {
        Code::Unknown
    }
}

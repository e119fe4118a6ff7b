//! Requests that carry a context.

use crate::call::CallSubject;
use crate::{CallContext, Idempotency};

/// A request that carries a [`CallContext`].
///
/// Implemented for [`Call<T>`](crate::Call) (inline) and, with feature `http`, for
/// `http::Request<B>` (in its extensions; `tonic::Request::extensions_mut()` ends up there too).
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no room for a `CallContext`",
    note = "put `CallLayer` outermost and `UncallLayer` directly above the transport: any request is then carried in `Call<T>`; or use `http::Request`",
    note = "a client with a request type of its own: put a service below the layers that converts an `http::Request`, and its response to an `http::Response`; for reqwest this is `reattempt_http::reqwest::ReqwestService`, and its own builder has `send_with`"
)]
pub trait HasCallContext {
    /// The context, if the request has one.
    fn context(&self) -> Option<&CallContext>;

    /// The context; an empty one is inserted if there is none.
    fn context_mut(&mut self) -> &mut CallContext;

    /// The idempotency that the request's protocol defines, used when none was set explicitly. HTTP
    /// derives it from the method (RFC 9110, Idempotent Methods).
    fn natural_idempotency(&self) -> Idempotency {
        Idempotency::Unknown
    }

    /// What the call is about, for the log. Asked only if the log is on: of a call that fails, and
    /// before a request is sent of which nothing is kept.
    fn subject(&self) -> CallSubject {
        CallSubject::default()
    }
}

#[cfg(feature = "http")]
impl<B> HasCallContext for http::Request<B> {
    fn context(&self) -> Option<&CallContext> {
        self.extensions().get()
    }

    fn context_mut(&mut self) -> &mut CallContext {
        self.extensions_mut().get_or_insert_default()
    }

    fn natural_idempotency(&self) -> Idempotency {
        use http::Method;
        match *self.method() {
            Method::GET
            | Method::HEAD
            | Method::OPTIONS
            | Method::TRACE
            | Method::PUT
            | Method::DELETE => Idempotency::Idempotent,
            _ => Idempotency::NotIdempotent,
        }
    }

    fn subject(&self) -> CallSubject {
        crate::call::subject::of_http(self)
    }
}

/// The extensions of a request under construction: `RetryInfo::track(request.extensions_mut())`
/// on a `tonic::Request`.
#[cfg(feature = "http")]
#[diagnostic::do_not_recommend]
impl HasCallContext for http::Extensions {
    fn context(&self) -> Option<&CallContext> {
        self.get()
    }

    fn context_mut(&mut self) -> &mut CallContext {
        self.get_or_insert_default()
    }
}

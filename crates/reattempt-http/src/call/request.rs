//! What a layer needs of an HTTP request, wherever its context is.

use http::{HeaderMap, Method, Request, Uri};
use reattempt::HasCallContext;

/// An HTTP request: a [`Request`] with its context in its extensions, or an
/// [`HttpCall`](super::HttpCall) with its context inline.
pub trait HttpRequest: HasCallContext {
    /// The method.
    fn method(&mut self) -> &Method;

    /// The URI.
    fn uri(&mut self) -> &Uri;

    /// The headers.
    fn headers_mut(&mut self) -> &mut HeaderMap;
}

impl<B> HttpRequest for Request<B> {
    #[inline]
    fn method(&mut self) -> &Method {
        Self::method(self)
    }

    #[inline]
    fn uri(&mut self) -> &Uri {
        Self::uri(self)
    }

    #[inline]
    fn headers_mut(&mut self) -> &mut HeaderMap {
        Self::headers_mut(self)
    }
}

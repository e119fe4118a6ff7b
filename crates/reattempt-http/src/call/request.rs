//! What a layer needs of an HTTP request, wherever its context is.

use http::{HeaderMap, Method, Request, Uri};
use reattempt::HasCallContext;

use crate::sealed::Sealed;

/// An HTTP request: a [`Request`] with its context in its extensions, or an
/// [`HttpCall`](super::HttpCall) with its context inline. No other type can implement it.
pub trait HttpRequest: HasCallContext + Sealed {
    /// The method.
    fn method(&mut self) -> &Method;

    /// The URI, and the headers, of which the origin may be one.
    fn target(&mut self) -> (&Uri, &HeaderMap);

    /// The headers.
    fn headers_mut(&mut self) -> &mut HeaderMap;
}

impl<B> Sealed for Request<B> {}
impl<B> Sealed for super::HttpCall<B> {}

impl<B> HttpRequest for Request<B> {
    #[inline]
    fn method(&mut self) -> &Method {
        Self::method(self)
    }

    #[inline]
    fn target(&mut self) -> (&Uri, &HeaderMap) {
        (Self::uri(self), Self::headers(self))
    }

    #[inline]
    fn headers_mut(&mut self) -> &mut HeaderMap {
        Self::headers_mut(self)
    }
}

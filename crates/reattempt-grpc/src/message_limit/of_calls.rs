//! `MessageLimitLayer` for requests with an inline context.

use std::task::{Context, Poll};

use http::Response;
use http_body::Body;
use reattempt_http::call::HttpCall;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    LimitedRequestBody, LimitedResponseBody, MessageLimit, MessageLimitFuture, MessageLimitLayer,
};

/// A [`MessageLimitLayer`] below an `InlineContextLayer`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallMessageLimitLayer(pub(crate) MessageLimitLayer);

impl<S> Layer<S> for CallMessageLimitLayer {
    type Service = CallMessageLimit<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CallMessageLimit(self.0.layer(inner))
    }
}

/// Created by [`CallMessageLimitLayer`].
#[derive(Clone, Debug)]
pub struct CallMessageLimit<S>(MessageLimit<S>);

impl<S, B, R> Service<HttpCall<B>> for CallMessageLimit<S>
where
    S: Service<HttpCall<LimitedRequestBody<B>>, Response = Response<R>>,
    B: Body,
{
    type Response = Response<LimitedResponseBody<R>>;
    type Error = S::Error;
    type Future = MessageLimitFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, mut request: HttpCall<B>) -> Self::Future {
        let (watched, limited) = self.0.taken(&mut request).unzip();
        let request = request.map_body(|body| LimitedRequestBody::new(body, watched));
        MessageLimitFuture::new(self.0.inner.call(request), limited)
    }
}

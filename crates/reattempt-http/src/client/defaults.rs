//! Attaches the preset's throttle, and what it knows of the call's idempotency.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Request;
use http::header::HOST;
use reattempt::admission::{Admission, PickAdmission};
use reattempt::{Idempotency, RetryThrottle, TokenBucket};
use tower_layer::Layer;
use tower_service::Service;

use super::origin::PerOrigin;
use crate::call::HttpRequest;
use crate::reasons::HTTP_TOO_MANY_REQUESTS;

/// What a call gets that has none yet: the caller's own and the route policy's take precedence.
#[derive(Clone, Debug, Default)]
pub(super) struct CallDefaultsLayer {
    pub(super) throttle: ClientThrottle,
    /// Only the safe methods of RFC 9110 (section 9.2.1) are idempotent.
    pub(super) only_reads: bool,
}

/// Which throttle a call gets.
#[derive(Clone, Debug)]
pub(super) enum ClientThrottle {
    None,
    Shared(Arc<dyn RetryThrottle>),
    PerOrigin(Arc<PerOrigin<dyn RetryThrottle>>),
}

impl ClientThrottle {
    pub(super) fn per_origin(
        make: impl Fn() -> Arc<dyn RetryThrottle> + Send + Sync + 'static,
    ) -> Self {
        Self::PerOrigin(Arc::new(PerOrigin::new(Box::new(move |_| make()))))
    }

    fn of(&self, request: &mut impl HttpRequest) -> Option<Arc<dyn RetryThrottle>> {
        match self {
            Self::None => None,
            Self::Shared(throttle) => Some(Arc::clone(throttle)),
            Self::PerOrigin(origins) => {
                let (uri, headers) = request.target();
                Some(origins.of(uri, || headers.get(HOST)))
            }
        }
    }
}

impl Default for ClientThrottle {
    fn default() -> Self {
        Self::per_origin(|| Arc::new(TokenBucket::default()))
    }
}

/// The admissions of all origins, with the settings of one that counts nothing itself; off without.
#[derive(Clone, Debug, Default)]
pub struct OriginAdmissions(Option<(Arc<Admission>, Arc<PerOrigin<Admission>>)>);

impl OriginAdmissions {
    /// With `limits_apart` a call that ends in a rate limit, which is of the caller's own key, does
    /// not count.
    pub(super) fn like(settings: Arc<Admission>, limits_apart: bool) -> Self {
        let model = Arc::clone(&settings);
        let origins = PerOrigin::new(Box::new(move |_| {
            let admission = model.another();
            Arc::new(if limits_apart {
                admission.ignore(HTTP_TOO_MANY_REQUESTS)
            } else {
                admission
            })
        }));
        Self(Some((settings, Arc::new(origins))))
    }
}

impl<B> PickAdmission<Request<B>> for OriginAdmissions {
    fn pick(&self, request: &Request<B>) -> Option<Arc<Admission>> {
        let (settings, origins) = self.0.as_ref()?;
        if settings.is_off() {
            return None;
        }
        let admission = origins.of(request.uri(), || request.headers().get(HOST));
        // They may have changed, with the document.
        admission.follow(settings);
        Some(admission)
    }
}

impl<S> Layer<S> for CallDefaultsLayer {
    type Service = CallDefaults<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CallDefaults {
            inner,
            defaults: self.clone(),
        }
    }
}

/// Created by [`CallDefaultsLayer`].
#[derive(Clone)]
pub struct CallDefaults<S> {
    inner: S,
    defaults: CallDefaultsLayer,
}

impl<S> fmt::Debug for CallDefaults<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.defaults.fmt(f)
    }
}

impl<S, Req> Service<Req> for CallDefaults<S>
where
    S: Service<Req>,
    Req: HttpRequest,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, mut request: Req) -> Self::Future {
        if let Some(throttle) = self.defaults.throttle.of(&mut request) {
            request.context_mut().attach_throttle(&throttle);
        }
        if self.defaults.only_reads && !request.method().is_safe() {
            let context = request.context_mut();
            if context.idempotency() == Idempotency::Unknown {
                context.set_idempotency(Idempotency::NotIdempotent);
            }
        }
        self.inner.call(request)
    }
}

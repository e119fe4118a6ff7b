//! `IdempotencyKeyLayer`: a request with a key may be retried; requests without one can get one.
//!
//! A server that supports the header processes requests with the same key only once (IETF draft
//! [draft-ietf-httpapi-idempotency-key-header](https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/)),
//! so such a request is idempotent with any method. Put the layer above the recovery layer, so that
//! all attempts of a call have the same key, and below a `RouteLayer` whose routes decide what keys
//! mean ([`HttpRoute::idempotency_key`]). Routes that say nothing use the layer's own setting: keys
//! count, unless it is [by policy only](IdempotencyKeyLayer::by_policy). What the caller has set
//! takes precedence.
//!
//! A server may answer 409 to an attempt while it still processes another one with the same key
//! (the draft, Error Handling). [`HttpClassifier`](crate::HttpClassifier) retries this answer while
//! that may be another attempt of the same call. If the call has none, or the server is known to
//! have processed none of them (the connection was refused, 429), 409 is final.
//!
//! ```
//! use http::{Request, Response};
//! use reattempt::{HasCallContext, Idempotency, StackCheck};
//! use reattempt_http::IdempotencyKeyLayer;
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), std::convert::Infallible> {
//! let service = ServiceBuilder::new()
//!     .layer(IdempotencyKeyLayer::new())
//!     .service_fn(|request: Request<()>| async move {
//!         let context = request.context();
//!         Ok::<_, std::convert::Infallible>(context.map(|context| context.idempotency()))
//!     });
//! let request = Request::post("/orders")
//!     .header("idempotency-key", "\"8e03978e\"")
//!     .body(())
//!     .unwrap();
//! assert_eq!(service.oneshot(request).await?, Some(Idempotency::Idempotent));
//! # Ok(()) }
//! ```
//!
//! # Generated keys
//!
//! [`generate`](IdempotencyKeyLayer::generate), or `"idempotencyKey": "generate"` in a policy,
//! gives a POST or PATCH without a key one of its own: a random UUID (RFC 9562, version 4) as a
//! string in quotation marks, as the draft recommends. Use it only for servers that honour the
//! header: any other processes the request once more with each retry. A call of one's own after a
//! timeout has another key, so that timeout is ambiguous: where calls are repeated, the caller
//! makes the key.
//!
//! ```
//! use http::{Request, Response, StatusCode};
//! use reattempt::RetryLayer;
//! use reattempt::strategy::MaxAttempts;
//! use reattempt_http::{HttpClassifier, IdempotencyKeyLayer};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! # use std::sync::{Arc, Mutex};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), std::convert::Infallible> {
//! # let keys = Arc::new(Mutex::new(Vec::new()));
//! # let seen = Arc::clone(&keys);
//! let service = ServiceBuilder::new()
//!     .layer(IdempotencyKeyLayer::new().generate())
//!     .layer(RetryLayer::new(HttpClassifier::new(), MaxAttempts::standard()))
//!     .service_fn(move |request: Request<&'static str>| {
//!         # let keys = Arc::clone(&seen);
//!         # async move {
//!         let key = request.headers()["idempotency-key"].clone();
//!         # let mut keys = keys.lock().unwrap();
//!         keys.push(key);
//!         let mut response = Response::new(());
//!         if keys.len() < 3 {
//!             *response.status_mut() = StatusCode::BAD_GATEWAY;
//!         }
//!         Ok::<_, std::convert::Infallible>(response)
//!         # }
//!     });
//! let order = Request::post("/orders").body("two apples").unwrap();
//! assert_eq!(service.oneshot(order).await?.status(), 200);
//! # let keys = keys.lock().unwrap();
//! assert_eq!(keys.len(), 3);
//! assert!(keys.iter().all(|key| key == keys[0]), "one key for all attempts");
//! # Ok(()) }
//! ```

#[cfg(test)]
mod tests;

use std::task::{Context, Poll};

use http::{HeaderName, HeaderValue};
use reattempt::backoff::Randomness;
use reattempt::{Idempotency, StackCheck};
use tower_layer::Layer;
use tower_service::Service;

use crate::by_route::Keyed;
use crate::call::HttpRequest;
use crate::{HttpRoute, IdempotencyKeys};

/// Treats requests with an `Idempotency-Key` as idempotent, and can make keys.
#[derive(Clone, Debug)]
pub struct IdempotencyKeyLayer {
    header: HeaderName,
    /// For routes that say nothing.
    unless_said: IdempotencyKeys,
    randomness: Randomness,
}

impl IdempotencyKeyLayer {
    /// Reads the header `Idempotency-Key`.
    #[must_use]
    pub const fn new() -> Self {
        Self::header(HeaderName::from_static("idempotency-key"))
    }

    /// Reads a header with another name.
    #[must_use]
    pub const fn header(header: HeaderName) -> Self {
        Self {
            header,
            unless_said: IdempotencyKeys::Honour,
            randomness: Randomness::Thread,
        }
    }

    /// The key counts only on routes whose policy enables it.
    #[must_use]
    pub const fn by_policy(mut self) -> Self {
        self.unless_said = IdempotencyKeys::Ignore;
        self
    }

    /// Makes a key for each POST and PATCH without one, unless the route's policy says otherwise.
    #[must_use]
    pub const fn generate(mut self) -> Self {
        self.unless_said = IdempotencyKeys::Generate;
        self
    }

    /// Sets the source of the keys' random bits; the thread's cryptographic generator by default.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }
}

impl Default for IdempotencyKeyLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for IdempotencyKeyLayer {
    type Service = IdempotencyKey<S>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyKey {
            inner,
            config: self.clone(),
            order: StackCheck::default(),
        }
    }
}

/// Created by [`IdempotencyKeyLayer`].
#[derive(Clone, Debug)]
pub struct IdempotencyKey<S> {
    inner: S,
    config: IdempotencyKeyLayer,
    order: StackCheck,
}

impl<S, Req> Service<Req> for IdempotencyKey<S>
where
    S: Service<Req>,
    Req: HttpRequest,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, mut request: Req) -> Self::Future {
        let of_route = request.context().and_then(HttpRoute::of);
        let of_route = of_route.and_then(HttpRoute::idempotency_key);
        let keys = of_route.unwrap_or(self.config.unless_said);
        if keys != IdempotencyKeys::Ignore {
            self.take_up(&mut request, keys);
        }
        self.inner.call(request)
    }
}

impl<S> IdempotencyKey<S> {
    /// A request whose key counts.
    fn take_up(&self, request: &mut impl HttpRequest, keys: IdempotencyKeys) {
        let header = &self.config.header;
        let has_key = request
            .headers_mut()
            .get(header)
            .is_some_and(|key| !key.is_empty());
        if has_key || IdempotencyKeys::GENERATED_FOR.contains(request.method()) {
            let context = request.context_mut();
            let makes = keys == IdempotencyKeys::Generate && !has_key;
            if has_key || makes {
                self.order.outside_recovery("IdempotencyKeyLayer", context);
                if context.idempotency() == Idempotency::Unknown {
                    context.set_idempotency(if makes {
                        Idempotency::WithinCall
                    } else {
                        Idempotency::Idempotent
                    });
                }
                context.set_data(Keyed);
            }
            if makes {
                let key = key(&self.config.randomness);
                request.headers_mut().insert(header.clone(), key);
            }
        }
    }
}

/// A random UUID of version 4 (RFC 9562, section 5.4) as a string of a structured field.
fn key(randomness: &Randomness) -> HeaderValue {
    const VERSION: u128 = 0xf << 76;
    const VARIANT: u128 = 0b11 << 62;
    let random = u128::from(randomness.bits()) << 64 | u128::from(randomness.bits());
    let bits = random & !(VERSION | VARIANT) | 4 << 76 | 0b10 << 62;
    let key = format!(
        "\"{:08x}-{:04x}-{:04x}-{:04x}-{:012x}\"",
        bits >> 96,
        bits >> 80 & 0xffff,
        bits >> 64 & 0xffff,
        bits >> 48 & 0xffff,
        bits & 0xffff_ffff_ffff
    );
    // Hexadecimal digits, hyphens and quotation marks are valid in a header.
    HeaderValue::try_from(key).unwrap_or(HeaderValue::from_static("\"\""))
}

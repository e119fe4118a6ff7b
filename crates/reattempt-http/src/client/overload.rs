//! Admission, backends with health and circuit breakers of a client.

use std::sync::Arc;

use reattempt::CircuitBreakerLayer;
use reattempt::ClientErrorLayer;
use reattempt::admission::Admission;
use reattempt::backends::Backends;
use reattempt::health::LiveHealthPolicy;
use tower_layer::Layer;

use super::breakers::OriginBreakers;
use super::defaults::OriginAdmissions;
use super::layer::HttpClientLayer;
use super::{HttpClient, WithBreakers};
use crate::{HttpClassifier, HttpPushback};

impl<R, B> HttpClientLayer<R, B> {
    /// Refuses calls while the server accepts too few of them, with
    /// [`ClientError::Refused`](reattempt::ClientError::Refused): nothing is sent. Each origin
    /// counts by itself, with the settings of this admission, also when they change; this one
    /// counts nothing. [`policies`](Self::policies) has the `admission` of its table already.
    ///
    /// 429 counts as not accepted. Only with [`github`](HttpClientLayer::github) and
    /// [`llm`](HttpClientLayer::llm), where it is a limit of the caller's own key, a call that ends
    /// with it does not count, nor one with a 403 that is read as one
    /// ([`Admission::ignore`]).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use reattempt::Governor;
    /// use reattempt::admission::Admission;
    /// use reattempt_http::{HttpClientLayer, HttpPolicies, LiveHttpPolicies};
    ///
    /// let table = HttpPolicies::parse(
    ///     r#"{"default": {"retry": {}, "throttle": "shop"},
    ///         "throttles": {"shop": {"governor": true}}, "admission": true}"#,
    /// )?;
    /// let live = LiveHttpPolicies::new(table.policies);
    /// let layer = HttpClientLayer::policies(live);
    /// // Without a document, also one governor for each origin:
    /// let layer = HttpClientLayer::standard()
    ///     .throttle_per_origin(|| Arc::new(Governor::default()))
    ///     .admission(Arc::new(Admission::default()));
    /// # drop(layer);
    /// # Ok::<(), reattempt::config::Faults>(())
    /// ```
    #[must_use]
    pub fn admission(mut self, admission: Arc<Admission>) -> Self {
        let origins = OriginAdmissions::like(admission, self.settings.limits_apart);
        self.settings.admission = self.settings.admission.asks(origins);
        self
    }

    /// These services, one for each backend, with health: the innermost service of the client. A
    /// backend that fails is ejected for a time, each attempt goes to the less loaded of two, and a
    /// further one to a backend that the call has not tried. It has this layer's classifier,
    /// pushback and observers; keep a clone to change the list and to see its state.
    ///
    /// 429 counts as a failure, but with [`github`](HttpClientLayer::github) and
    /// [`llm`](HttpClientLayer::llm) as for [circuit breakers](Self::circuit_breakers).
    ///
    /// ```
    /// use reattempt::health::HealthPolicy;
    /// use reattempt_http::HttpClientLayer;
    /// use tower::ServiceBuilder;
    /// # use bytes::Bytes;
    /// # use http_body_util::Full;
    /// # type Sent = http::Request<reattempt_http::body::ReplayBody<Full<Bytes>>>;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let connect = |_: &str| tower::service_fn(|_: Sent| async {
    /// #     Ok::<_, std::io::Error>(http::Response::new(Full::<Bytes>::default()))
    /// # });
    ///
    /// let replicas = ["10.0.0.1:80", "10.0.0.2:80"].map(|address| (address, connect(address)));
    /// let layer = HttpClientLayer::standard();
    /// let backends = layer.backends(replicas, HealthPolicy::standard());
    /// let client = ServiceBuilder::new().layer(layer).service(backends.clone());
    ///
    /// backends.insert("10.0.0.3:80", connect("10.0.0.3:80"));
    /// assert!(backends.status().iter().all(|(_, status)| !status.is_ejected()));
    /// # let request = http::Request::new(Full::<Bytes>::default());
    /// # assert!(tower::ServiceExt::oneshot(client, request).await.is_ok());
    /// # }
    /// ```
    #[must_use]
    pub fn backends<N: Into<Arc<str>>, S: Send + 'static>(
        &self,
        services: impl IntoIterator<Item = (N, S)>,
        policy: impl Into<LiveHealthPolicy>,
    ) -> Backends<S, HttpClassifier, HttpPushback> {
        let classifier = self.settings.health_classifier();
        let pushback = (*self.settings.pushback).clone().uncapped();
        let backends = Backends::new(services, policy, classifier).pushback(pushback);
        match self.settings.recovery.known_observer() {
            Some(observer) => backends.observer(observer),
            None => backends,
        }
    }

    /// Refuses attempts at an origin while it fails, by a circuit breaker for each: nothing is
    /// sent, and the call ends at once with
    /// [`ClientError::CircuitOpen`](reattempt::ClientError::CircuitOpen). For a service with one
    /// address; over several [`backends`](Self::backends) their health goes elsewhere instead. The
    /// observers that were added before get its openings and closings; the log has them anyway.
    ///
    /// 429 counts as a failure: five in a row open the circuit. Only with
    /// [`github`](HttpClientLayer::github) and [`llm`](HttpClientLayer::llm), where it is a limit
    /// of the caller's own key, it is an answer, which ends a run of failures; so is a 403 that is
    /// read as one.
    ///
    /// ```
    /// use reattempt::health::HealthPolicy;
    /// use reattempt_http::HttpClientLayer;
    ///
    /// let layer = HttpClientLayer::standard().circuit_breakers(HealthPolicy::standard());
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn circuit_breakers(
        self,
        policy: impl Into<LiveHealthPolicy>,
    ) -> HttpClientLayer<R, OriginBreakers> {
        HttpClientLayer {
            breakers: OriginBreakers::new(policy.into(), self.settings.recovery.known_observer()),
            settings: self.settings,
            routes: self.routes,
        }
    }
}

impl<S, R: Clone> Layer<S> for HttpClientLayer<R, OriginBreakers> {
    type Service = HttpClient<S, R, WithBreakers<S>>;

    fn layer(&self, inner: S) -> Self::Service {
        let classifier = self.settings.health_classifier();
        let breakers = CircuitBreakerLayer::new(self.breakers.clone(), classifier);
        let innermost = breakers.layer(ClientErrorLayer.layer(inner));
        self.settings.around(&self.routes, innermost)
    }
}

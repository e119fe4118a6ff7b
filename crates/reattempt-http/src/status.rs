//! `HttpClassifier`: classifies HTTP statuses and transport errors.

mod headers;

use reattempt::reason::UNKNOWN;
use reattempt::{CallContext, Classify, Failure, Stage, Verdict};

use crate::reasons::of_status;
use crate::{HttpRoute, RefusedStream, StatusSet, TransportError};

/// Classifies HTTP responses by their status and errors by
/// [`TransportFault`](crate::TransportFault).
///
/// | outcome | verdict |
/// | --- | --- |
/// | status below 400 | success |
/// | 408, 425, 429, 500, 502, 503, 504 ([`HttpClassifier::retryable`]) | retry |
/// | any other from 400 up | fatal |
/// | transport error | see [`TransportFault`](crate::TransportFault) |
///
/// An error of a type that no reader knows is fatal, and the recovery layer logs it once, at WARN:
/// its type, and the cargo feature that would read it.
///
/// A request that is not idempotent is retried only after 425 and 429, which state that it was not
/// processed ([`HttpClassifier::safe`]), after errors before it was sent, and after REFUSED_STREAM
/// ([`HttpClassifier::refused`]). Not after 503, even with `Retry-After`: gateways return it also
/// for requests that they had forwarded.
///
/// The settings of a route take precedence over the layer's: [`HttpRoute::classifier`].
///
/// ```
/// use http::Response;
/// use reattempt::{CallContext, Classify, Verdict};
/// use reattempt_http::HttpClassifier;
/// use reattempt_http::reasons::HTTP_SERVICE_UNAVAILABLE;
///
/// let classifier = HttpClassifier::new().also_retryable(520);
/// let answer = Response::builder().status(503).body(()).unwrap();
/// let verdict = Classify::<_, std::io::Error>::classify(
///     &classifier,
///     Ok(&answer),
///     &CallContext::default(),
/// );
/// let Verdict::Retry(failure) = verdict else {
///     panic!()
/// };
/// assert_eq!(
///     (failure.reason, failure.code),
///     (HTTP_SERVICE_UNAVAILABLE, Some(503))
/// );
/// assert!(!failure.safe, "a POST is not retried");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HttpClassifier {
    retryable: StatusSet,
    safe: StatusSet,
    transport: bool,
    judge_bodies: bool,
    limited_403: bool,
    should_retry_header: bool,
    refused: Option<RefusedStream>,
}

impl HttpClassifier {
    /// The retryable statuses, by default.
    pub const RETRYABLE: StatusSet = StatusSet::of(&[408, 425, 429, 500, 502, 503, 504]);
    /// The statuses that state that the request was not processed, by default.
    pub const SAFE: StatusSet = StatusSet::of(&[425, 429]);

    /// With the defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            retryable: Self::RETRYABLE,
            safe: Self::SAFE,
            transport: true,
            judge_bodies: false,
            limited_403: false,
            should_retry_header: false,
            refused: None,
        }
    }

    /// Makes exactly these statuses retryable.
    #[must_use]
    pub const fn retryable(mut self, statuses: StatusSet) -> Self {
        self.retryable = statuses;
        self
    }

    /// Makes this status retryable too.
    #[must_use]
    pub const fn also_retryable(mut self, status: u16) -> Self {
        self.retryable = self.retryable.with(status);
        self
    }

    /// After exactly these statuses even a request that is not idempotent may be retried.
    #[must_use]
    pub const fn safe(mut self, statuses: StatusSet) -> Self {
        self.safe = statuses;
        self
    }

    /// Whether transport errors are retryable; they are by default.
    #[must_use]
    pub const fn transport_errors(mut self, retry: bool) -> Self {
        self.transport = retry;
        self
    }

    /// The meaning of REFUSED_STREAM: [`RefusedStream::Unprocessed`] by default, as in RFC 9113. If
    /// a route's settings omit it, the layer's applies.
    #[must_use]
    pub const fn refused(mut self, refused: RefusedStream) -> Self {
        self.refused = Some(refused);
        self
    }

    /// Leaves a successful status undecided until its body has ended, instead of counting a success
    /// at the head: put an [`OutcomeBodyLayer`](crate::body::OutcomeBodyLayer) below the recovery
    /// layer, which then reports to the throttle. If there is a throttle but that layer is missing,
    /// the recovery layer logs a WARN, once.
    #[must_use]
    pub const fn judge_bodies(mut self) -> Self {
        self.judge_bodies = true;
        self
    }

    /// The retryable statuses.
    #[must_use]
    pub const fn retryable_statuses(&self) -> StatusSet {
        self.retryable
    }

    fn of_status(&self, status: u16) -> Verdict {
        let listed = self.retryable.contains(status);
        if status < 400 && !listed {
            return if self.judge_bodies {
                Verdict::Committed
            } else {
                Verdict::Success
            };
        }
        let failure = Failure::new(of_status(status), Stage::Response)
            .code(i32::from(status))
            .safe(self.safe.contains(status));
        if listed {
            Verdict::Retry(failure)
        } else {
            Verdict::Fatal(failure)
        }
    }
}

impl Default for HttpClassifier {
    fn default() -> Self {
        Self::new()
    }
}

impl<B, E: TransportError> Classify<http::Response<B>, E> for HttpClassifier {
    fn classify(&self, outcome: Result<&http::Response<B>, &E>, context: &CallContext) -> Verdict {
        let of_route = HttpRoute::of(context).and_then(HttpRoute::classifier);
        let settings = of_route.unwrap_or(self);
        match outcome {
            Ok(response) => {
                match settings.of_head(response.status().as_u16(), response.headers()) {
                    // Set by the stack, not the route: it depends on the `OutcomeBodyLayer`.
                    Verdict::Success if self.judge_bodies => Verdict::Committed,
                    verdict => verdict,
                }
            }
            Err(error) => {
                let refused = settings.refused.or(self.refused).unwrap_or_default();
                match error.fault().with_refused(refused).verdict() {
                    Verdict::Retry(failure) if !settings.transport => Verdict::Fatal(failure),
                    verdict => verdict,
                }
            }
        }
    }

    fn unknown_error(&self, error: &E, failure: &Failure) -> Option<String> {
        if failure.reason == UNKNOWN {
            error.unknown_type()
        } else {
            None
        }
    }

    fn may_force(&self) -> bool {
        // Only requests that hyper never sent and h2's refused streams are retried beyond the
        // maximum.
        cfg!(any(feature = "hyper", feature = "h2"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use reattempt::RoutePolicy;

    use super::*;
    use crate::reasons::*;

    fn verdict(classifier: HttpClassifier, status: u16) -> Verdict {
        let response = http::Response::builder().status(status).body(()).unwrap();
        let context = CallContext::default();
        Classify::<_, std::io::Error>::classify(&classifier, Ok(&response), &context)
    }

    #[test]
    fn statuses_mean_what_http_says() {
        let http = HttpClassifier::new();
        for status in [200, 204, 301, 304] {
            assert_eq!(verdict(http, status), Verdict::Success);
        }
        for (status, reason, safe) in [
            (408, HTTP_REQUEST_TIMEOUT, false),
            (425, HTTP_TOO_EARLY, true),
            (429, HTTP_TOO_MANY_REQUESTS, true),
            (500, HTTP_INTERNAL_SERVER_ERROR, false),
            (502, HTTP_BAD_GATEWAY, false),
            (503, HTTP_SERVICE_UNAVAILABLE, false),
            (504, HTTP_GATEWAY_TIMEOUT, false),
        ] {
            let Verdict::Retry(failure) = verdict(http, status) else {
                panic!("{status}")
            };
            assert_eq!(
                (failure.reason, failure.safe, failure.code),
                (reason, safe, Some(i32::from(status)))
            );
        }
        for status in [400, 404, 501, 505, 599] {
            assert!(
                matches!(verdict(http, status), Verdict::Fatal(_)),
                "{status}"
            );
        }
    }

    #[test]
    fn what_is_safe_and_what_is_retried_can_be_said() {
        let http = HttpClassifier::new()
            .also_retryable(520)
            .safe(StatusSet::of(&[520]));
        let Verdict::Retry(failure) = verdict(http, 520) else {
            panic!()
        };
        assert!(failure.safe);
        let Verdict::Retry(failure) = verdict(http, 429) else {
            panic!()
        };
        assert!(!failure.safe, "the set replaces the default");
    }

    #[test]
    fn the_routes_settings_beat_the_layers() {
        let mut context = CallContext::default();
        let data = HttpClassifier::new()
            .retryable(StatusSet::of(&[404]))
            .transport_errors(false);
        context.stamp_policy(Arc::new(
            RoutePolicy::new("r").with_data(HttpRoute::new().with_classifier(data)),
        ));
        let response = http::Response::builder().status(404).body(()).unwrap();
        let http = HttpClassifier::new().judge_bodies();
        let on_404 = Classify::<_, std::io::Error>::classify(&http, Ok(&response), &context);
        assert!(matches!(on_404, Verdict::Retry(_)));
        let good = http::Response::new(());
        let on_200 = Classify::<_, std::io::Error>::classify(&http, Ok(&good), &context);
        assert_eq!(on_200, Verdict::Committed, "bodies are judged nevertheless");
        let error = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let on_error = Classify::<http::Response<()>, _>::classify(&http, Err(&error), &context);
        let Verdict::Fatal(failure) = on_error else {
            panic!()
        };
        assert_eq!(
            (failure.reason, failure.stage),
            (HTTP_CONNECT_FAILED, Stage::Dispatch)
        );
        assert_ne!(failure.reason, UNKNOWN);
    }

    #[cfg(feature = "h2")]
    #[test]
    fn an_ambiguous_refusal_was_in_flight() {
        use reattempt::Transparent;

        let refused = h2::Error::from(h2::Reason::REFUSED_STREAM);
        let of = |layer: HttpClassifier, route: HttpClassifier| {
            let mut context = CallContext::default();
            let data = HttpRoute::new().with_classifier(route);
            context.stamp_policy(Arc::new(RoutePolicy::new("r").with_data(data)));
            let verdict =
                Classify::<http::Response<()>, _>::classify(&layer, Err(&refused), &context);
            let failure = *verdict.failure().unwrap();
            assert_eq!(failure.stage, Stage::InFlight);
            (failure.reason, failure.safe, failure.transparent)
        };
        let unprocessed = (HTTP_STREAM_REFUSED, true, Transparent::Once);
        let ambiguous = (HTTP_STREAM_RESET, false, Transparent::No);
        let unset = HttpClassifier::new();
        let believes = unset.refused(RefusedStream::Unprocessed);
        let doubts = unset.refused(RefusedStream::Ambiguous);
        for (layer, route, expected) in [
            (unset, unset, unprocessed),
            (unset, doubts, ambiguous),
            (doubts, unset, ambiguous),
            (doubts, believes, unprocessed),
        ] {
            assert_eq!(of(layer, route), expected);
        }
    }

    #[test]
    fn a_good_status_can_be_left_open_until_its_body_ends() {
        let http = HttpClassifier::new().judge_bodies();
        assert_eq!(verdict(http, 200), Verdict::Committed);
        assert!(matches!(verdict(http, 503), Verdict::Retry(_)));
    }
}

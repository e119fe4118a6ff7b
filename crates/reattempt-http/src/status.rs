//! `HttpClassifier`: classifies HTTP statuses and transport errors.

mod headers;
mod in_force;
#[cfg(test)]
mod tests;

use http::{HeaderMap, StatusCode};
use reattempt::Verdict;

use crate::{RefusedStream, StatusSet, TransportError};
use in_force::InForce;

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
/// A rule of your own goes into [`HttpClassifier::judge_heads`].
///
/// What a route's classifier sets takes precedence over the layer's; what it leaves unset is as the
/// layer was built ([`HttpRoute::classifier`](crate::HttpRoute::classifier)).
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
    retryable: Option<StatusSet>,
    safe: Option<StatusSet>,
    transport: Option<bool>,
    judge_heads: Option<JudgeHead>,
    judge_bodies: bool,
    limited_403: bool,
    should_retry_header: bool,
    refused: Option<RefusedStream>,
    limits_apart: bool,
}

/// The verdict on a response by its head, if it is not that of its status
/// ([`HttpClassifier::judge_heads`]).
pub type JudgeHead = fn(StatusCode, &HeaderMap) -> Option<Verdict>;

impl HttpClassifier {
    /// The retryable statuses, by default.
    pub const RETRYABLE: StatusSet = StatusSet::of(&[408, 425, 429, 500, 502, 503, 504]);
    /// The statuses that state that the request was not processed, by default.
    pub const SAFE: StatusSet = StatusSet::of(&[425, 429]);

    /// With the defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            retryable: None,
            safe: None,
            transport: None,
            judge_heads: None,
            judge_bodies: false,
            limited_403: false,
            should_retry_header: false,
            refused: None,
            limits_apart: false,
        }
    }

    /// Makes exactly these statuses retryable.
    #[must_use]
    pub const fn retryable(mut self, statuses: StatusSet) -> Self {
        self.retryable = Some(statuses);
        self
    }

    /// Makes this status retryable besides those that were set, or the default ones.
    #[must_use]
    pub const fn also_retryable(mut self, status: u16) -> Self {
        self.retryable = Some(self.retryable_statuses().with(status));
        self
    }

    /// After exactly these statuses even a request that is not idempotent may be retried.
    #[must_use]
    pub const fn safe(mut self, statuses: StatusSet) -> Self {
        self.safe = Some(statuses);
        self
    }

    /// Whether transport errors are retryable; they are by default.
    #[must_use]
    pub const fn transport_errors(mut self, retry: bool) -> Self {
        self.transport = Some(retry);
        self
    }

    /// The meaning of REFUSED_STREAM: [`RefusedStream::Unprocessed`] by default, as in RFC 9113.
    #[must_use]
    pub const fn refused(mut self, refused: RefusedStream) -> Self {
        self.refused = Some(refused);
        self
    }

    /// Asks this function about every response first, also where a route has statuses of its own;
    /// a route's function replaces the layer's. `None` leaves it to the statuses and headers. A
    /// failure without a code gets the status as its code. A preset's classifier is replaced as a
    /// whole by `HttpClientLayer::classifier`: over `github` or `llm` put the function into the
    /// classifier of a route. `Retry-After` is read of a status from
    /// 300 up only, also where this function retries another.
    ///
    /// ```
    /// use http::{HeaderMap, StatusCode};
    /// use reattempt::{Failure, Stage, Verdict};
    /// use reattempt_http::HttpClassifier;
    /// use reattempt_http::reasons::HTTP_SERVICE_UNAVAILABLE;
    ///
    /// /// This server says 200 while it is starting.
    /// fn judge(status: StatusCode, headers: &HeaderMap) -> Option<Verdict> {
    ///     let starts = status == StatusCode::OK && headers.contains_key("x-starting");
    ///     let failure = Failure::new(HTTP_SERVICE_UNAVAILABLE, Stage::Response);
    ///     starts.then_some(Verdict::Retry(failure))
    /// }
    /// let classifier = HttpClassifier::new().judge_heads(judge);
    /// # let _ = classifier;
    /// ```
    #[must_use]
    pub const fn judge_heads(mut self, judge: JudgeHead) -> Self {
        self.judge_heads = Some(judge);
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

    /// For circuit breakers and backends: a rate limit (429, a limited 403) is an answer like any
    /// other.
    #[cfg(feature = "tokio")]
    pub(crate) const fn limits_apart(mut self) -> Self {
        self.limits_apart = true;
        self
    }

    /// The retryable statuses.
    #[must_use]
    pub const fn retryable_statuses(&self) -> StatusSet {
        match self.retryable {
            Some(statuses) => statuses,
            None => Self::RETRYABLE,
        }
    }
}

impl HttpClassifier {
    /// Whether the status is one of those that were set.
    pub(crate) fn sets_retryable(&self, status: u16) -> bool {
        let set = self.retryable.as_ref();
        set.is_some_and(|statuses| statuses.contains(status))
    }

    /// The verdict of a layer with these settings on a call whose route has those.
    pub(crate) fn verdict<B, E: TransportError>(
        &self,
        outcome: Result<&http::Response<B>, &E>,
        route: Option<&Self>,
    ) -> Verdict {
        let settings = InForce::new(self, route);
        match outcome {
            Ok(response) => settings.of_head(response.status(), response.headers()),
            Err(error) => settings.of_fault(error.fault()),
        }
    }
}

impl Default for HttpClassifier {
    fn default() -> Self {
        Self::new()
    }
}

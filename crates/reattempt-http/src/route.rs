//! `HttpRoute`: the settings of this crate's layers for one route.

use std::time::Duration;

use http::Method;
use reattempt::CallContext;

use crate::{HttpClassifier, HttpPushback};

/// What an [`IdempotencyKeyLayer`](crate::IdempotencyKeyLayer) does with keys. `true` and `false`
/// convert into `Honour` and `Ignore`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdempotencyKeys {
    /// A key has no meaning to this client: the server may not know the header.
    Ignore,
    /// A request with a key is idempotent.
    Honour,
    /// The same, and POST and PATCH requests without a key get one. Only for servers that honour
    /// the header: any other processes such a request again with each retry.
    Generate,
}

impl IdempotencyKeys {
    /// The methods of requests that get a key: those that are not idempotent and that the IETF
    /// draft names.
    pub const GENERATED_FOR: [Method; 2] = [Method::POST, Method::PATCH];
}

impl From<bool> for IdempotencyKeys {
    fn from(honour: bool) -> Self {
        if honour { Self::Honour } else { Self::Ignore }
    }
}

/// The data of a `RoutePolicy` that every part of this crate reads its settings from. Settings that
/// are not set stay as the layer was built.
///
/// | setting | read by |
/// | --- | --- |
/// | [`with_classifier`](Self::with_classifier) | the classifier [`HttpClassifier`] |
/// | [`with_pushback`](Self::with_pushback) | [`HttpPushback`], in a `PushbackLayer` |
/// | [`with_body_limit`](Self::with_body_limit) | [`ReplayBodyLayer`](crate::body::ReplayBodyLayer) |
/// | [`with_idempotency_key`](Self::with_idempotency_key) | [`IdempotencyKeyLayer`](crate::IdempotencyKeyLayer) |
/// | [`with_body_timeout`](Self::with_body_timeout) | [`DeadlineBodyLayer`](crate::body::DeadlineBodyLayer) |
///
/// Layers can only read it below the `RouteLayer` that attaches the policy.
///
/// ```
/// use reattempt::{HedgePolicy, RoutePolicy};
/// use reattempt_http::{HttpRoute, HttpClassifier, HttpPushback, StatusSet};
/// use std::time::Duration;
///
/// let search = RoutePolicy::new("search")
///     .hedge(HedgePolicy::new(2, Duration::from_millis(30)))
///     .with_data(
///         HttpRoute::new()
///             .with_classifier(HttpClassifier::new().retryable(StatusSet::of(&[429, 500, 503])))
///             .with_pushback(HttpPushback::new().milliseconds(false))
///             .with_body_limit(4096)
///             .with_idempotency_key(true),
///     );
/// assert_eq!(
///     search
///         .data::<HttpRoute>()
///         .and_then(HttpRoute::body_limit),
///     Some(4096)
/// );
/// ```
#[derive(Clone, Debug, Default)]
pub struct HttpRoute {
    classifier: Option<HttpClassifier>,
    pushback: Option<HttpPushback>,
    body_limit: Option<usize>,
    idempotency_key: Option<IdempotencyKeys>,
    body_timeout: Option<Duration>,
}

impl HttpRoute {
    /// All settings as the layers were built.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            classifier: None,
            pushback: None,
            body_limit: None,
            idempotency_key: None,
            body_timeout: None,
        }
    }

    /// Classifies with what these settings set, and with the layer's for the rest. Whether bodies
    /// are classified remains the layer's choice, because it depends on the layers around it.
    #[must_use]
    pub const fn with_classifier(mut self, classifier: HttpClassifier) -> Self {
        self.classifier = Some(classifier);
        self
    }

    /// Reads `Retry-After` with what these settings set, and with the layer's for the rest; dates
    /// use the clock of the layer.
    #[must_use]
    pub fn with_pushback(mut self, pushback: HttpPushback) -> Self {
        self.pushback = Some(pushback);
        self
    }

    /// Buffers at most this many bytes of a request's body for further attempts.
    #[must_use]
    pub const fn with_body_limit(mut self, bytes: usize) -> Self {
        self.body_limit = Some(bytes);
        self
    }

    /// What an `Idempotency-Key` means: [`IdempotencyKeys`], or whether it counts.
    #[must_use]
    pub fn with_idempotency_key(mut self, keys: impl Into<IdempotencyKeys>) -> Self {
        self.idempotency_key = Some(keys.into());
        self
    }

    /// Limits the time from the response head to the end of the body.
    #[must_use]
    pub const fn with_body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = Some(timeout);
        self
    }

    /// The settings of the classifier.
    #[must_use]
    pub const fn classifier(&self) -> Option<&HttpClassifier> {
        self.classifier.as_ref()
    }

    /// The settings for `Retry-After`.
    #[must_use]
    pub const fn pushback(&self) -> Option<&HttpPushback> {
        self.pushback.as_ref()
    }

    /// The maximum of buffered bytes of one body.
    #[must_use]
    pub const fn body_limit(&self) -> Option<usize> {
        self.body_limit
    }

    /// What an `Idempotency-Key` means.
    #[must_use]
    pub const fn idempotency_key(&self) -> Option<IdempotencyKeys> {
        self.idempotency_key
    }

    /// The time from the response head to the end of the body.
    #[must_use]
    pub const fn body_timeout(&self) -> Option<Duration> {
        self.body_timeout
    }

    /// The settings of this call's route.
    pub(crate) fn of(context: &CallContext) -> Option<&Self> {
        context.policy()?.data()
    }
}

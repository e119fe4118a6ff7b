//! What a client has besides its routes and circuit breakers.

use std::sync::Arc;
use std::time::Duration;

use reattempt::deadline::AsError;
use reattempt::{AdmissionLayer, AttemptDeadlineLayer, DeadlineLayer, PushbackLayer};
use tower_layer::Layer;

use super::HttpClient;
use super::defaults::{CallDefaultsLayer, OriginAdmissions};
use super::recovery::RecoveryLayers;
use crate::body::DeadlineBodyLayer;
use crate::call::{ExtendContextLayer, InlineContextLayer, ReplayCallBodyLayer};
use crate::retry_after::BeyondCap;
use crate::{HttpClassifier, HttpPushback, IdempotencyKeyLayer};

const HEAD: Duration = Duration::from_secs(30);
const MOST_RETRY_AFTER: Duration = Duration::from_secs(30);
const RETRY_AFTER_SPREAD: Duration = Duration::from_millis(250);

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) admission: AdmissionLayer<AsError, OriginAdmissions>,
    pub(super) deadline: DeadlineLayer,
    pub(super) body: DeadlineBodyLayer,
    pub(super) keys: IdempotencyKeyLayer,
    pub(super) defaults: CallDefaultsLayer,
    pub(super) replay: ReplayCallBodyLayer,
    pub(super) recovery: RecoveryLayers,
    pub(super) attempt: AttemptDeadlineLayer,
    /// One pointer: each call keeps one in its template, and one in its attempt.
    pub(super) pushback: Arc<HttpPushback>,
    /// Whether a rate limit is an answer for circuit breakers and backends, and ignored by
    /// admission: it is that of the caller's own key.
    pub(super) limits_apart: bool,
}

impl Settings {
    pub(super) fn standard() -> Self {
        Self {
            admission: AdmissionLayer::new(OriginAdmissions::default()),
            deadline: DeadlineLayer::new(HEAD).unless_policy(),
            body: DeadlineBodyLayer::after_head(None),
            keys: IdempotencyKeyLayer::new().by_policy(),
            defaults: CallDefaultsLayer::default(),
            replay: ReplayCallBodyLayer::default(),
            recovery: RecoveryLayers::default(),
            attempt: AttemptDeadlineLayer::by_policy(),
            pushback: Arc::new(
                HttpPushback::new()
                    .cap(MOST_RETRY_AFTER, BeyondCap::Stop)
                    .spread(RETRY_AFTER_SPREAD),
            ),
            limits_apart: false,
        }
    }

    /// How circuit breakers and backends read what the server answers.
    pub(super) fn health_classifier(&self) -> HttpClassifier {
        let classifier = self.recovery.known_classifier();
        if self.limits_apart {
            classifier.limits_apart()
        } else {
            classifier
        }
    }

    /// All layers but the innermost ones.
    pub(super) fn around<S, R: Clone, I>(
        &self,
        routes: &InlineContextLayer<R>,
        innermost: I,
    ) -> HttpClient<S, R, I> {
        let attempt = PushbackLayer::new(Arc::clone(&self.pushback))
            .layer(ExtendContextLayer.layer(innermost));
        let recovery = self.recovery.layer(self.attempt.layer(attempt));
        let call = self
            .deadline
            .layer(self.body.layer(self.replay.layer(recovery)));
        // Above the deadline, which tells by the idempotency whether a timeout is ambiguous.
        let call = self.keys.layer(self.defaults.layer(call));
        HttpClient::new(self.admission.layer(routes.layer(call)))
    }
}

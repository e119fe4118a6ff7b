//! The Couchbase services over HTTP: the layers of RFC 0049 around the same connections.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use reattempt::{AttemptOutcome, DeadlineLayer, RetryInfo, RetryLayer};
use reattempt_couchbase::KvStrategy;
use reattempt_couchbase::service::{
    HttpService, ServiceAnswer, ServiceClassifier, ServiceError, ServiceErrorLayer,
    ServiceIdempotencyLayer,
};
use reattempt_http::HttpClassifier;
use reattempt_http::body::{DeadlineBodyLayer, ReplayBody};
use serde::Deserialize;
use tower::ServiceBuilder;
use tower::util::BoxCloneSyncService;

use super::received::Received;
use super::stack::{Stack, boxed, replay};
use crate::call::answer::{Answer, Shown};
use crate::call::attempts::{JournalLayer, JournalObserver};
use crate::call::couchbase_strategy;
use crate::call::document::{Fields, Setup};
use crate::call::transport::Transport;
use crate::printable::OneLine;

/// The field `service` of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
    Query,
    Analytics,
    Search,
    Views,
    Management,
}

/// The service settings of the document.
#[derive(Debug)]
pub(super) struct Settings {
    service: HttpService,
    /// Whether errors of this service have codes.
    has_codes: bool,
    strategy: KvStrategy,
}

impl Settings {
    /// Returns `None` for plain HTTP.
    pub(super) fn read(fields: &mut Fields) -> Option<Self> {
        let name = fields.optional::<Name>("service");
        // With a faulty name, the other fields are those of a service.
        let name = name.or(fields.is_faulty("service").then_some(Name::Query))?;
        let service = match name {
            Name::Query => HttpService::query(),
            Name::Analytics => HttpService::analytics(),
            Name::Search => HttpService::search(),
            Name::Views => HttpService::views(),
            Name::Management => HttpService::management(),
        };
        if fields.text("policy").is_some() {
            fields.warn("$.policy: not used with a service, whose `strategy` takes its place");
        }
        let current = fields.or("current_server_codes", false);
        Some(Self {
            service: if current {
                service.with_current_server_codes()
            } else {
                service
            },
            has_codes: matches!(name, Name::Query | Name::Analytics),
            strategy: couchbase_strategy::read(fields),
        })
    }

    /// The layers in their documented order.
    pub(super) fn stack(
        &self,
        setup: &Setup,
        transport: Transport<ReplayBody<Full<Bytes>>>,
    ) -> Stack {
        // These services do not send error maps.
        let strategy = self
            .strategy
            .make(setup.on_deadline_or_cap(), |best_effort| {
                Arc::new(best_effort)
            });
        let classifier = ServiceClassifier::new(self.service, HttpClassifier::new());
        let service = ServiceBuilder::new()
            .map_response(boxed)
            // Above the deadline, which uses the idempotency to decide whether a timeout is
            // ambiguous.
            .layer(ServiceIdempotencyLayer::new(self.service))
            .layer(DeadlineLayer::no_timeout())
            .layer(DeadlineBodyLayer::new())
            .layer(replay())
            .layer(RetryLayer::new(classifier, strategy).observer(Arc::new(JournalObserver)))
            .layer(JournalLayer)
            .layer(ServiceErrorLayer::new(self.service))
            .service(transport);
        BoxCloneSyncService::new(service)
    }

    /// The error information for the answer; `whole` is true when all of it was received.
    pub(super) fn reported(
        &self,
        received: &Received,
        whole: bool,
        info: &RetryInfo,
    ) -> ReportedError {
        let at_head = received.found.as_ref().filter(|found| !found.is_broken());
        let at_head = at_head.and_then(ServiceAnswer::error).cloned();
        let status = received.head.as_ref().map(|(status, _)| *status);
        let good = status.is_some_and(|status| status.is_success());
        // Not the losers of a hedge, which are recorded last.
        let failed = || {
            let mut ended = info.records().rev();
            let last = ended.find(|record| record.outcome != AttemptOutcome::Cancelled);
            last.is_some_and(|record| record.failure.is_some())
        };
        let is_at_head = at_head.is_some();
        let error = match (at_head, status) {
            (None, Some(status)) if whole && (!good || failed()) => {
                self.service.read_error(status, &received.body)
            }
            (at_head, _) => at_head,
        };
        // Beyond the inspection bound, only an answer that looked successful is read for errors.
        let decided = error.as_ref().filter(|_| is_at_head || good);
        let code = decided.and_then(ServiceError::code).or_else(|| {
            // The deadline passed before there was an answer to keep.
            let failed =
                |record: &&reattempt::AttemptRecord| record.outcome == AttemptOutcome::Retry;
            let last = info.records().rfind(failed)?;
            last.failure?
                .code
                .filter(|_| self.has_codes && received.head.is_none())
        });
        ReportedError { code, error }
    }
}

/// The error that a service reported.
#[derive(Debug)]
pub(super) struct ReportedError {
    code: Option<i32>,
    error: Option<ServiceError>,
}

impl ReportedError {
    pub(super) const fn is_error(&self) -> bool {
        self.error.is_some()
    }

    pub(super) fn add_to(self, mut answer: Answer) -> Answer {
        let message = self.error.as_ref().and_then(ServiceError::message);
        let line = match (self.code, message) {
            (Some(code), Some(message)) => Some(format!("error {code}: {}", OneLine(message))),
            (Some(code), None) => Some(format!("error {code}")),
            // The whole body follows in the output.
            (None, _) => None,
        };
        answer.for_people.extend(line.map(Shown::Text));
        answer
            .with("code", self.code)
            .with("error_message", message)
    }
}

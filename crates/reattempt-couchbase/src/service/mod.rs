//! The Couchbase services with an HTTP interface: query, analytics, search, views and management
//! (RFC 0049).
//!
//! | service | what decides | idempotent |
//! | --- | --- | --- |
//! | [query], [analytics] | the first of the body's `errors`, for any status | if read-only |
//! | [search] | the status | always |
//! | [views] | the status; for 404 and 500 also the text of the body | always |
//! | [management] | the status; none is retried | a GET |
//!
//! The verdict needs part of the response's body, which a layer below the recovery layer reads:
//! [`ServiceErrorLayer`]. The classifier at the recovery layer uses the result:
//! [`ServiceClassifier`]. Lost attempts are classified by the classifier of the HTTP client in use,
//! such as reattempt-http's `HttpClassifier`; only the stage of its verdict counts.
//! [`ServiceClientLayer`] is all of this around an HTTP client in one line.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use reattempt::strategy::BestEffort;
//! use reattempt::{CallContext, Failure, RetryLayer, Stage, Verdict, classify_fn, reason};
//! use reattempt_couchbase::service::{HttpService, ServiceClassifier};
//! use reattempt_couchbase::service::{ServiceErrorLayer, ServiceIdempotencyLayer};
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
//! # use std::sync::atomic::{AtomicU32, Ordering};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), BoxError> {
//! # static CALLS: AtomicU32 = AtomicU32::new(0);
//! let query = HttpService::query();
//! let lost = classify_fn(|_: Result<&Response<_>, &BoxError>, _: &CallContext| {
//!     Verdict::Retry(Failure::new(reason::UNKNOWN, Stage::InFlight)) // or `HttpClassifier::new()`
//! });
//! let client = ServiceBuilder::new()
//!     .layer(ServiceIdempotencyLayer::new(query))
//!     .layer(RetryLayer::new(ServiceClassifier::new(query, lost), BestEffort::new()))
//!     .layer(ServiceErrorLayer::new(query))
//!     .service_fn(|_: Request<String>| async {
//!         # let first = CALLS.fetch_add(1, Ordering::Relaxed) == 0;
//!         # let error = r#"{"code": 4050, "msg": "unrecognizable prepared statement"}"#;
//!         # let failed = format!(r#"{{"results": [], "errors": [{error}]}}"#);
//!         # let body = if first { failed } else { r#"{"results": [{"n": 1}]}"#.to_owned() };
//!         # Ok::<_, BoxError>(Response::new(Full::<Bytes>::from(body)))
//!         // your HTTP client
//!     });
//! let request = Request::post("http://node:8093/query/service")
//!     .body(r#"{"prepared": "p"}"#.to_owned())?;
//! let response = client.oneshot(request).await?;
//! assert_eq!(response.into_body().collect().await?.to_bytes(), r#"{"results": [{"n": 1}]}"#);
//! # Ok(()) }
//! ```

mod classify;
mod error_list;
mod json_text;
mod reader;
#[cfg(all(test, feature = "tokio"))]
mod tests;
mod whole;

// The layers.
#[cfg(feature = "tokio")]
pub mod client;
#[cfg(feature = "tokio")]
mod error_body;
#[cfg(feature = "tokio")]
mod idempotency;

pub use crate::service_answer::{ServiceAnswer, ServiceError};
pub use classify::ServiceClassifier;

#[cfg(feature = "tokio")]
pub use {
    client::{ServiceClient, ServiceClientLayer},
    error_body::{ServiceBody, ServiceErrorFuture, ServiceErrorLayer, ServiceErrorService},
    idempotency::{ReadOnly, ServiceIdempotency, ServiceIdempotencyLayer},
};

use http::{Method, StatusCode};
use reattempt::reason::{QUERY_PREPARED_STATEMENT_FAILURE, SOCKET_CLOSED_WHILE_IN_FLIGHT, UNKNOWN};
use reattempt::{Failure, Idempotency, RetryReason, Stage, Verdict};

use crate::service_answer::BodyEnd;
use crate::{analytics, management, query, search, views};

/// One of the services, and the list that classifies its responses.
///
/// By default exactly RFC 0049's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HttpService {
    kind: Kind,
    current_server_codes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Query,
    Analytics,
    Search,
    Views,
    Management,
}

impl HttpService {
    const fn of(kind: Kind) -> Self {
        Self {
            kind,
            current_server_codes: false,
        }
    }

    /// The query service.
    #[must_use]
    pub const fn query() -> Self {
        Self::of(Kind::Query)
    }

    /// The analytics service.
    #[must_use]
    pub const fn analytics() -> Self {
        Self::of(Kind::Analytics)
    }

    /// The search service.
    #[must_use]
    pub const fn search() -> Self {
        Self::of(Kind::Search)
    }

    /// The view engine.
    #[must_use]
    pub const fn views() -> Self {
        Self::of(Kind::Views)
    }

    /// Cluster management, and the management APIs of the other services.
    #[must_use]
    pub const fn management() -> Self {
        Self::of(Kind::Management)
    }

    /// Also the codes that current clients handle: query 4060, 4080 and 4090, a query error with
    /// `"retry": true` (except 12016), and a search 429 whose body names a rate or quota limit,
    /// which is final.
    #[must_use]
    pub const fn with_current_server_codes(mut self) -> Self {
        self.current_server_codes = true;
        self
    }

    /// How its requests are measured, with their attempts.
    #[cfg(feature = "tokio")]
    #[must_use]
    pub const fn convention(&self) -> crate::ServiceConvention {
        crate::ServiceConvention(match self.kind {
            Kind::Query => "query",
            Kind::Analytics => "analytics",
            Kind::Search => "search",
            Kind::Views => "views",
            Kind::Management => "management",
        })
    }

    /// The idempotency of a request (RFC 0049, Idempotent Operation List). `read_only` is the query
    /// or analytics property of that name; the other services ignore it.
    #[must_use]
    pub fn idempotency(&self, method: &Method, read_only: bool) -> Idempotency {
        match self.kind {
            Kind::Query | Kind::Analytics if read_only => Idempotency::Idempotent,
            Kind::Query | Kind::Analytics => Idempotency::NotIdempotent,
            Kind::Search | Kind::Views => Idempotency::Idempotent,
            Kind::Management => management::idempotency(method),
        }
    }

    /// Classifies a response (RFC 0049, Response Code Retry List).
    ///
    /// A success has a status 2xx, and for query and analytics no errors. The failure's code is
    /// that of the error that decided, `None` if that has no number; where no error decided, it is
    /// the status.
    #[must_use]
    pub fn verdict(&self, status: StatusCode, answer: &ServiceAnswer) -> Verdict {
        if answer.end == BodyEnd::Broken {
            return Verdict::Retry(Failure::new(SOCKET_CLOSED_WHILE_IN_FLIGHT, Stage::InFlight));
        }
        let number = status.as_u16();
        let (code, reason) = match (&answer.error, self.kind) {
            (Some(error), Kind::Query | Kind::Analytics) => {
                (error.code(), self.reason_of_error(error))
            }
            _ if status.is_success() => {
                return if answer.end == BodyEnd::Followed {
                    Verdict::Committed
                } else {
                    Verdict::Success
                };
            }
            (_, Kind::Search) => (Some(number.into()), search::reason(number, answer.wording)),
            (_, Kind::Views) => (Some(number.into()), views::reason(number, answer.wording)),
            (_, Kind::Query | Kind::Analytics | Kind::Management) => (Some(number.into()), None),
        };
        let mut failure = Failure::new(reason.unwrap_or(UNKNOWN), Stage::Response);
        failure.code = code;
        failure.server_failed = reason.is_none() && status.is_server_error();
        let refused = failure.reason == QUERY_PREPARED_STATEMENT_FAILURE;
        if answer.rows && !refused {
            // A statement that returned rows was executed, and may have changed something.
            failure = failure.safe(false);
        }
        if reason.is_some() {
            Verdict::Retry(failure)
        } else {
            Verdict::Fatal(failure)
        }
    }

    fn reason_of_error(&self, error: &ServiceError) -> Option<RetryReason> {
        if self.kind == Kind::Query {
            query::reason(error, self.current_server_codes)
        } else {
            analytics::reason(error)
        }
    }

    /// A response can force a retry under any strategy.
    const fn may_force(self) -> bool {
        matches!(self.kind, Kind::Views)
    }
}

//! Policies per route from JSON: which requests are retried or hedged, how, and within which
//! limits.
//!
//! A table of [`HttpPolicies`] is a [`Route`]: pass it to a `RouteLayer`, inside
//! [`LiveHttpPolicies`] if it is to be replaced at runtime. Parsing is strict and reports all
//! faults at once, each with its JSON path; unknown members and policies that can amplify load are
//! warnings.
//!
//! ```
//! use std::time::Duration;
//! use http::Request;
//! use reattempt::{Recovery, Route};
//! use reattempt_http::{HttpPolicies, LiveHttpPolicies};
//!
//! let parsed = HttpPolicies::parse(r#"{
//!   "routes": [
//!     { "name": "reads",
//!       "match": {"methods": ["GET", "HEAD"], "prefix": "/v1/", "host": "example.com"},
//!       "hedge": {"maxAttempts": 3, "delay": "0.02s", "statuses": [429, 503],
//!                 "budgetPercent": 10},
//!       "timeout": "2s", "throttle": "backend" },
//!     { "name": "orders",
//!       "match": {"methods": ["POST"], "pattern": "/users/{id}/orders"},
//!       "retry": {"maxAttempts": 3, "backoff": {"initial": "0.1s", "multiplier": 2,
//!                 "max": "2s", "jitter": "full"}},
//!       "idempotencyKey": true, "attemptTimeout": "0.5s", "bodyLimit": 65536,
//!       "retryAfter": {"cap": "10s", "beyondCap": "stop"}, "throttle": "backend" }
//!   ],
//!   "default": {"timeout": "5s"},
//!   "throttles": {"backend": {"maxTokens": 10, "tokenRatio": 0.1}}
//! }"#)?;
//! assert!(parsed.warnings.is_empty());
//!
//! let routes = LiveHttpPolicies::new(parsed.policies);
//! let of = |request: http::request::Builder| routes.route(&request.body(()).unwrap()).unwrap();
//! let reads = of(Request::get("http://example.com:8080/v1/items"));
//! assert!(matches!(reads.recovery(), Recovery::Hedge(hedge) if hedge.max_attempts() == 3));
//! assert_eq!(of(Request::post("/users/7/orders")).name(), "orders");
//! assert_eq!(of(Request::delete("/")).timeout(), Some(Duration::from_secs(5)));
//!
//! // An invalid text changes nothing, and the error contains all its faults.
//! let bad = r#"{"routes": [{"match": {"methods": ["get"]}, "timeout": "5m"}]}"#;
//! let faults = routes.update(bad).unwrap_err();
//! let lines: Vec<_> = faults.faults().iter().map(ToString::to_string).collect();
//! assert_eq!(lines, [
//!     r#"$.routes[0].match.methods[0]: must be a method in capitals such as "GET", got "get""#,
//!     concat!(
//!         "$.routes[0].timeout: must be a duration greater than 0 such as \"0.1s\" ",
//!         "(at most nine decimal places), got \"5m\""
//!     ),
//! ]);
//! # Ok::<(), reattempt::config::Faults>(())
//! ```
//!
//! # Format
//!
//! Durations are strings in seconds, exact to the nanosecond: `"0.5s"`. `null` counts as absent.
//! Every member, with its type, unit, default, meaning and an example, is in
//! `docs/policy-reference.md`; a test holds that page against this parser.
//!
//! - **Table**: `routes`, tried in order; `default`, for calls that no route matches; `throttles`
//!   and `budgets`, which routes share by name; `admission`, for first attempts of all calls;
//!   `health`, for backends and circuit breakers.
//! - **Route**: `name`, `match`, and its settings: `retry` or `hedge`, `retryAfter`, `refused`,
//!   `timeout`, `attemptTimeout`, `bodyTimeout`, `bodyLimit`, `idempotencyKey`, `throttle`.
//!   Settings that are absent stay as the layers were built; a route with neither `retry` nor
//!   `hedge` sends its calls once. Of `retry` and `hedge`, absent `statuses`, `safeStatuses` and
//!   `transportErrors` stay so too, and attempts and delays have the defaults of the reference.
//! - **Cost**: a request is compared with the routes that share its host and path, however large
//!   the table is; with all routes of that path, if they differ in method or query only.
//! - **`match`**: `methods`; one of `path`, `prefix` and `pattern`; `query`; `host`, perhaps with a
//!   port. All of them have to hold.
//!
//! # Query parameters
//!
//! `match.query` has a member for each parameter that the request must have: the exact value, or
//! `true` for any value.
//!
//! ```
//! use http::Request;
//! use reattempt::Route;
//! use reattempt_http::HttpPolicies;
//!
//! // A watch stays open on purpose; a list takes seconds.
//! let table = HttpPolicies::parse(r#"{"routes": [
//!     {"name": "watch", "match": {"methods": ["GET"], "prefix": "/api/",
//!         "query": {"watch": "true"}}},
//!     {"name": "list", "match": {"methods": ["GET"], "prefix": "/api/"},
//!         "timeout": "5s", "retry": {}}
//! ]}"#)?.policies;
//! let name = |uri: &str| {
//!     table
//!         .route(&Request::get(uri).body(()).unwrap())
//!         .unwrap()
//!         .name()
//!         .to_owned()
//! };
//! assert_eq!(name("/api/v1/pods?limit=5&watch=true"), "watch");
//! assert_eq!(name("/api/v1/pods?limit=5"), "list");
//! # Ok::<(), reattempt::config::Faults>(())
//! ```
//!
//! # Presets
//!
//! `"aws-standard-2.0"` and `"aws-standard-2.1"` are the [parameters of the AWS SDKs](crate::aws):
//! attempts, back-off, statuses (429, 500, 502, 503, 504), and for 2.1 `x-amz-retry-after` instead
//! of the usual headers; a `retryAfter` of the route adds those. With 2.1 a delay that the server
//! asks for is at least the back-off and at most 5 s more. Other members of `retry` override the
//! preset (for DynamoDB: `"maxAttempts": 4, "backoff": {"initial": "0.025s"}`). The route has its
//! own quota; to share one between routes, define it as a throttle.
//!
//! Only the status is read, and AWS has its codes in the body: 503 `SlowDown` of S3 costs and waits
//! as a transient error, and the throttling of DynamoDB, a 400, is final. A POST, as every request
//! to DynamoDB, is sent again after a 5xx only with `safeStatuses`, which replaces the default:
//! list 429 too.
//!
//! With 2.0 the usual headers are read as without a preset: a `Retry-After` beyond the layer's cap
//! ends the call. `"retryAfter": {"honour": false}` reads none, as those SDKs do.
//!
//! ```
//! use reattempt_http::HttpPolicies;
//!
//! let parsed = HttpPolicies::parse(
//!     r#"{
//!   "routes": [
//!     { "name": "objects", "match": {"host": "s3.example"},
//!       "retry": {"preset": "aws-standard-2.1"}, "throttle": "s3" },
//!     { "name": "buckets", "match": {"host": "admin.s3.example"},
//!       "retry": {"preset": "aws-standard-2.1", "maxAttempts": 2}, "throttle": "s3" },
//!     { "name": "tables", "match": {"host": "dynamo.example"},
//!       "retry": {"preset": "aws-standard-2.1", "maxAttempts": 4,
//!                 "backoff": {"initial": "0.025s"},
//!                 "safeStatuses": [429, 500, 502, 503, 504]} }
//!   ],
//!   "throttles": {"s3": {"preset": "aws-standard-2.1"}}
//! }"#,
//! )?;
//! assert_eq!(parsed.policies.quota("s3").unwrap().tokens(), 500);
//! assert_eq!(parsed.policies.quota("tables").unwrap().tokens(), 500);
//! # Ok::<(), reattempt::config::Faults>(())
//! ```
//!
//! # The stack
//!
//! `HttpClientLayer::policies`, or single layers below a `RouteLayer`: `docs/layer-order.md` has
//! the preset layer by layer. A policy's throttle and budget replace the bucket of a
//! `ThrottleLayer`.

#[cfg(feature = "serde")]
mod deserialize;
mod entry;
mod hedge_timing;
mod host;
mod index;
mod live;
mod matching;
mod members;
mod options;
mod recovery;
mod shared;
mod table;
#[cfg(test)]
mod tests;
mod throttles;

use std::fmt;
use std::sync::Arc;

use http::Request;
use reattempt::admission::Admission;
use reattempt::config::{Fault, Faults, Form};
use reattempt::health::LiveHealthPolicy;
use reattempt::throttle::{Governor, HedgeBudget, RatioBudget};
use reattempt::{Route, RoutePolicy, TokenBucket};

pub use live::LiveHttpPolicies;
pub use options::{Clock, Options};

use crate::aws::AwsQuota;
#[cfg(feature = "tokio")]
pub(crate) use host::host_and_port;
use table::{Document, Table};
use throttles::{Carried, Counted, RouteBudget};

const FORM: Form = Form::new("the HTTP policy");

/// A table of policies by route.
///
/// Clones share the table, its throttles, admission and health: parse the text once for each client
/// that is to have its own.
#[derive(Clone)]
pub struct HttpPolicies {
    /// One pointer: a client is cloned for each concurrent call, with its policies.
    table: Arc<Table>,
    admission: Arc<Admission>,
    health: LiveHealthPolicy,
}

/// An empty table.
impl Default for HttpPolicies {
    fn default() -> Self {
        Self {
            table: Arc::default(),
            admission: Arc::new(Admission::off()),
            health: LiveHealthPolicy::default(),
        }
    }
}

impl fmt::Debug for HttpPolicies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = &*self.table;
        f.debug_struct("HttpPolicies")
            .field("routes", &table.routes)
            .field("index", &table.index)
            .field("default", &table.default)
            .field("throttles", &table.throttles)
            .field("budgets", &table.budgets)
            .field("route_budgets", &table.route_budgets)
            .field("unnamed", &table.unnamed)
            .field("own_delays", &table.own_delays)
            .field("own_quotas", &table.own_quotas)
            .field("admission", &self.admission)
            .field("health", &self.health)
            .field("options", &table.options)
            .finish()
    }
}

/// A table and its warnings.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Parsed {
    /// The table.
    pub policies: HttpPolicies,
    /// Settings that have no effect or can amplify load; they do not reject the text.
    pub warnings: Vec<Fault>,
}

/// A table that is not applied yet.
struct Successor {
    policies: HttpPolicies,
    carried: Carried,
    warnings: Vec<Fault>,
}

impl HttpPolicies {
    /// Parses a table with the default options.
    pub fn parse(text: &str) -> Result<Parsed, Faults> {
        Self::parse_with(text, &Options::default())
    }

    /// Parses a table.
    pub fn parse_with(text: &str, options: &Options) -> Result<Parsed, Faults> {
        let admission = Admission::off().randomness(options.randomness.clone());
        let admission = match options.clock.clone() {
            Some(clock) => admission.with_clock(move || clock.now()),
            None => admission,
        };
        let empty = Self {
            table: Arc::new(Table {
                options: options.clone(),
                ..Table::default()
            }),
            admission: Arc::new(admission),
            ..Self::default()
        };
        let Successor {
            policies,
            carried,
            warnings,
        } = empty.successor(text)?;
        // Nothing else uses what it shares with the empty table.
        carried.reconfigure();
        Ok(Parsed { policies, warnings })
    }

    /// Parses the table that replaces this one, with the same options. Both share what is carried
    /// over; its parameters change only when the new table is applied.
    fn successor(&self, text: &str) -> Result<Successor, Faults> {
        let (document, warnings) = FORM.read(text, |place, json| {
            Document::read(place, json, &self.table.options)
        })?;
        let (policies, carried) = document.into_policies(self);
        Ok(Successor {
            policies,
            carried,
            warnings,
        })
    }

    /// The token bucket with this name.
    #[must_use]
    pub fn throttle(&self, name: &str) -> Option<&Arc<TokenBucket>> {
        match self.table.throttles.get(name)? {
            Counted::Tokens(bucket) => Some(bucket),
            Counted::Ratio(_) | Counted::Aws(_) | Counted::Governor(_) => None,
        }
    }

    /// The governor with this name.
    #[must_use]
    pub fn governor(&self, name: &str) -> Option<&Arc<Governor>> {
        match self.table.throttles.get(name)? {
            Counted::Governor(governor) => Some(governor),
            Counted::Tokens(_) | Counted::Ratio(_) | Counted::Aws(_) => None,
        }
    }

    /// The admission of the document: off where the document has none, and the same for the tables
    /// that replace this one. `HttpClientLayer::policies` has it; in a stack of single layers it is
    /// for an `AdmissionLayer` above the others.
    #[must_use]
    pub const fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// When backends are ejected, for [`HttpClientLayer::backends`], and circuits opened, for
    /// [`HttpClientLayer::circuit_breakers`]: the document's `health`, the standard policy where it
    /// has none. The same for the tables that replace this one, which change it: backends and
    /// breakers keep what they know, and follow. Which backends there are is no part of a document.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// use reattempt_http::{HttpClientLayer, HttpPolicies, LiveHttpPolicies};
    ///
    /// let table = HttpPolicies::parse(r#"{"health": {"consecutiveFailures": 3}}"#)?;
    /// let live = LiveHttpPolicies::new(table.policies);
    /// let layer = HttpClientLayer::policies(live.clone()).circuit_breakers(live.load().health());
    /// live.update(r#"{"health": {"consecutiveFailures": 10}}"#)?; // also for its breakers
    /// # drop(layer);
    /// # }
    /// # Ok::<(), reattempt::config::Faults>(())
    /// ```
    ///
    /// [`HttpClientLayer::backends`]: crate::HttpClientLayer::backends
    /// [`HttpClientLayer::circuit_breakers`]: crate::HttpClientLayer::circuit_breakers
    #[must_use]
    pub const fn health(&self) -> &LiveHealthPolicy {
        &self.health
    }

    /// The retry budget with this name.
    #[must_use]
    pub fn ratio_budget(&self, name: &str) -> Option<&Arc<RatioBudget>> {
        match self.table.throttles.get(name)? {
            Counted::Ratio(budget) => Some(budget),
            Counted::Tokens(_) | Counted::Aws(_) | Counted::Governor(_) => None,
        }
    }

    /// The AWS quota of the throttle with this name; else that of the route with this name, if its
    /// preset created one.
    #[must_use]
    pub fn quota(&self, name: &str) -> Option<&Arc<AwsQuota>> {
        let named = self.table.throttles.get(name).and_then(Counted::quota);
        named.or_else(|| self.table.own_quotas.get(name))
    }

    /// The hedge budget with this name; else that of the route with this name.
    #[must_use]
    pub fn budget(&self, name: &str) -> Option<&Arc<HedgeBudget>> {
        let named = self.table.budgets.get(name);
        named.or_else(|| self.table.route_budgets.get(name)?.own())
    }

    /// The hedge budget of the route with this name, its own or a shared one.
    #[must_use]
    pub fn hedge_budget(&self, route: &str) -> Option<&Arc<HedgeBudget>> {
        match self.table.route_budgets.get(route)? {
            RouteBudget::Own(budget) | RouteBudget::Shared(budget) => Some(budget),
        }
    }

    /// The policies in the order in which they are tried, the default last.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<RoutePolicy>> {
        let routes = self.table.routes.iter().map(|(_, policy)| policy);
        routes.chain(&self.table.default)
    }
}

impl<B> Route<Request<B>> for HttpPolicies {
    fn route(&self, request: &Request<B>) -> Option<Arc<RoutePolicy>> {
        let table = &*self.table;
        let matches = |at: usize, is_whole| table.routes[at].0.matches_found(request, is_whole);
        let matching = table.index.first(request, matches);
        matching
            .map(|at| &table.routes[at].1)
            .or(table.default.as_ref())
            .cloned()
    }
}

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
//! # Ok::<(), reattempt_http::json::Faults>(())
//! ```
//!
//! # Format
//!
//! Durations are strings in seconds, exact to the nanosecond: `"0.5s"`. `null` counts as absent.
//! Members are optional unless marked as required.
//!
//! | top | |
//! | --- | --- |
//! | `routes` | tried in order; the first that matches applies |
//! | `default` | for calls that no route matches: a route without `name` and `match`. Without it such calls use the layers' own settings |
//! | `throttles` | name → `{"maxTokens": 1…1000, "tokenRatio": at least 0.001}`, both required: A6's token bucket, counted exactly in thousandths (decimal places beyond three are dropped); or `{"preset": …}`: the quota of one of the presets below |
//! | `budgets` | name → `{"percent": 0.1…100 in tenths}`: a [`HedgeBudget`] that routes share |
//!
//! | route | | absent |
//! | --- | --- | --- |
//! | `name` | for records and metrics; must be unique | `routes[n]` |
//! | `match` | `methods`: in capitals; at most one of `path` (exact), `prefix` (whole segments: `/v1` matches `/v1` and `/v1/x`, not `/v10`; `/v1/` matches what is below it) and `pattern` (`/users/{id}`, `/files/{*rest}`), all compared with the path as written; `query`: an object, below; `host`: of the URI, else of the `Host` header, without port, in any case | every request |
//! | `retry` or `hedge` | see below; both is a fault | neither: calls are sent once (except for requests never sent on an existing connection, and refused streams, which are still retried; a failed connect is final) |
//! | `retryAfter` | `honour` (true), `milliseconds` (true): also `retry-after-ms`, `rateLimits` (true): also `RateLimit-Reset` and `X-RateLimit-Reset`, `cap`: a duration, `beyondCap`: `"stop"` (default) or `"wait"` for the cap, `spread` (`"0s"`): a duration; a random part of it is added to the delay | as the `PushbackLayer` was built |
//! | `refused` | the meaning of HTTP/2's REFUSED_STREAM: `"unprocessed"` (any request is retried, once without counting) or `"ambiguous"`, for proxies that send it for requests they had forwarded (handled like any other reset stream): see [`RefusedStream`](crate::RefusedStream) | as the classifier was built |
//! | `timeout` | of the whole call; needs a `DeadlineLayer` outside the recovery layers | as the layer was built |
//! | `attemptTimeout` | of each attempt; needs a `DeadlineLayer` inside the recovery layers | as the layer was built |
//! | `bodyLimit` | bytes of a request's body that are buffered for further attempts, in a `ReplayBodyLayer` | as the layer was built |
//! | `idempotencyKey` | whether a request with an `Idempotency-Key` counts as idempotent, in an `IdempotencyKeyLayer` | false |
//! | `throttle` | the name of one of `throttles`; routes with the same name share it | as the `ThrottleLayer` was built |
//!
//! | `retry` | | absent |
//! | --- | --- | --- |
//! | `preset` | published parameters, below | none |
//! | `maxAttempts` | 1 to 1000, including the first | 3 |
//! | `backoff` | `initial` (`"0.1s"`), `multiplier` (2), `max` (`"20s"`), `jitter`: `"full"` (uniform from 0 to the delay), `"none"`, `"proportional"` (±20 %), `"decorrelated"` (from `initial` to three times the previous delay) | full jitter from 0.1 s |
//! | `statuses` | retryable statuses | 408, 425, 429, 500, 502, 503, 504 |
//! | `safeStatuses` | those of them after which even a request that is not idempotent is retried | 425, 429 |
//! | `transportErrors` | whether they are retried. After a failed connect nothing was sent, so any request may be retried; with `false` that is final too | true |
//!
//! | `hedge` | | absent |
//! | --- | --- | --- |
//! | `maxAttempts` | 1 to 16, including the first | 2 |
//! | `delay` | required: between two attempts | |
//! | `statuses` | after which the other attempts continue; any other failure ends the call | as for `retry` |
//! | `transportErrors` | the same for transport errors | true |
//! | `onlyIdempotent` | whether only idempotent requests are hedged (by method, key or the caller's setting). Other requests have one attempt in flight at a time, and another follows only a failure without effect: the default of `safeStatuses`, a refused connection | true |
//! | `budgetPercent` | hedges per hundred attempts of this route, 0.1 to 100 in tenths: a [`HedgeBudget`] | no budget, and a warning |
//! | `budget` | instead: the name of one of `budgets`; routes with the same name share it | |
//!
//! # Query parameters
//!
//! `match.query` has a member for each parameter that the request must have: the exact value as a
//! string, or `true` for any value. Other parameters and the order are ignored. The request's names
//! and values are compared after percent-decoding, with `+` as a space
//! (`application/x-www-form-urlencoded`); those of the policy are plain text. Comparison is
//! case-sensitive. A parameter without `=` has the empty value. If the request has a parameter
//! several times, one matching value is enough. There is no "absent" condition: put the route that
//! requires the parameter first.
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
//! # Ok::<(), reattempt_http::json::Faults>(())
//! ```
//!
//! # Presets
//!
//! `"aws-standard-2.0"` and `"aws-standard-2.1"` are the [parameters of the AWS SDKs](crate::aws):
//! attempts, back-off, statuses (429, 500, 502, 503, 504), and for 2.1 `x-amz-retry-after`; a
//! `retryAfter` of the route adds the usual headers. Other members of `retry` override the preset
//! (for DynamoDB: `"maxAttempts": 4, "backoff": {"initial": "0.025s"}`). The route has its own
//! quota; to share one between routes, define it as a throttle:
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
//!                 "backoff": {"initial": "0.025s"}} }
//!   ],
//!   "throttles": {"s3": {"preset": "aws-standard-2.1"}}
//! }"#,
//! )?;
//! assert_eq!(parsed.policies.quota("s3").unwrap().tokens(), 500);
//! assert_eq!(parsed.policies.quota("tables").unwrap().tokens(), 500);
//! # Ok::<(), reattempt_http::json::Faults>(())
//! ```
//!
//! # The stack
//!
//! `RouteLayer` outermost, then `DeadlineLayer::unlimited()`,
//! [`IdempotencyKeyLayer`](crate::IdempotencyKeyLayer),
//! [`ReplayBodyLayer`](crate::body::ReplayBodyLayer), `RetryLayer` and `HedgeLayer` (each route
//! uses one of them), a second `DeadlineLayer::unlimited()` for the attempts, and `PushbackLayer`
//! with [`HttpPushback`](crate::HttpPushback). A policy's throttle and budget replace the bucket of
//! a `ThrottleLayer`.

mod entry;
mod live;
mod matching;
mod options;
mod recovery;
mod shared;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use http::Request;
use reattempt::throttle::HedgeBudget;
use reattempt::{Route, RoutePolicy, TokenBucket};

pub use live::LiveHttpPolicies;
pub use options::Options;

use crate::aws::AwsQuota;
use crate::json::{self, Fault, Faults};
use matching::Matching;
use table::{Carried, Document};

/// A table of policies by route.
#[derive(Clone, Debug, Default)]
pub struct HttpPolicies {
    routes: Vec<(Matching, Arc<RoutePolicy>)>,
    default: Option<Arc<RoutePolicy>>,
    throttles: HashMap<String, Counted>,
    budgets: HashMap<String, Arc<HedgeBudget>>,
    /// By the names of their routes.
    own_budgets: HashMap<String, Arc<HedgeBudget>>,
    /// By the names of their routes.
    own_quotas: HashMap<String, Arc<AwsQuota>>,
    options: Options,
}

/// A throttle that routes share.
#[derive(Clone, Debug)]
enum Counted {
    Tokens(Arc<TokenBucket>),
    Aws(Arc<AwsQuota>),
}

impl Counted {
    const fn quota(&self) -> Option<&Arc<AwsQuota>> {
        match self {
            Self::Tokens(_) => None,
            Self::Aws(quota) => Some(quota),
        }
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
        let empty = Self {
            options: options.clone(),
            ..Self::default()
        };
        let Successor {
            policies, warnings, ..
        } = empty.successor(text)?;
        Ok(Parsed { policies, warnings })
    }

    /// Parses the table that replaces this one, with the same options. Both share what is carried
    /// over; its parameters change only when the new table is applied.
    fn successor(&self, text: &str) -> Result<Successor, Faults> {
        let (document, warnings) = json::read("the HTTP policy", text, |place, json| {
            Document::read(place, json, &self.options)
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
        match self.throttles.get(name)? {
            Counted::Tokens(bucket) => Some(bucket),
            Counted::Aws(_) => None,
        }
    }

    /// The AWS quota of the throttle with this name; else that of the route with this name, if its
    /// preset created one.
    #[must_use]
    pub fn quota(&self, name: &str) -> Option<&Arc<AwsQuota>> {
        let named = self.throttles.get(name).and_then(Counted::quota);
        named.or_else(|| self.own_quotas.get(name))
    }

    /// The hedge budget with this name; else that of the route with this name.
    #[must_use]
    pub fn budget(&self, name: &str) -> Option<&Arc<HedgeBudget>> {
        let named = self.budgets.get(name);
        named.or_else(|| self.own_budgets.get(name))
    }

    /// The policies in the order in which they are tried, the default last.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<RoutePolicy>> {
        let routes = self.routes.iter().map(|(_, policy)| policy);
        routes.chain(&self.default)
    }
}

impl<B> Route<Request<B>> for HttpPolicies {
    fn route(&self, request: &Request<B>) -> Option<Arc<RoutePolicy>> {
        let matching = self
            .routes
            .iter()
            .find(|(matching, _)| matching.matches(request));
        matching
            .map(|(_, policy)| policy)
            .or(self.default.as_ref())
            .cloned()
    }
}

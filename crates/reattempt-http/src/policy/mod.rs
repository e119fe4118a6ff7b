//! Policies of single routes from JSON: which requests are retried or hedged, how, and within which
//! limits.
//!
//! A table of [`HttpPolicies`] is a [`Route`]: give it to a `RouteLayer`, inside of
//! [`LiveHttpPolicies`] if it is to be replaced live. Parsing is strict and tells every fault at
//! once, each with its JSON path; unknown members and policies that can amplify load are warnings.
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
//!       "hedge": {"maxAttempts": 3, "delay": "0.02s", "statuses": [429, 503], "budgetPercent": 10},
//!       "timeout": "2s", "throttle": "backend" },
//!     { "name": "orders",
//!       "match": {"methods": ["POST"], "pattern": "/users/{id}/orders"},
//!       "retry": {"maxAttempts": 3, "backoff": {"initial": "0.1s", "multiplier": 2, "max": "2s", "jitter": "full"}},
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
//! assert!(matches!(reads.get_recovery(), Recovery::Hedge(hedge) if hedge.max_attempts() == 3));
//! assert_eq!(of(Request::post("/users/7/orders")).name(), "orders");
//! assert_eq!(of(Request::delete("/")).get_call_limit(), Some(Duration::from_secs(5)));
//!
//! // A text that cannot be used changes nothing, and says all that is wrong with it.
//! let faults = routes.update(r#"{"routes": [{"match": {"methods": ["get"]}, "timeout": "5m"}]}"#).unwrap_err();
//! let lines: Vec<_> = faults.faults().iter().map(ToString::to_string).collect();
//! assert_eq!(lines, [
//!     r#"$.routes[0].match.methods[0]: must be a method in capitals such as "GET", got "get""#,
//!     r#"$.routes[0].timeout: must be a duration greater than 0 such as "0.1s" (at most nine decimal places), got "5m""#,
//! ]);
//! # Ok::<(), reattempt_http::json::Faults>(())
//! ```
//!
//! # The form
//!
//! Durations are texts in seconds, exact to the nanosecond: `"0.5s"`. `null` counts as absent.
//! Everything is optional but what is called required.
//!
//! | top | |
//! | --- | --- |
//! | `routes` | asked in their order; the first that matches is the call's |
//! | `default` | for calls that no route matches: a route without `name` and `match`. Without it such calls are left to the layers' own settings |
//! | `throttles` | name → `{"maxTokens": 1…1000, "tokenRatio": at least 0.001}`, both required: A6's token bucket, counted exactly in thousandths (decimal places beyond three are dropped); or `{"preset": …}`: the quota of one of the presets below |
//! | `budgets` | name → `{"percent": 0.1…100 in tenths}`: a [`HedgeBudget`] that routes share |
//!
//! | route | | absent |
//! | --- | --- | --- |
//! | `name` | for records and metrics; once only | `routes[n]` |
//! | `match` | `methods`: in capitals; at most one of `path` (exact), `prefix` (whole segments: `/v1` is for `/v1` and `/v1/x`, not for `/v10`; `/v1/` is for what is below it) and `pattern` (`/users/{id}`, `/files/{*rest}`), all against the path as it is written; `query`: an object, below; `host`: of the URI, else of the `Host` header, without port, in any case | every request |
//! | `retry` or `hedge` | see below; both is a fault | neither: calls are sent once (what was never sent on a connection that existed, and a refused stream, are sent again all the same; a connection that could not be made is final) |
//! | `retryAfter` | `honour` (true), `milliseconds` (true): `retry-after-ms` too, `rateLimits` (true): `RateLimit-Reset` and `X-RateLimit-Reset` too, `cap`: a duration, `beyondCap`: `"stop"` (default) or `"wait"` the cap, `spread` (`"0s"`): a duration; a random part of it is waited on top | as the `PushbackLayer` was built |
//! | `refused` | what HTTP/2's REFUSED_STREAM says of a request: `"unprocessed"` (any request is sent again, once without counting) or `"ambiguous"`, for proxies that say it of requests they had passed on (as any other reset stream): see [`RefusedStream`](crate::RefusedStream) | as the classifier was built |
//! | `timeout` | of the whole call; needs a `DeadlineLayer` outside the recovery layers | as the layer was built |
//! | `attemptTimeout` | of each attempt; needs a `DeadlineLayer` inside the recovery layers | as the layer was built |
//! | `bodyLimit` | bytes of a request's body that are kept for further attempts, in a `ReplayBodyLayer` | as the layer was built |
//! | `idempotencyKey` | whether a request with an `Idempotency-Key` counts as idempotent, in an `IdempotencyKeyLayer` | false |
//! | `throttle` | the name of one of `throttles`; routes that name the same share it | as the `ThrottleLayer` was built |
//!
//! | `retry` | | absent |
//! | --- | --- | --- |
//! | `preset` | published figures, below | none |
//! | `maxAttempts` | 1 to 1000, the first included | 3 |
//! | `backoff` | `initial` (`"0.1s"`), `multiplier` (2), `max` (`"20s"`), `jitter`: `"full"` (uniform from 0 to the delay), `"none"`, `"proportional"` (20 % up or down), `"decorrelated"` (from `initial` to three times the delay before) | full jitter from 0.1 s |
//! | `statuses` | that another attempt may mend | 408, 425, 429, 500, 502, 503, 504 |
//! | `safeStatuses` | those of them after which even a request that is not idempotent is sent again | 425, 429 |
//! | `transportErrors` | whether they are retried. Where no connection could be made nothing was sent, so any request may follow; with `false` that is final too | true |
//!
//! | `hedge` | | absent |
//! | --- | --- | --- |
//! | `maxAttempts` | 1 to 16, the first included | 2 |
//! | `delay` | required: from one attempt to the next | |
//! | `statuses` | after which the other attempts go on; any other failure ends the call | as for `retry` |
//! | `transportErrors` | the same for transport errors | true |
//! | `onlyIdempotent` | whether only idempotent requests are hedged (by method, key or the caller's word). Of others one attempt is out at a time, and another follows only what says that nothing happened: `safeStatuses`' default, a refused connection | true |
//! | `budgetPercent` | hedges per hundred attempts of this route, 0.1 to 100 in tenths: a [`HedgeBudget`] | no budget, and a warning |
//! | `budget` | instead: the name of one of `budgets`; routes that name the same share it | |
//!
//! # Query parameters
//!
//! `match.query` has a member for each parameter that the request must have: the exact value as a
//! string, or `true` for any value. Other parameters of the request do not matter, nor does their
//! order. The request's names and values are compared after percent-decoding, with `+` as a space
//! (`application/x-www-form-urlencoded`); those of the policy are plain text. Case counts. A
//! parameter without `=` has the empty value. Of a parameter that the request has several times,
//! one value that matches is enough. There is no "absent": put the route that asks for the
//! parameter first.
//!
//! ```
//! use http::Request;
//! use reattempt::Route;
//! use reattempt_http::HttpPolicies;
//!
//! // A watch stays open on purpose; a list is over within seconds.
//! let table = HttpPolicies::parse(r#"{"routes": [
//!     {"name": "watch", "match": {"methods": ["GET"], "prefix": "/api/", "query": {"watch": "true"}}},
//!     {"name": "list", "match": {"methods": ["GET"], "prefix": "/api/"}, "timeout": "5s", "retry": {}}
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
//! `"aws-standard-2.0"` and `"aws-standard-2.1"` are the [figures of the AWS SDKs](crate::aws):
//! attempts, back-off, statuses (429, 500, 502, 503, 504), and for 2.1 `x-amz-retry-after`, which a
//! `retryAfter` of the route adds the usual headers to. What `retry` says beside `preset` beats it
//! (for DynamoDB: `"maxAttempts": 4, "backoff": {"initial": "0.025s"}`). The route counts in a
//! quota of its own; one that several routes share is a throttle:
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
//!       "retry": {"preset": "aws-standard-2.1", "maxAttempts": 4, "backoff": {"initial": "0.025s"}} }
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
//! with [`RetryAfter`](crate::RetryAfter). A policy's throttle and budget stand in place of a
//! `ThrottleLayer`'s bucket.

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

/// What routes count in.
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

/// A table, and what is strange about its text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Parsed {
    /// The table.
    pub policies: HttpPolicies,
    /// What has no effect or can amplify load; no reason to reject the text.
    pub warnings: Vec<Fault>,
}

/// A table that is not yet in force.
struct Successor {
    policies: HttpPolicies,
    carried: Carried,
    warnings: Vec<Fault>,
}

impl HttpPolicies {
    /// Reads a table with the default options.
    pub fn parse(text: &str) -> Result<Parsed, Faults> {
        Self::parse_with(text, &Options::default())
    }

    /// Reads a table.
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

    /// Reads the table that is to follow this one, with the same options. Both share what is
    /// carried over; its numbers change only when the newer table is put in force.
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

    /// The token bucket of this name.
    #[must_use]
    pub fn throttle(&self, name: &str) -> Option<&Arc<TokenBucket>> {
        match self.throttles.get(name)? {
            Counted::Tokens(bucket) => Some(bucket),
            Counted::Aws(_) => None,
        }
    }

    /// The AWS quota of the throttle of this name; else that of the route of this name, where its
    /// preset brought one.
    #[must_use]
    pub fn quota(&self, name: &str) -> Option<&Arc<AwsQuota>> {
        let named = self.throttles.get(name).and_then(Counted::quota);
        named.or_else(|| self.own_quotas.get(name))
    }

    /// The hedge budget of this name; else that of the route of this name.
    #[must_use]
    pub fn budget(&self, name: &str) -> Option<&Arc<HedgeBudget>> {
        let named = self.budgets.get(name);
        named.or_else(|| self.own_budgets.get(name))
    }

    /// The policies in the order in which they are asked, the default last.
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

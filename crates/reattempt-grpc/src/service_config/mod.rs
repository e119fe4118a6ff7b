//! Service config: `retryPolicy`, `hedgingPolicy` and `retryThrottling` per method (A6, Integration with Service
//! Config; A21 for what is an error).
//!
//! Parsing is strict and tells every fault at once, each with its JSON path. Unknown fields are ignored with a warning;
//! one invalid field rejects the whole. A [`ServiceConfig`] is a [`Route`]: give it to a `RouteLayer`, inside of
//! [`Routes`](reattempt::Routes) if it is to be replaced live.
//!
//! ```
//! use std::time::Duration;
//! use reattempt::{Route, Routes};
//! use reattempt_grpc::service_config::{Options, ServiceConfig};
//!
//! let faults = ServiceConfig::parse(r#"{"methodConfig": [{"name": [{}], "timeout": "1m",
//!     "hedgingPolicy": {"maxAttempts": 1}}]}"#).unwrap_err();
//! let lines: Vec<_> = faults.faults().iter().map(ToString::to_string).collect();
//! assert_eq!(lines, [
//!     "$.methodConfig[0].hedgingPolicy.maxAttempts: must be an integer greater than 1, got 1",
//!     "$.methodConfig[0].timeout: must be a duration such as \"0.1s\" (at most nine decimal places), got \"1m\"",
//! ]);
//!
//! let config = ServiceConfig::parse(r#"{"methodConfig": [{"name": [{"service": "a.B"}], "timeout": "0.25s"}]}"#)?;
//! let routes = Routes::new(config);
//! let policy = routes.route(&http::Request::post("http://h/a.B/C").body(()).unwrap()).unwrap();
//! assert_eq!(policy.get_call_limit(), Some(Duration::from_millis(250)));
//!
//! // Later: a call keeps what it started with, the bucket keeps its fill; a bad text changes nothing.
//! let newer = routes.load().successor(r#"{"methodConfig": []}"#, &Options::default())?;
//! routes.swap(newer);
//! # Ok::<(), reattempt_grpc::service_config::InvalidServiceConfig>(())
//! ```

mod method;
mod retry_policy;
#[cfg(test)]
mod tests;
mod values;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use reattempt::backoff::{Jitter, Randomness};
use reattempt::{OnDeadline, Route, RoutePolicy, TokenBucket};
use reattempt_http::json::{self, Json, Members, Place};

pub use method::MethodConfig;
pub use reattempt_http::json::{Fault as ConfigFault, Faults as InvalidServiceConfig};
pub use retry_policy::RetryPolicy;

use method::{Entry, Name};

/// The client's own settings, which the service config cannot change.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// More attempts than this act as this (A6, Limits on Retries and Hedges); 5 by default.
    pub max_attempts_limit: u32,
    /// How delays are spread: A6's `Full` by default; `Proportional(0.2)` is A6 since 2024.
    pub jitter: Jitter,
    /// Where random numbers come from.
    pub randomness: Randomness,
    /// What to do with a delay that does not fit before the deadline.
    pub on_deadline: OnDeadline,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_attempts_limit: 5,
            jitter: Jitter::Full,
            randomness: Randomness::default(),
            on_deadline: OnDeadline::Cap,
        }
    }
}

impl Options {
    /// A6's defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With another limit of attempts (below 2 counts as 2, the least that a policy can say).
    #[must_use]
    pub fn max_attempts_limit(mut self, limit: u32) -> Self {
        self.max_attempts_limit = limit.max(2);
        self
    }

    /// With another jitter.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// With random numbers from here.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }

    /// With another answer to delays that do not fit.
    #[must_use]
    pub fn on_deadline(mut self, on_deadline: OnDeadline) -> Self {
        self.on_deadline = on_deadline;
        self
    }
}

/// A parsed service config: policies by method, by service, and the default, with the throttle they share.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    methods: HashMap<String, Arc<MethodConfig>>,
    services: HashMap<String, Arc<MethodConfig>>,
    default: Arc<MethodConfig>,
    bucket: Option<Arc<TokenBucket>>,
    warnings: Vec<ConfigFault>,
}

impl ServiceConfig {
    /// Reads a service config with the default options.
    pub fn parse(text: &str) -> Result<Self, InvalidServiceConfig> {
        Self::parse_with(text, &Options::default())
    }

    /// Reads a service config.
    pub fn parse_with(text: &str, options: &Options) -> Result<Self, InvalidServiceConfig> {
        Self::read(text, options, None)
    }

    /// Reads the config that is to follow this one for the same server name: the throttle is carried over and keeps the
    /// fraction to which it is filled. Both configs share it, and it counts by the new numbers as soon as this returns, before
    /// [`Routes::swap`](reattempt::Routes::swap) and also without it: call this only for a config that you put in force, and
    /// [`ServiceConfig::parse_with`] to look at a text first. One without
    /// `retryThrottling` leaves the numbers as they are. A text that cannot be used changes nothing.
    pub fn successor(&self, text: &str, options: &Options) -> Result<Self, InvalidServiceConfig> {
        Self::read(text, options, self.bucket.as_ref())
    }

    fn read(
        text: &str,
        options: &Options,
        bucket: Option<&Arc<TokenBucket>>,
    ) -> Result<Self, InvalidServiceConfig> {
        let (document, warnings) = json::read("the service config", text, |faults, json| {
            Document::read(faults, json, options)
        })?;
        Ok(document.into_config(bucket, warnings))
    }

    /// What is not known or has no effect; no reason to reject the config.
    #[must_use]
    pub fn warnings(&self) -> &[ConfigFault] {
        &self.warnings
    }

    /// The throttle of this server name, if the config has one.
    #[must_use]
    pub const fn throttle(&self) -> Option<&Arc<TokenBucket>> {
        self.bucket.as_ref()
    }

    /// What applies to a path such as `/pkg.Service/Method`: the method's entry, else its service's, else the
    /// default. Levels are not merged.
    #[must_use]
    pub fn method(&self, path: &str) -> &Arc<MethodConfig> {
        let path = path.strip_prefix('/').unwrap_or(path);
        let service = || {
            path.rsplit_once('/')
                .and_then(|(service, _)| self.services.get(service))
        };
        self.methods
            .get(path)
            .or_else(service)
            .unwrap_or(&self.default)
    }
}

impl<B> Route<http::Request<B>> for ServiceConfig {
    /// Never `None`: a call that no entry is for is neither retried nor hedged (A6, Configuration Language), but
    /// counts in the throttle.
    fn route(&self, request: &http::Request<B>) -> Option<Arc<RoutePolicy>> {
        Some(Arc::clone(&self.method(request.uri().path()).policy))
    }
}

/// The document, read but not yet put into tables.
struct Document {
    entries: Vec<(Vec<Name>, Entry)>,
    /// `maxTokens`, and `tokenRatio` in thousandths.
    throttling: Option<(u32, u32)>,
}

impl Document {
    fn read(faults: &mut Place<'_>, json: &Json, options: &Options) -> Option<Self> {
        let known = [
            "loadBalancingPolicy",
            "loadBalancingConfig",
            "healthCheckConfig",
            "methodConfig",
            "retryThrottling",
        ];
        let members = Members::of(faults, json, &known)?;
        let mut seen = HashSet::new();
        let entries = members.optional(faults, "methodConfig", |faults, json| {
            let Json::Array(items) = json else {
                faults.wrong(&format!("must be an array, got {}", json.describe()));
                return None;
            };
            let mut entries = Vec::new();
            for (at, item) in items.iter().enumerate() {
                entries.extend(entry(&mut faults.index(at), item, options, &mut seen));
            }
            Some(entries)
        });
        Some(Self {
            entries: entries.unwrap_or_default(),
            throttling: members.optional(faults, "retryThrottling", throttling),
        })
    }

    fn into_config(
        self,
        carried: Option<&Arc<TokenBucket>>,
        warnings: Vec<ConfigFault>,
    ) -> ServiceConfig {
        // The reader has checked both numbers, so that neither step can fail.
        let bucket = self.throttling.and_then(|(max, ratio)| match carried {
            Some(bucket) => bucket
                .reconfigure(max, ratio)
                .ok()
                .map(|()| Arc::clone(bucket)),
            None => TokenBucket::new(max, ratio).ok().map(Arc::new),
        });
        let mut config = ServiceConfig {
            methods: HashMap::new(),
            services: HashMap::new(),
            default: Entry::nothing().named(&Name::Default, bucket.as_ref()),
            bucket,
            warnings,
        };
        for (names, entry) in self.entries {
            for name in names {
                let method = entry.named(&name, config.bucket.as_ref());
                match name {
                    Name::Method(name) => drop(config.methods.insert(name, method)),
                    Name::Service(name) => drop(config.services.insert(name, method)),
                    Name::Default => config.default = method,
                }
            }
        }
        config
    }
}

fn entry(
    faults: &mut Place<'_>,
    json: &Json,
    options: &Options,
    seen: &mut HashSet<Name>,
) -> Option<(Vec<Name>, Entry)> {
    let known = [
        "name",
        "waitForReady",
        "timeout",
        "maxRequestMessageBytes",
        "maxResponseMessageBytes",
        "retryPolicy",
        "hedgingPolicy",
    ];
    let members = Members::of(faults, json, &known)?;
    let names = members.optional(faults, "name", |faults, json| {
        let Json::Array(items) = json else {
            faults.wrong(&format!("must be an array, got {}", json.describe()));
            return None;
        };
        let mut names = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let mut faults = faults.index(at);
            if let Some(name) = Name::read(&mut faults, item) {
                if !seen.insert(name.clone()) {
                    faults.wrong("names what another entry names already");
                }
                names.push(name);
            }
        }
        Some(names)
    });
    let nameless = match members.get("name") {
        None => true,
        Some(Json::Array(items)) => items.is_empty(),
        Some(_) => false,
    };
    if nameless {
        faults.warn("has no name, so it is for no call");
    }
    Some((
        names.unwrap_or_default(),
        Entry::read(faults, &members, options)?,
    ))
}

/// A6, Validation of retryThrottling.
fn throttling(faults: &mut Place<'_>, json: &Json) -> Option<(u32, u32)> {
    let members = Members::of(faults, json, &["maxTokens", "tokenRatio"])?;
    let max = members.required(faults, "maxTokens", "an integer", |faults, json| {
        values::integer(faults, json, "an integer from 1 to 1000", 1, 1000)
    });
    let ratio = members.required(faults, "tokenRatio", "a number", values::thousandths);
    Some((u32::try_from(max?).ok()?, ratio?))
}

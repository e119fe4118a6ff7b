//! Service config: `retryPolicy`, `hedgingPolicy` and `retryThrottling` per method (A6, Integration
//! with Service Config; A21 for what is an error).
//!
//! Parsing is strict and reports all faults at once, each with its JSON path. Unknown fields and
//! settings that can amplify load cause a warning. One invalid field rejects the whole config. The
//! accepted forms are listed in `docs/conformance/grpc-service-config.md`.
//!
//! A `RouteLayer` accepts two kinds of [`Route`]: a fixed [`ServiceConfig`], and a
//! [`LiveServiceConfig`] that can be replaced while calls are in progress. The program obtains the
//! text itself; [choices] select one from a list.
//!
//! ```
//! use std::time::Duration;
//! use reattempt::Route;
//! use reattempt_grpc::service_config::{LiveServiceConfig, ServiceConfig};
//!
//! let faults = ServiceConfig::parse(r#"{"methodConfig": [{"name": [{}], "timeout": "1m",
//!     "hedgingPolicy": {"maxAttempts": 1}}]}"#).unwrap_err();
//! let lines: Vec<_> = faults.faults().iter().map(ToString::to_string).collect();
//! assert_eq!(lines, [
//!     "$.methodConfig[0].hedgingPolicy.maxAttempts: must be an integer greater than 1, got 1",
//!     "$.methodConfig[0].timeout: must be a duration such as \"0.1s\" \
//!      (at most nine decimal places), got \"1m\"",
//! ]);
//!
//! let live = LiveServiceConfig::default();
//! live.update(r#"{"methodConfig": [{"name": [{"service": "a.B"}], "timeout": "0.25s"}]}"#)?;
//! let request = http::Request::post("http://h/a.B/C").body(()).unwrap();
//! let policy = live.route(&request).unwrap();
//! assert_eq!(policy.timeout(), Some(Duration::from_millis(250)));
//!
//! // Later: a call keeps the policy it started with, the next one gets the newer config.
//! live.update(r#"{"methodConfig": []}"#)?;
//! assert_eq!(live.route(&request).unwrap().timeout(), None);
//! # Ok::<(), reattempt::config::Faults>(())
//! ```

pub mod choices;
#[cfg(feature = "serde")]
mod deserialize;
mod document;
mod hedging_policy;
mod live;
mod load_balancing;
mod method;
mod options;
mod retry_policy;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use reattempt::config::{Fault, Faults, Form};
use reattempt::{Route, RoutePolicy, TokenBucket};

pub use live::LiveServiceConfig;
pub use method::MethodConfig;
pub use options::{LearnedDelay, Options};
pub use retry_policy::RetryPolicy;

use crate::path_prefix::without_prefix;
use document::Document;

/// The warnings are kept as long as the config, and it may come from a server.
const FORM: Form = Form {
    most_warnings: 10_000,
    ..Form::new("the service config")
};

/// A parsed service config: policies by method, by service, and the default, with the throttle that
/// they share. Clones share all of it.
#[derive(Clone)]
pub struct ServiceConfig {
    /// One pointer: a client is cloned for each concurrent call, with its config.
    tables: Arc<Tables>,
    bucket: Option<Arc<TokenBucket>>,
}

// Sorted, because a keyed hash of a path takes longer than a search among a few names, and a config
// may come from a server, which could choose names with the same hash of another kind.
struct Tables {
    methods: BTreeMap<String, Arc<MethodConfig>>,
    services: BTreeMap<String, Arc<MethodConfig>>,
    default: Arc<MethodConfig>,
    warnings: Vec<Fault>,
}

impl ServiceConfig {
    /// Parses a service config with the default options.
    pub fn parse(text: &str) -> Result<Self, Faults> {
        Self::parse_with(text, &Options::default())
    }

    /// Parses a service config. Its bucket is new and full; if a config replaces another for the
    /// same server name, use [`LiveServiceConfig`].
    pub fn parse_with(text: &str, options: &Options) -> Result<Self, Faults> {
        let document = Document::parse(text, options)?;
        options.log(&document.warnings);
        let bucket = document.throttling.and_then(|numbers| numbers.bucket());
        Ok(document.config(bucket, None))
    }

    /// Unknown or ineffective settings, which do not reject the config and are also logged
    /// ([`Options::log_warnings`]); and [advice](Fault::is_advice), which is not. The first 10,000,
    /// and then one with the number of the others.
    #[must_use]
    pub fn warnings(&self) -> &[Fault] {
        &self.tables.warnings
    }

    /// The token bucket of this server name: `None` without `retryThrottling`, and if
    /// [`Options::throttle`] is used in its place.
    #[must_use]
    pub const fn throttle(&self) -> Option<&Arc<TokenBucket>> {
        self.bucket.as_ref()
    }

    /// The config for a path such as `/pkg.Service/Method`: the method's entry, else its service's,
    /// else the default. Levels are not merged. Without an entry for the whole path, what is before
    /// its last two segments does not count: the prefix of a proxy (`/api/pkg.Service/Method`).
    #[must_use]
    pub fn method(&self, path: &str) -> &Arc<MethodConfig> {
        let path = path.strip_prefix('/').unwrap_or(path);
        self.entry(path)
            .or_else(|| self.entry(without_prefix(path)?))
            .unwrap_or(&self.tables.default)
    }

    /// The entry of a method or its service.
    fn entry(&self, path: &str) -> Option<&Arc<MethodConfig>> {
        let tables = &*self.tables;
        let service = || tables.services.get(path.rsplit_once('/')?.0);
        tables.methods.get(path).or_else(service)
    }
}

impl fmt::Debug for ServiceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceConfig")
            .field("methods", &self.tables.methods)
            .field("services", &self.tables.services)
            .field("default", &self.tables.default)
            .field("bucket", &self.bucket)
            .field("warnings", &self.tables.warnings)
            .finish()
    }
}

impl<B> Route<http::Request<B>> for ServiceConfig {
    /// Never `None`: a call without an entry is neither retried nor hedged (A6, Configuration
    /// Language). Its successes count in the throttle, and of its failures those with a pushback
    /// that says stop.
    fn route(&self, request: &http::Request<B>) -> Option<Arc<RoutePolicy>> {
        Some(Arc::clone(&self.method(request.uri().path()).policy))
    }
}

//! Couchbase for reattempt: what an answer of a service means for another attempt, and which
//! configuration is in force.
//!
//! | you have | you put in |
//! | --- | --- |
//! | a KV client as a `tower::Service` | [`KvAnswer`] on its response, [`KvTransportError`] on its error, [`KvRequest`] on its request |
//! | `RetryLayer::new(classifier, strategy)` | [`KvClassifier`] and `BestEffort`, or [`ErrorMapStrategy`] |
//! | `PushbackLayer::new(reader)` | [`KvPushback`] |
//! | `ConfigPollLayer::new(stale)` | [`StaleKvConfig`] over a [`ConfigStore`] and a [`ConfigPoller`] |
//! | `RetryLayer::observer(…)` | that [`ConfigPoller`] too, beside `LogObserver`: it hears of nodes that never answer |
//!
//! With feature `http` (on by default), for query, analytics, search, views and management:
//!
//! | you have | you put in |
//! | --- | --- |
//! | an HTTP client as a `tower::Service` | `ServiceErrorLayer` right above it, `ServiceIdempotencyLayer` outermost (module `service`) |
//! | `RetryLayer::new(classifier, strategy)` | `ServiceClassifier` over the HTTP client's own classifier, and `BestEffort` |
//!
//! Nothing here knows a particular client or opens a socket. Specifications: RFC 0049 (retry
//! handling), RFC 0013 (KV error map), RFC 0024 (fast failover).

#[cfg(feature = "http")]
pub mod analytics;
pub mod cluster_config;
pub mod kv;
#[cfg(feature = "http")]
pub mod management;
#[cfg(feature = "http")]
pub mod query;
pub mod reasons;
#[cfg(feature = "http")]
pub mod search;
#[cfg(feature = "http")]
pub mod service;
#[cfg(test)]
mod testing;
#[cfg(feature = "http")]
pub mod views;

pub use cluster_config::{
    Address, ClusterConfig, ConfigPoller, ConfigStore, FetchConfig, Network, Revision,
    StaleKvConfig,
};
pub use kv::{
    ErrorMap, ErrorMapStrategy, ErrorMaps, KvAnswer, KvClassifier, KvPushback, KvRequest,
    KvTransportError,
};
#[cfg(feature = "http")]
pub use service::{HttpService, ServiceClassifier, ServiceErrorLayer, ServiceIdempotencyLayer};

//! Couchbase support for reattempt: classifies the responses of each service, and keeps the cluster
//! configuration current.
//!
//! | existing part | what to add |
//! | --- | --- |
//! | a KV client as a `tower::Service` | [`KvAnswer`] on its response, [`KvTransportError`] on its error, [`KvRequest`] on its request; [`KvClientLayer`] around it |
//! | an HTTP client as a `tower::Service` | [`ServiceClientLayer`] around it: query, analytics, search, views, management |
//!
//! Both layers have a default for each setting. They are made of single layers, for a stack of
//! one's own:
//!
//! | existing part | what to add |
//! | --- | --- |
//! | requests | [`attach_idempotency`](kv::attach_idempotency), by tower's `map_request`, outermost: without it nothing is retried after a lost connection |
//! | `DeadlineLayer` | a timeout: `BestEffort` has no maximum of attempts |
//! | `RetryLayer::new(classifier, strategy)` | [`KvClassifier`] and `BestEffort`, or [`ErrorMapStrategy`] |
//! | `PushbackLayer::new(reader)` | [`KvPushback`] |
//! | `ConfigPollLayer::new(stale)` | [`StaleKvConfig`] over a [`ConfigStore`] and a [`ConfigPoller`] |
//! | `RetryLayer::observer(…)` | that [`ConfigPoller`] too, beside the log: it detects nodes that never answer |
//!
//! For query, analytics, search, views and management:
//!
//! | existing part | what to add |
//! | --- | --- |
//! | an HTTP client as a `tower::Service` | `ServiceErrorLayer` directly above it, `ServiceIdempotencyLayer` outermost (module `service`) |
//! | `RetryLayer::new(classifier, strategy)` | `ServiceClassifier` over the HTTP client's own classifier, and `BestEffort` |
//!
//! This crate is independent of any client and opens no socket. Specifications: RFC 0049 (retry
//! handling), RFC 0013 (KV error map), RFC 0024 (fast failover).
//!
//! # Features
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `tokio` (default) | the layers, [`ConfigStore`], [`ConfigPoller`] and [`StaleKvConfig`]. Without it the crate has no runtime: classifiers, [`ErrorMapStrategy`], pushback, and the parsers of the error map and the cluster configuration, for simulators |
//! | `http` (default) | the services over HTTP: module `service` |
//! | `serde` | error maps in a program's own settings |
//! | `hyper`, `hyper-util`, `h2`, `reqwest` | reads the errors of this HTTP client |

mod address;
#[cfg(feature = "http")]
pub mod analytics;
pub mod cluster_config;
#[cfg(feature = "tokio")]
mod convention;
pub mod kv;
#[cfg(feature = "tokio")]
pub mod kv_client;
#[cfg(feature = "http")]
pub mod management;
#[cfg(feature = "http")]
mod phrase;
#[cfg(feature = "http")]
pub mod query;
pub mod reasons;
#[cfg(feature = "http")]
pub mod search;
mod server_document;
#[cfg(feature = "http")]
pub mod service;
#[cfg(feature = "http")]
mod service_answer;
#[cfg(test)]
mod testing;
#[cfg(feature = "http")]
pub mod views;

pub use address::Address;
pub use cluster_config::{ClusterConfig, Network, Revision};
pub use kv::{
    ErrorMap, ErrorMapStrategy, ErrorMaps, KvAnswer, KvClassifier, KvPushback, KvRequest,
    KvStrategy, KvTransportError,
};
#[cfg(feature = "http")]
pub use service::{HttpService, ServiceClassifier};

#[cfg(feature = "tokio")]
pub use cluster_config::{
    ConfigPoller, ConfigPollerOptions, ConfigStore, FetchConfig, StaleKvConfig,
};
#[cfg(feature = "tokio")]
pub use convention::KvConvention;
#[cfg(all(feature = "tokio", feature = "http"))]
pub use convention::ServiceConvention;
#[cfg(feature = "tokio")]
pub use kv_client::{KvClient, KvClientLayer};
#[cfg(all(feature = "tokio", feature = "http"))]
pub use service::{ServiceClient, ServiceClientLayer, ServiceErrorLayer, ServiceIdempotencyLayer};

// Of the layer that may be outermost.
#[cfg(all(feature = "tokio", feature = "http"))]
reattempt::explain_services! { [S] service::ServiceIdempotency<S>, [S] service::ServiceClient<S> }
#[cfg(feature = "tokio")]
reattempt::explain_services! { [S] kv_client::KvClient<S> }

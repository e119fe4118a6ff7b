//! How a configuration is requested from a node.

use std::future::Future;

use crate::cluster_config::{Address, ClusterConfig, Revision};

/// Why a request to a node failed. It is logged, and the next node is tried.
pub type FetchError = Box<dyn std::error::Error + Send + Sync>;

/// Requests the configuration from one node: GET_CLUSTER_CONFIG, over a connection of the client.
///
/// The future is dropped if it takes too long, or if the node fails meanwhile. Send the request
/// without retries (RFC 0049, Fail Fast). Closures `Fn(Address, Option<Revision>) -> Future`
/// implement this trait.
pub trait FetchConfig: Send + Sync + 'static {
    /// Sends the request to this node. `known` is the current revision: a newer server then returns
    /// only a newer configuration, and otherwise an empty body, which is `Ok(None)`.
    fn fetch(
        &self,
        node: Address,
        known: Option<Revision>,
    ) -> impl Future<Output = Result<Option<ClusterConfig>, FetchError>> + Send;
}

impl<F, Fut> FetchConfig for F
where
    F: Fn(Address, Option<Revision>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Option<ClusterConfig>, FetchError>> + Send,
{
    fn fetch(
        &self,
        node: Address,
        known: Option<Revision>,
    ) -> impl Future<Output = Result<Option<ClusterConfig>, FetchError>> + Send {
        self(node, known)
    }
}

//! How a node is asked.

use std::future::Future;

use crate::cluster_config::{Address, ClusterConfig, Revision};

/// Why a node could not be asked. Reported, and otherwise of no consequence: the next node is
/// asked.
pub type FetchError = Box<dyn std::error::Error + Send + Sync>;

/// Asks one node for its configuration: GET_CLUSTER_CONFIG, over a connection of the client's own.
///
/// It is dropped when it takes too long, or when the node fails meanwhile. Send it without retries
/// (RFC 0049, Fail Fast). Closures `Fn(Address, Option<Revision>) -> Future` implement it.
pub trait FetchConfig: Send + Sync + 'static {
    /// Asks this node. `known` is the revision in force, which a newer server takes as "only if you
    /// have a newer one"; it then answers with an empty body, which is `Ok(None)`.
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

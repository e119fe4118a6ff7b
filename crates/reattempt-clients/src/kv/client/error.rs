//! Errors of connecting to a node and of requests without a response.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use reattempt_couchbase::kv::{Opcode, Status};

use crate::kv::frame::FrameError;

/// Whether a request may have reached the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendStage {
    /// No byte was sent; sending it again is always safe.
    NeverSent,
    /// At least its first byte was written to the socket and no response arrived.
    InFlight,
}

/// Why a connection ended.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// The server closed it between two frames.
    #[error("the server closed the connection")]
    Closed,
    /// The server closed it in the middle of a frame.
    #[error("the server closed the connection after {received} bytes of a frame")]
    MidFrame {
        /// The number of received bytes of the frame.
        received: usize,
    },
    /// The network failed.
    #[error("the connection failed: {0}")]
    Io(Arc<io::Error>),
    /// The server violated the protocol; later input cannot be trusted.
    #[error("the server broke the protocol: {0}")]
    Protocol(FrameError),
    /// The server responded with another opcode than requested.
    #[error("the server answered opcode {:#04x} with {:#04x}", asked.0, answered.0)]
    WrongOpcode {
        /// The requested opcode.
        asked: Opcode,
        /// The opcode of the response.
        answered: Opcode,
    },
    /// Nothing was received for this long after a request was sent
    /// ([`ClientOptions::read_timeout`](super::ClientOptions::read_timeout)).
    #[error("the server was silent for {limit:?}")]
    Silent {
        /// The limit.
        limit: Duration,
    },
    /// This side closed it.
    #[error("the connection was closed on this side")]
    Local,
}

/// Why a request got no response. Cheap to clone.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection to the node failed.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The node.
        address: Arc<str>,
        /// The I/O error.
        source: Arc<io::Error>,
    },
    /// Connecting and bootstrap took too long.
    #[error("no connection to {address} within {limit:?}")]
    ConnectTimeout {
        /// The node.
        address: Arc<str>,
        /// The limit.
        limit: Duration,
    },
    /// The connection was lost during bootstrap.
    #[error("lost the connection to {address} at {operation}: {reason}")]
    BootstrapClosed {
        /// The node.
        address: Arc<str>,
        /// The bootstrap operation.
        operation: Opcode,
        /// Why the connection ended.
        reason: CloseReason,
    },
    /// The node refused the login.
    #[error("{address} refused the login: {problem}")]
    Auth {
        /// The node.
        address: Arc<str>,
        /// The reason; of the node's own text its first 200 characters, control characters escaped.
        problem: Arc<str>,
    },
    /// The node refused a step of the bootstrap.
    #[error("{address} refused {operation} with status {:#04x}", status.0)]
    Bootstrap {
        /// The node.
        address: Arc<str>,
        /// The bootstrap operation.
        operation: Opcode,
        /// The status of its response.
        status: Status,
    },
    /// The connection ended before a byte of the request was sent.
    #[error("not sent to {address}: {reason}")]
    NotSent {
        /// The node.
        address: Arc<str>,
        /// Why the connection ended.
        reason: CloseReason,
    },
    /// The connection ended after the request was sent, at least in part.
    #[error("{address} was lost in flight: {reason}")]
    ClosedInFlight {
        /// The node.
        address: Arc<str>,
        /// Why the connection ended.
        reason: CloseReason,
    },
    /// No node can accept the request.
    #[error("no node for the request: {why}")]
    NoNode {
        /// The vbucket, if known.
        vbucket: Option<u16>,
        /// What is missing.
        why: &'static str,
    },
    /// The request cannot be encoded.
    #[error("the request cannot be written: {0}")]
    Invalid(FrameError),
    /// The collection lookup succeeded without an id.
    #[error("{address} answered the lookup of a collection without an id: nothing was sent")]
    NoCollectionId {
        /// The node.
        address: Arc<str>,
    },
    /// The request names a collection and the connection did not negotiate collections.
    #[error("{address} did not agree to collections, the request names collection {collection:#x}")]
    NoCollections {
        /// The node.
        address: Arc<str>,
        /// The collection id.
        collection: u32,
    },
    /// The request has framing extras and the connection did not negotiate them.
    #[error("{address} did not agree to framing extras, the request has some")]
    NoFramingExtras {
        /// The node.
        address: Arc<str>,
    },
    /// The request names a collection by its path, and no
    /// [`CollectionClient`](crate::kv::CollectionClient) has looked up its id.
    #[error(
        "not sent to {address}: put a CollectionClient around the client, which looks up the id of \
         collection {path:?}"
    )]
    UnresolvedCollection {
        /// The node.
        address: Arc<str>,
        /// The collection as `scope.collection`.
        path: Arc<str>,
    },
}

impl ClientError {
    /// Whether the request may have reached the server.
    pub fn stage(&self) -> SendStage {
        match self {
            ClientError::ClosedInFlight { .. } => SendStage::InFlight,
            _ => SendStage::NeverSent,
        }
    }

    /// The node concerned, if any.
    pub fn address(&self) -> Option<&str> {
        match self {
            ClientError::Connect { address, .. }
            | ClientError::ConnectTimeout { address, .. }
            | ClientError::BootstrapClosed { address, .. }
            | ClientError::Auth { address, .. }
            | ClientError::Bootstrap { address, .. }
            | ClientError::NotSent { address, .. }
            | ClientError::ClosedInFlight { address, .. }
            | ClientError::NoCollectionId { address }
            | ClientError::NoCollections { address, .. }
            | ClientError::NoFramingExtras { address }
            | ClientError::UnresolvedCollection { address, .. } => Some(address),
            ClientError::NoNode { .. } | ClientError::Invalid(_) => None,
        }
    }
}

//! What goes wrong on the way to a node and back.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::kv::frame::FrameError;

/// Whether a request may have reached the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendStage {
    /// Not a byte of it left; sending it again is always safe.
    NeverSent,
    /// At least its first byte was handed to the network and no answer came.
    InFlight,
}

/// Why a connection ended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CloseReason {
    /// The server closed it between two frames.
    #[error("the server closed the connection")]
    Closed,
    /// The server closed it in the middle of a frame.
    #[error("the server closed the connection after {received} bytes of a frame")]
    MidFrame {
        /// How many bytes of the frame had arrived.
        received: usize,
    },
    /// The network failed.
    #[error("the connection failed: {0}")]
    Io(Arc<io::Error>),
    /// The server sent what is not the protocol; nothing after it can be trusted.
    #[error("the server broke the protocol: {0}")]
    Protocol(FrameError),
    /// The server answered a request with another operation than was asked for.
    #[error("the server answered opcode {asked:#04x} with {answered:#04x}")]
    WrongOpcode {
        /// What was asked for.
        asked: u8,
        /// What was answered.
        answered: u8,
    },
    /// This side closed it.
    #[error("the connection was closed on this side")]
    Local,
}

/// Why a request got no answer. Cheap to clone.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No connection to the node.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The node.
        address: Arc<str>,
        /// What the network said.
        source: Arc<io::Error>,
    },
    /// Connecting and setting up took too long.
    #[error("no connection to {address} within {limit:?}")]
    ConnectTimeout {
        /// The node.
        address: Arc<str>,
        /// How long it was waited.
        limit: Duration,
    },
    /// The connection was lost while it was set up.
    #[error("lost the connection to {address} at {operation}: {reason}")]
    BootstrapClosed {
        /// The node.
        address: Arc<str>,
        /// The bootstrap operation.
        operation: &'static str,
        /// Why it ended.
        reason: CloseReason,
    },
    /// The node does not accept the login.
    #[error("{address} refused the login: {problem}")]
    Auth {
        /// The node.
        address: Arc<str>,
        /// What it said.
        problem: String,
    },
    /// The node refused a step of the set-up.
    #[error("{address} refused {operation} with status {status:#04x}")]
    Bootstrap {
        /// The node.
        address: Arc<str>,
        /// The bootstrap operation.
        operation: &'static str,
        /// What it answered.
        status: u16,
    },
    /// The connection ended before a byte of the request left.
    #[error("not sent to {address}: {reason}")]
    NotSent {
        /// The node.
        address: Arc<str>,
        /// Why the connection ended.
        reason: CloseReason,
    },
    /// The connection ended while the request was on its way or being worked on.
    #[error("{address} was lost in flight: {reason}")]
    ClosedInFlight {
        /// The node.
        address: Arc<str>,
        /// Why the connection ended.
        reason: CloseReason,
    },
    /// No node can take the request.
    #[error("no node for the request: {why}")]
    NoNode {
        /// The vbucket, where one was found.
        vbucket: Option<u16>,
        /// What is missing.
        why: &'static str,
    },
    /// The request cannot be written.
    #[error("the request cannot be written: {0}")]
    Invalid(FrameError),
    /// The lookup of a collection succeeded, and named no id.
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
}

impl ClientError {
    /// Whether the request may have reached the server.
    pub fn stage(&self) -> SendStage {
        match self {
            ClientError::ClosedInFlight { .. } => SendStage::InFlight,
            _ => SendStage::NeverSent,
        }
    }

    /// The node it happened with, where there was one.
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
            | ClientError::NoCollections { address, .. } => Some(address),
            ClientError::NoNode { .. } | ClientError::Invalid(_) => None,
        }
    }
}

//! Why a call to the client failed, in enough detail for a classifier.

use std::io;
use std::time::Duration;

use super::ServerError;

/// The label that says a server, or the way to it, has more to do than it can.
pub const SYSTEM_OVERLOADED_ERROR: &str = "SystemOverloadedError";

/// The label that says the failed command had no effect.
pub const RETRYABLE_ERROR: &str = "RetryableError";

/// The part of a call during which it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum During {
    /// `hello` and authentication of a new connection.
    Handshake,
    /// Writing the command.
    Send,
    /// Waiting for the reply, or within it.
    Receive,
}

/// Where a failure comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The server's address.
    pub server: String,
    /// What the server offered on this connection, or to the monitor when there was none.
    pub max_wire_version: Option<i32>,
    /// The client's number of the connection.
    pub connection: Option<u64>,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MongoError {
    /// No suitable server was found in time. Nothing was sent.
    #[error("server selection: {message} (waited {waited:?})")]
    Selection {
        /// What was wanted, and how the servers stood.
        message: String,
        /// How long it was tried.
        waited: Duration,
    },
    /// The pool was cleared while the call waited for a connection. Nothing was sent.
    #[error("{}: the connection pool was cleared", .origin.server)]
    PoolCleared {
        /// Whose pool.
        origin: Origin,
    },
    /// No connection became free in time. Nothing was sent.
    #[error("{}: no connection became free within {waited:?}", .origin.server)]
    WaitQueueTimeout {
        /// Whose pool.
        origin: Origin,
        /// How long the call waited.
        waited: Duration,
    },
    /// The server could not be dialled. Nothing was sent.
    #[error("{}: cannot connect: {message}", .origin.server)]
    Connect {
        /// Who was dialled.
        origin: Origin,
        /// What the socket said.
        kind: io::ErrorKind,
        /// The same in words.
        message: String,
        /// Labels that the client gave it.
        labels: Vec<String>,
    },
    /// The connection broke.
    #[error("{}: network failure during {during:?}: {message}", .origin.server)]
    Network {
        /// Who was at the other end.
        origin: Origin,
        /// When it broke.
        during: During,
        /// What the socket said; an end within a reply is `UnexpectedEof`.
        kind: io::ErrorKind,
        /// The same in words.
        message: String,
        /// Labels that the client gave it.
        labels: Vec<String>,
    },
    /// The socket was silent for too long.
    #[error("{}: timed out during {during:?} after {after:?}", .origin.server)]
    SocketTimeout {
        /// Who was silent.
        origin: Origin,
        /// What was waited for.
        during: During,
        /// `socketTimeoutMS`, or `connectTimeoutMS` in a handshake.
        after: Duration,
        /// Labels that the client gave it.
        labels: Vec<String>,
    },
    /// The server answered with an error.
    #[error("{}: {}", .0.origin.server, .0.told())]
    Server(Box<ServerError>),
    /// The server failed to prove itself, or the password cannot be used.
    #[error("{}: authentication: {message}", .origin.server)]
    Authentication {
        /// Who was spoken to.
        origin: Origin,
        /// What went wrong.
        message: String,
    },
    /// The server sent what cannot be understood.
    #[error("{}: protocol: {message}", .origin.server)]
    Protocol {
        /// Who sent it.
        origin: Origin,
        /// When.
        during: During,
        /// What was wrong, with the byte.
        message: String,
    },
    /// The command cannot be written for this server. Nothing was sent.
    #[error("{}: cannot write the command: {message}", .origin.server)]
    Rebuild {
        /// The server it was to be written for.
        origin: Origin,
        /// What the server lacks.
        message: String,
    },
}

impl MongoError {
    /// Where it comes from; nothing for a failed selection.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        match self {
            Self::Selection { .. } => None,
            Self::Server(error) => Some(&error.origin),
            Self::PoolCleared { origin }
            | Self::WaitQueueTimeout { origin, .. }
            | Self::Connect { origin, .. }
            | Self::Network { origin, .. }
            | Self::SocketTimeout { origin, .. }
            | Self::Authentication { origin, .. }
            | Self::Protocol { origin, .. }
            | Self::Rebuild { origin, .. } => Some(origin),
        }
    }

    /// The address of the server that produced it.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        self.origin().map(|origin| origin.server.as_str())
    }

    /// What that server offered.
    #[must_use]
    pub fn max_wire_version(&self) -> Option<i32> {
        self.origin()?.max_wire_version
    }

    /// The server's error code.
    #[must_use]
    pub fn code(&self) -> Option<i64> {
        match self {
            Self::Server(error) => error.code,
            _ => None,
        }
    }

    /// The server's name of that code, if it gave one.
    #[must_use]
    pub fn code_name(&self) -> Option<&str> {
        match self {
            Self::Server(error) => Some(error.code_name.as_str()).filter(|name| !name.is_empty()),
            _ => None,
        }
    }

    /// The labels that the server or the client gave it.
    #[must_use]
    pub fn labels(&self) -> &[String] {
        match self {
            Self::Server(error) => &error.labels,
            Self::Connect { labels, .. }
            | Self::Network { labels, .. }
            | Self::SocketTimeout { labels, .. } => labels,
            _ => &[],
        }
    }

    /// Whether it carries this label.
    #[must_use]
    pub fn has_label(&self, label: &str) -> bool {
        self.labels().iter().any(|given| given == label)
    }

    /// Whether it happened while a connection was made: dialling, `hello` or authentication.
    #[must_use]
    pub fn in_handshake(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Authentication { .. } => true,
            Self::Network { during, .. }
            | Self::SocketTimeout { during, .. }
            | Self::Protocol { during, .. } => *during == During::Handshake,
            Self::Server(error) => error.stage_handshake,
            _ => false,
        }
    }

    /// Whether the command itself was written to a socket, at least in part.
    #[must_use]
    pub fn was_sent(&self) -> bool {
        match self {
            Self::Network { .. } | Self::SocketTimeout { .. } | Self::Protocol { .. } => {
                !self.in_handshake()
            }
            Self::Server(error) => !error.stage_handshake,
            _ => false,
        }
    }

    pub(super) fn label(&mut self, added: &[&str]) {
        if let Self::Connect { labels, .. }
        | Self::Network { labels, .. }
        | Self::SocketTimeout { labels, .. } = self
        {
            labels.extend(added.iter().map(|label| (*label).to_owned()));
        }
    }
}

//! Errors of the client, in enough detail for a classifier.

use std::io;
use std::time::Duration;

use super::{Origin, ServerError};

/// The phase of a call in which it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum During {
    /// `hello` and authentication of a new connection.
    Handshake,
    /// Writing the command.
    Send,
    /// Waiting for or reading the reply.
    Receive,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MongoError {
    /// No suitable server was found in time. Nothing was sent.
    #[error("server selection: {message} (waited {waited:?})")]
    Selection {
        /// The wanted server, and the state of the known ones.
        message: String,
        /// How long the call waited.
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
        /// The kind of the I/O error.
        kind: io::ErrorKind,
        /// The text of the I/O error.
        message: String,
        /// Labels added by the client.
        labels: Vec<String>,
    },
    /// The connection failed.
    #[error("{}: network failure during {during:?}: {message}", .origin.server)]
    Network {
        /// The server.
        origin: Origin,
        /// The phase of the failure.
        during: During,
        /// The kind of the I/O error; an end within a reply is `UnexpectedEof`.
        kind: io::ErrorKind,
        /// The text of the I/O error.
        message: String,
        /// Labels added by the client.
        labels: Vec<String>,
    },
    /// The server did not respond in time.
    #[error("{}: timed out during {during:?} after {after:?}", .origin.server)]
    SocketTimeout {
        /// The server.
        origin: Origin,
        /// The phase of the timeout.
        during: During,
        /// `socketTimeoutMS`, or `connectTimeoutMS` in a handshake.
        after: Duration,
        /// Labels added by the client.
        labels: Vec<String>,
    },
    /// The server answered with an error.
    #[error("{}: {}", .0.origin.server, .0.described())]
    Server(Box<ServerError>),
    /// The server failed to prove its identity, or the password cannot be used.
    #[error("{}: authentication: {message}", .origin.server)]
    Authentication {
        /// The server.
        origin: Origin,
        /// What went wrong.
        message: String,
    },
    /// The server sent an invalid message.
    #[error("{}: protocol: {message}", .origin.server)]
    Protocol {
        /// The server.
        origin: Origin,
        /// The phase of the failure.
        during: During,
        /// What is wrong, with the byte offset.
        message: String,
    },
    /// The command cannot be encoded for this server. Nothing was sent.
    #[error("{}: cannot write the command: {message}", .origin.server)]
    Rebuild {
        /// The server.
        origin: Origin,
        /// What the server lacks.
        message: String,
    },
    /// The command cannot be encoded for any server: a key with a NUL, or too long. Nothing was
    /// sent.
    #[error("{}: cannot encode the command: {message}", .origin.server)]
    Invalid {
        /// The server that it was for.
        origin: Origin,
        /// What is wrong with it.
        message: String,
    },
}

impl MongoError {
    /// The server and connection of the failure; `None` for a failed selection.
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
            | Self::Rebuild { origin, .. }
            | Self::Invalid { origin, .. } => Some(origin),
        }
    }

    /// The address of the server that produced it.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        self.origin().map(|origin| origin.server.as_str())
    }

    /// The wire version of that server.
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

    /// The server's name of that code, if present.
    #[must_use]
    pub fn code_name(&self) -> Option<&str> {
        match self {
            Self::Server(error) => Some(error.code_name.as_str()).filter(|name| !name.is_empty()),
            _ => None,
        }
    }

    /// The labels of the server or the client.
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

    /// Whether it happened while a connection was established: connecting, `hello` or
    /// authentication.
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

    /// Whether the server was silent for too long.
    pub(super) fn is_timeout(&self) -> bool {
        match self {
            Self::SocketTimeout { .. } => true,
            Self::Connect { kind, .. } | Self::Network { kind, .. } => {
                *kind == io::ErrorKind::TimedOut
            }
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

impl From<ServerError> for MongoError {
    fn from(error: ServerError) -> Self {
        Self::Server(Box::new(error))
    }
}

//! A connection, as the node knows it.

use reattempt_clients::scram::ScramServer;

/// The node's state of one connection.
#[derive(Debug, Default)]
pub(in crate::mongodb::node) struct Peer {
    pub(in crate::mongodb::node) connection: u64,
    /// It has sent the document that says who the client is.
    pub(in crate::mongodb::node) said_who: bool,
    pub(in crate::mongodb::node) login: Login,
}

/// The authentication state of a connection.
#[derive(Debug, Default)]
pub(in crate::mongodb::node) enum Login {
    #[default]
    Out,
    /// Waiting for the proof; the flag is set when the client skips the empty exchange.
    Proof(Box<ScramServer>, bool),
    /// Waiting for the empty exchange.
    Empty,
    In,
}

impl Login {
    pub(super) fn done(&self) -> bool {
        matches!(self, Self::In)
    }
}

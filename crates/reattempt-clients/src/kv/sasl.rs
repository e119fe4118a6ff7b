//! SASL as Couchbase nodes do it: PLAIN and SCRAM.

use crate::scram::{Hash, Rules};

/// A SASL mechanism, with Couchbase's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// The password in plain text.
    Plain,
    /// SCRAM with SHA-1.
    ScramSha1,
    /// SCRAM with SHA-256.
    ScramSha256,
    /// SCRAM with SHA-512.
    ScramSha512,
}

impl Mechanism {
    /// All mechanisms, strongest first.
    pub const BY_STRENGTH: [Mechanism; 4] = [
        Mechanism::ScramSha512,
        Mechanism::ScramSha256,
        Mechanism::ScramSha1,
        Mechanism::Plain,
    ];

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::ScramSha1 => "SCRAM-SHA1",
            Mechanism::ScramSha256 => "SCRAM-SHA256",
            Mechanism::ScramSha512 => "SCRAM-SHA512",
        }
    }

    /// The mechanism with this name on the wire.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::BY_STRENGTH
            .into_iter()
            .find(|mechanism| mechanism.name().as_bytes() == name)
    }

    /// The rules of SCRAM, if it is SCRAM. The fewest iterations are ns_server's default; passwords
    /// are used as they are, as by Couchbase's own clients.
    pub fn scram(self) -> Option<Rules> {
        let hash = match self {
            Mechanism::Plain => return None,
            Mechanism::ScramSha1 => Hash::Sha1,
            Mechanism::ScramSha256 => Hash::Sha256,
            Mechanism::ScramSha512 => Hash::Sha512,
        };
        Some(Rules {
            hash,
            min_iterations: 4000,
            ascii_only: false,
        })
    }

    /// The strongest mechanism of a server's list (names separated by spaces).
    pub fn strongest(list: &[u8]) -> Option<Self> {
        let offered: Vec<&[u8]> = list.split(|byte| *byte == b' ').collect();
        Self::BY_STRENGTH
            .into_iter()
            .find(|mechanism| offered.contains(&mechanism.name().as_bytes()))
    }
}

/// The message of PLAIN (RFC 4616): no authorization id, the name, the password.
pub fn plain_message(username: &str, password: &str) -> Vec<u8> {
    [b"\0", username.as_bytes(), b"\0", password.as_bytes()].concat()
}

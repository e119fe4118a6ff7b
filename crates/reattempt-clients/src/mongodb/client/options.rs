//! The options of a client.

use std::time::Duration;

use crate::blocking::Kept;
use crate::mongodb::wire::PROTOCOL_LIMIT;
use crate::scram::Salted;

/// Which members of a set may answer a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadPreference {
    /// Only the primary.
    #[default]
    Primary,
    /// The primary, or a secondary when there is none.
    PrimaryPreferred,
    /// Only a secondary.
    Secondary,
    /// A secondary, or the primary when there is none.
    SecondaryPreferred,
    /// Any.
    Nearest,
}

impl ReadPreference {
    /// The name in connection strings and commands.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::PrimaryPreferred => "primaryPreferred",
            Self::Secondary => "secondary",
            Self::SecondaryPreferred => "secondaryPreferred",
            Self::Nearest => "nearest",
        }
    }

    /// The mode of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [
            Self::Primary,
            Self::PrimaryPreferred,
            Self::Secondary,
            Self::SecondaryPreferred,
            Self::Nearest,
        ]
        .into_iter()
        .find(|mode| mode.name() == name)
    }
}

/// A user, authenticated by SCRAM-SHA-256.
#[derive(Clone)]
pub struct Credential {
    /// The user's name.
    pub username: String,
    /// The password.
    pub password: String,
    /// The database that knows the user.
    pub source: String,
    /// The derived password, because every connection would pay for it again.
    pub(super) kept: Kept<Salted>,
}

impl Credential {
    /// A user of the database `source`, most often `admin`.
    #[must_use]
    pub fn new(username: &str, password: &str, source: &str) -> Self {
        Self {
            username: username.to_owned(),
            password: password.to_owned(),
            source: source.to_owned(),
            kept: Kept::default(),
        }
    }
}

impl PartialEq for Credential {
    fn eq(&self, other: &Self) -> bool {
        let all = |c: &Self| (c.username.clone(), c.password.clone(), c.source.clone());
        all(self) == all(other)
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the user and the password.
        f.debug_struct("Credential")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// The options of a client. Names are those of connection strings.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ClientOptions {
    /// Servers to ask first, `host:port`.
    pub seeds: Vec<String>,
    /// The only set to talk to.
    pub replica_set: Option<String>,
    /// Connect only to the seed, whatever its role.
    pub direct_connection: bool,
    /// Sent to servers in the handshake.
    pub app_name: Option<String>,
    /// How long to look for a server; default 30 s.
    pub server_selection_timeout: Duration,
    /// Between two looks at a server; default 10 s.
    pub heartbeat_frequency: Duration,
    /// The shortest time between two looks; default 50 ms, where drivers take 500 ms, because
    /// servers on loopback come back sooner.
    pub min_heartbeat: Duration,
    /// How long a new connection may take, with its handshake; default 10 s.
    pub connect_timeout: Duration,
    /// Connections to one server at most; default 100, 0 for no limit.
    pub max_pool_size: usize,
    /// Connections to one server that are opened concurrently, at most; default 2, 0 counts as 1.
    pub max_connecting: usize,
    /// How long to wait for a free connection, or for the opening of one to begin; default for
    /// ever.
    pub wait_queue_timeout: Option<Duration>,
    /// How long a reply may take; default for ever.
    pub socket_timeout: Option<Duration>,
    /// For reads that say nothing else.
    pub read_preference: ReadPreference,
    /// Who logs in.
    pub credential: Option<Credential>,
    /// The largest message taken from a server; default 48,000,000 bytes, the protocol's
    /// own. Its memory is taken as its bytes arrive.
    pub message_limit: usize,
    /// Since 2025: failures to connect or to say hello are given the labels of an overloaded
    /// server and do not clear the pool; the handshake says so. Default off.
    pub overload_labels: bool,
}

impl ClientOptions {
    /// The defaults, for these servers.
    #[must_use]
    pub fn new(seeds: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            seeds: seeds.into_iter().map(Into::into).collect(),
            replica_set: None,
            direct_connection: false,
            app_name: None,
            server_selection_timeout: Duration::from_secs(30),
            heartbeat_frequency: Duration::from_secs(10),
            min_heartbeat: Duration::from_millis(50),
            connect_timeout: Duration::from_secs(10),
            max_pool_size: 100,
            max_connecting: 2,
            wait_queue_timeout: None,
            socket_timeout: None,
            read_preference: ReadPreference::Primary,
            credential: None,
            message_limit: PROTOCOL_LIMIT,
            overload_labels: false,
        }
    }
}

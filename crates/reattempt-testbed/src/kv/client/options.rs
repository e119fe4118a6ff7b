//! How a client connects.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::kv::frame::DEFAULT_MAX_BODY;
use crate::kv::sasl::Mechanism;

/// Called with bytes that a node sent and the node: a host for configurations (it stands in for
/// `$HOST`), `host:port` for error maps.
pub type OnBytes = Arc<dyn Fn(&[u8], &str) + Send + Sync>;

/// What happens on a new connection before requests may use it.
#[derive(Clone, PartialEq, Eq)]
pub enum Bootstrap {
    /// Nothing: a plain memcached, or a node that asks for no login.
    Memcached,
    /// HELLO, GET_ERROR_MAP, SASL, SELECT_BUCKET, GET_CLUSTER_CONFIG.
    Couchbase {
        /// Name and password; without them there is no SASL.
        credentials: Option<(String, String)>,
        /// The bucket; without it none is selected.
        bucket: Option<String>,
        /// The SASL mechanism; `None` takes the strongest one offered that does not send the
        /// password in the clear.
        mechanism: Option<Mechanism>,
    },
}

/// Options of a client. Cheap to clone where it is an `Arc`.
#[derive(Clone)]
#[non_exhaustive]
pub struct ClientOptions {
    /// What happens on a new connection.
    pub bootstrap: Bootstrap,
    /// Most requests without an answer at one time. Default: 1024.
    pub max_in_flight: usize,
    /// How long connecting and setting up may take. Default: 10 s.
    pub connect_timeout: Duration,
    /// Largest body read, in bytes. Default: 21 MiB.
    pub max_body: usize,
    /// What the client calls itself in HELLO.
    pub agent: String,
    /// Whether PLAIN will do where nothing stronger is offered and the node is on this machine.
    /// Default: no.
    pub plain_on_loopback: bool,
    /// Whether a node has offered SCRAM to these options or a clone of them: none is sent the
    /// password in the clear then.
    scram_offered: Arc<AtomicBool>,
    /// Told of every cluster configuration before the answer that carried it is delivered.
    pub on_config: Option<OnBytes>,
    /// Told of the error map of every new connection.
    pub on_error_map: Option<OnBytes>,
}

impl ClientOptions {
    /// Options for connections without any set-up.
    pub fn memcached() -> Self {
        Self {
            bootstrap: Bootstrap::Memcached,
            max_in_flight: 1024,
            connect_timeout: Duration::from_secs(10),
            max_body: DEFAULT_MAX_BODY,
            agent: "reattempt-testbed".to_owned(),
            plain_on_loopback: false,
            scram_offered: Arc::default(),
            on_config: None,
            on_error_map: None,
        }
    }

    /// Options for a bucket of a Couchbase cluster.
    pub fn couchbase(username: &str, password: &str, bucket: &str) -> Self {
        Self {
            bootstrap: Bootstrap::Couchbase {
                credentials: Some((username.to_owned(), password.to_owned())),
                bucket: Some(bucket.to_owned()),
                mechanism: None,
            },
            ..Self::memcached()
        }
    }

    /// Insists on one SASL mechanism.
    pub fn mechanism(mut self, wanted: Mechanism) -> Self {
        if let Bootstrap::Couchbase { mechanism, .. } = &mut self.bootstrap {
            *mechanism = Some(wanted);
        }
        self
    }

    /// Takes PLAIN where nothing stronger is offered, from a node on this machine only: the
    /// password leaves it for no network. Once a node has offered SCRAM, none that offers only
    /// PLAIN gets the password.
    pub fn plain_on_loopback(mut self) -> Self {
        self.plain_on_loopback = true;
        self
    }

    pub(super) fn note_scram(&self) {
        self.scram_offered.store(true, Ordering::Relaxed);
    }

    pub(super) fn was_offered_scram(&self) -> bool {
        self.scram_offered.load(Ordering::Relaxed)
    }

    /// Most requests without an answer at one time, at least 1.
    pub fn max_in_flight(mut self, count: usize) -> Self {
        self.max_in_flight = count.max(1);
        self
    }

    /// How long connecting and setting up may take.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Told of every cluster configuration: the body, and the host that sent it.
    pub fn on_config(mut self, hook: impl Fn(&[u8], &str) + Send + Sync + 'static) -> Self {
        self.on_config = Some(Arc::new(hook));
        self
    }

    /// Told of the error map of every new connection: the body, and `host:port` of the node.
    pub fn on_error_map(mut self, hook: impl Fn(&[u8], &str) + Send + Sync + 'static) -> Self {
        self.on_error_map = Some(Arc::new(hook));
        self
    }
}

impl fmt::Debug for Bootstrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memcached => f.write_str("Memcached"),
            // Without the credentials: they hold a password.
            Self::Couchbase {
                bucket, mechanism, ..
            } => f
                .debug_struct("Couchbase")
                .field("bucket", bucket)
                .field("mechanism", mechanism)
                .finish_non_exhaustive(),
        }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the bootstrap: it holds a password.
        f.debug_struct("ClientOptions")
            .field("max_in_flight", &self.max_in_flight)
            .field("connect_timeout", &self.connect_timeout)
            .field("max_body", &self.max_body)
            .finish_non_exhaustive()
    }
}

//! Connection options.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::blocking::Kept;
use crate::kv::frame::DEFAULT_MAX_BODY;
use crate::kv::sasl::Mechanism;
use crate::scram::Salted;

/// Called with bytes received from a node, and the node: a host for configurations (it replaces
/// `$HOST`), `host:port` for error maps.
pub type OnBytes = Arc<dyn Fn(&[u8], &str) + Send + Sync>;

/// The bootstrap of a new connection.
#[derive(Clone, PartialEq, Eq)]
pub enum Bootstrap {
    /// None: a plain memcached, or a node without login.
    Memcached,
    /// HELLO, GET_ERROR_MAP, SASL, SELECT_BUCKET, GET_CLUSTER_CONFIG.
    Couchbase {
        /// Name and password; `None` skips SASL.
        credentials: Option<(String, String)>,
        /// The bucket; `None` selects none.
        bucket: Option<String>,
        /// The SASL mechanism; `None` uses the strongest one offered that does not send the
        /// password in plain text.
        mechanism: Option<Mechanism>,
    },
}

/// Options of a client.
#[derive(Clone)]
#[non_exhaustive]
pub struct ClientOptions {
    /// The bootstrap of a new connection.
    pub bootstrap: Bootstrap,
    /// Maximum number of requests to one node without a response. A connection and a
    /// [`NodeClient`](super::NodeClient) are not ready above it; a request of a
    /// [`RoutedClient`](super::RoutedClient) waits in its future. Default: 1024.
    pub max_in_flight: usize,
    /// Timeout of connecting and bootstrap. Default: 10 s.
    pub connect_timeout: Duration,
    /// How long a connection may receive nothing after a request was sent, before it is closed: its
    /// requests fail and the next one connects again. Noticed after about twice this time at most.
    /// It has to exceed the time that the server takes for any request. Default: 15 s, more than
    /// the 10 s of a durable write in Couchbase's clients; `Duration::MAX`: never.
    pub read_timeout: Duration,
    /// Maximum body, in bytes. Default: 21 MiB.
    pub max_body: usize,
    /// The client's name in HELLO.
    pub agent: String,
    /// Whether PLAIN is accepted from a node on this machine that offers nothing stronger. Default:
    /// no.
    pub plain_on_loopback: bool,
    /// Whether a node answers a throttled request with status 0x0c and a delay, where it would
    /// otherwise answer late. For a classifier that retries this status
    /// (`KvClassifier::with_current_server_codes`). Default: no.
    pub non_blocking_throttling: bool,
    /// Whether a node has offered SCRAM to these options or a clone of them; from then on no node
    /// is sent the password in plain text.
    scram_offered: Arc<AtomicBool>,
    /// The password as the last login derived it: every connection would pay for it again.
    pub(super) salted: Kept<Salted>,
    /// Called with every cluster configuration, before its response is delivered; not again with
    /// the last one of the same connection.
    pub on_config: Option<OnBytes>,
    /// Called with the error map of every new connection.
    pub on_error_map: Option<OnBytes>,
}

impl ClientOptions {
    /// Options for connections without bootstrap.
    pub fn memcached() -> Self {
        Self {
            bootstrap: Bootstrap::Memcached,
            max_in_flight: 1024,
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(15),
            max_body: DEFAULT_MAX_BODY,
            agent: "reattempt-clients".to_owned(),
            plain_on_loopback: false,
            non_blocking_throttling: false,
            scram_offered: Arc::default(),
            salted: Kept::default(),
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

    /// Requires one SASL mechanism.
    pub fn mechanism(mut self, wanted: Mechanism) -> Self {
        if let Bootstrap::Couchbase { mechanism, .. } = &mut self.bootstrap {
            *mechanism = Some(wanted);
        }
        self
    }

    /// Accepts PLAIN when nothing stronger is offered, only from a node on this machine, so that
    /// the password never crosses a network. Once a node has offered SCRAM, no node that offers
    /// only PLAIN gets the password.
    pub fn plain_on_loopback(mut self) -> Self {
        self.plain_on_loopback = true;
        self
    }

    /// Asks each node to answer a throttled request with status 0x0c, and not to delay its answer.
    pub fn non_blocking_throttling(mut self) -> Self {
        self.non_blocking_throttling = true;
        self
    }

    pub(super) fn note_scram(&self) {
        self.scram_offered.store(true, Ordering::Relaxed);
    }

    pub(super) fn was_offered_scram(&self) -> bool {
        self.scram_offered.load(Ordering::Relaxed)
    }

    /// Sets the maximum number of requests to one node without a response, at least 1.
    pub fn max_in_flight(mut self, count: usize) -> Self {
        self.max_in_flight = count.max(1);
        self
    }

    /// Sets the timeout of connecting and bootstrap.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Sets how long a connection may receive nothing after a request was sent.
    pub fn read_timeout(mut self, limit: Duration) -> Self {
        self.read_timeout = limit;
        self
    }

    /// Sets a hook for every cluster configuration: the body, and the host that sent it. What a
    /// connection repeats is left out.
    pub fn on_config(mut self, hook: impl Fn(&[u8], &str) + Send + Sync + 'static) -> Self {
        self.on_config = Some(Arc::new(hook));
        self
    }

    /// Sets a hook for the error map of every new connection: the body, and `host:port` of the
    /// node.
    pub fn on_error_map(mut self, hook: impl Fn(&[u8], &str) + Send + Sync + 'static) -> Self {
        self.on_error_map = Some(Arc::new(hook));
        self
    }
}

impl fmt::Debug for Bootstrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memcached => f.write_str("Memcached"),
            // Without the credentials, which contain a password.
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
        // Without the bootstrap, which contains a password.
        f.debug_struct("ClientOptions")
            .field("max_in_flight", &self.max_in_flight)
            .field("connect_timeout", &self.connect_timeout)
            .field("read_timeout", &self.read_timeout)
            .field("max_body", &self.max_body)
            .finish_non_exhaustive()
    }
}

//! Detects an outdated configuration from key-value responses (RFC 0024; RFC 0013, fetch-config).

use std::future;
use std::sync::Arc;

use reattempt::config_poll::StaleConfig;
use reattempt::{Backend, ConfigWaiter};

use super::vbucket::KeyHash;
use super::{Address, ClusterConfig, ConfigPoller, ConfigStore, Refreshing, Service, Swapped};
use crate::kv::{KvAnswer, KvRequest, KvTransportError, Status};

/// Detects an outdated configuration and gets a newer one, for `ConfigPollLayer`.
///
/// - A status 0x07 with a configuration in its body: the configuration is offered to the store
///   first. If the key's node or vbucket has changed then, the request is retried at once.
/// - A status 0x07 with an empty or unreadable body, an unknown status with `fetch-config` in the
///   error map, and an attempt without a response: another node is polled. If that moves the key,
///   the request is retried at once, otherwise the back-off continues.
///
/// A newer configuration from elsewhere during the back-off (another call's error, or a poll) has
/// the same effect: if it moves the key, the request is retried at once. The exception is a call
/// whose next delay would pass its deadline: it waits for the deadline, and is not sent again by a
/// newer configuration (RFC 0049, Capping).
///
/// The client has to select each attempt's node with the same store.
#[derive(Clone, Debug)]
pub struct StaleKvConfig {
    poller: ConfigPoller,
    current_server_codes: bool,
}

/// What is remembered of a request: its key's hash, and the configuration that it was sent with.
#[derive(Clone, Debug)]
pub struct KvNote {
    key: Option<KeyHash>,
    config: Option<Arc<ClusterConfig>>,
    /// The node of an attempt without an answer; also of one with an answer if there was no
    /// configuration yet: the first one arrived while the request waited for a connection. It may
    /// not be the key's: a vbucket is moving, or a collection was looked up. Boxed, because hardly
    /// any attempt has one, and each moves its note.
    went_to: Option<Box<Address>>,
}

impl StaleKvConfig {
    /// Refreshes through this poller.
    #[must_use]
    pub const fn new(poller: ConfigPoller) -> Self {
        Self {
            poller,
            current_server_codes: false,
        }
    }

    /// Also refreshes on 0x0d (`ECONFIG_ONLY`). Use it with
    /// [`KvClassifier::with_current_server_codes`](crate::KvClassifier::with_current_server_codes).
    #[must_use]
    pub const fn with_current_server_codes(mut self) -> Self {
        self.current_server_codes = true;
        self
    }

    pub(crate) const fn poller(&self) -> &ConfigPoller {
        &self.poller
    }

    fn store(&self) -> &ConfigStore {
        self.poller.store()
    }

    /// The key's vbucket and node in this configuration.
    fn owner(&self, key: KeyHash, config: Option<&ClusterConfig>) -> Option<(u16, Address)> {
        let config = config?;
        let route = config.vbuckets()?.route_hash(key)?;
        let node = config.nodes().get(route.node?)?;
        let network = self.poller.network(config);
        let address = node.address(Service::Kv, self.poller.tls(), &network)?;
        Some((route.vbucket, address))
    }

    /// True if the key belongs to another node or vbucket now.
    fn moved(&self, note: &KvNote, now: Option<&ClusterConfig>) -> bool {
        let Some(key) = note.key else { return false };
        let Some(owner) = self.owner(key, now) else {
            return false;
        };
        match (&note.config, &note.went_to) {
            (None, Some(node)) => owner.1 != **node,
            // The node of the request is unknown, so the key cannot be said to have moved.
            (None, None) => false,
            (Some(config), _) => self.owner(key, Some(config)) != Some(owner),
        }
    }

    /// Offers the body to the store; false if it is not a readable configuration of its bucket.
    fn apply(&self, body: &[u8], node: Option<Address>) -> bool {
        if body.is_empty() {
            return false;
        }
        let host = node.as_ref().map_or("", Address::host);
        match self.poller.refused().parse(body, host) {
            Ok(config) => self.store().compare_and_swap(config) != Swapped::OtherBucket,
            Err(error) => {
                let node = node.map(tracing::field::display);
                tracing::debug!(node, %error, "rejected the configuration in a not-my-vbucket response");
                false
            }
        }
    }

    /// Ready with `true` as soon as the key has moved, whatever caused the update. A request
    /// without a key cannot move: `false` when the refresh has completed.
    fn waiter(&self, note: KvNote, refreshing: Option<Refreshing>) -> Option<ConfigWaiter> {
        if note.key.is_none() {
            let mut refreshing = refreshing?;
            return Some(Box::pin(async move {
                refreshing.done().await;
                false
            }));
        }
        let mut changes = self.store().watch();
        if self.moved(&note, changes.borrow_and_update().as_deref()) {
            return Some(Box::pin(future::ready(true)));
        }
        let stale = self.clone();
        Some(Box::pin(async move {
            // Continues after the refresh: an error of another call may find the new configuration
            // during this call's back-off.
            while changes.changed().await.is_ok() {
                if stale.moved(&note, changes.borrow_and_update().as_deref()) {
                    return true;
                }
            }
            false
        }))
    }
}

impl<Req, Res, Err> StaleConfig<Req, Res, Err> for StaleKvConfig
where
    Req: KvRequest,
    Res: KvAnswer,
    Err: KvTransportError,
{
    type Note = KvNote;

    fn note(&self, request: &Req) -> KvNote {
        KvNote {
            key: request.key().map(KeyHash::of),
            config: self.store().load(),
            went_to: None,
        }
    }

    fn sent_to(&self, note: &mut KvNote, backend: &Backend) {
        let node: Option<Address> = backend.as_str().parse().ok();
        // A transport may name it in another way than the configuration.
        let known = node.filter(|node| {
            note.config.as_deref().is_none_or(|config| {
                let network = self.poller.network(config);
                let mut all = config.addresses(Service::Kv, self.poller.tls(), &network);
                all.any(|known| known == *node)
            })
        });
        note.went_to = known.map(Box::new);
    }

    fn check(&self, mut note: KvNote, outcome: Result<&Res, &Err>) -> Option<ConfigWaiter> {
        let of_key = |note: &KvNote| self.owner(note.key?, note.config.as_deref());
        let of_key = |note: &KvNote| of_key(note).map(|(_, node)| node);
        let refreshing = match outcome {
            Ok(answer) => {
                let status = Status(answer.status());
                let asks = match status {
                    Status::SUCCESS => return None,
                    Status::NOT_MY_VBUCKET => {
                        !self.apply(answer.value(), answer.node().or_else(|| of_key(&note)))
                    }
                    Status::ECONFIG_ONLY if self.current_server_codes => true,
                    _ if status.attributes(answer.error_map()).fetch_config() => true,
                    _ => return None,
                };
                let node = answer.node().filter(|_| note.config.is_none());
                note.went_to = node.map(Box::new);
                // The node has answered, so it can be polled like any other.
                asks.then(|| self.poller.refresh(None)).flatten()
            }
            Err(error) if error.is_fatal() => return None,
            Err(error) => {
                note.went_to = error.node().map(Box::new).or(note.went_to);
                let failed = note.went_to.as_deref().cloned();
                let failed = failed.or_else(|| of_key(&note));
                self.poller.refresh(failed.as_ref())
            }
        };
        self.waiter(note, refreshing)
    }
}

//! Key-value calls: the layers of RFC 0049 and RFC 0024 around the small client of the testbed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reattempt::{Call, ClientError, HasCallContext, Idempotency};
use reattempt_clients::kv::client::{ClientOptions, KvRequest, LookupSpec};
use reattempt_clients::kv::{self, KvResponse, RoutedClient};
use reattempt_couchbase::cluster_config::NetworkChoice;
use reattempt_couchbase::kv::Status;
use reattempt_couchbase::{
    Address, ConfigPoller, ConfigPollerOptions, ConfigStore, ErrorMapStrategy, ErrorMaps,
    KvClientLayer, KvStrategy,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tower::util::BoxCloneSyncService;
use tower::{ServiceBuilder, ServiceExt};

use super::answer::{Answer, Shown, Timeout};
use super::attempts::{Ending, JournalLayer, JournalObserver};
use super::couchbase_strategy;
use super::document::{Base64, Document, Fields, Head, Millis, OneOrMany, Setup, Whole};
use super::schedule::{Caller, Plan, unless_cancelled};
use super::story::Story;
use super::user_info::{self, UserInfo};

type Stack = BoxCloneSyncService<Call<KvRequest>, KvResponse, ClientError<kv::ClientError>>;

/// Calls one cluster, or memcached servers.
#[derive(Debug)]
pub(crate) struct KvCaller {
    stack: Stack,
    store: ConfigStore,
}

/// The fields of one call.
#[derive(Clone, Debug)]
pub(crate) struct KvCall {
    request: KvRequest,
    idempotency: Idempotency,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Bootstrap {
    #[default]
    Couchbase,
    Memcached,
}

/// The client settings of the document.
struct Settings {
    client: ClientOptions,
    addresses: Vec<Address>,
    bootstrap: Bootstrap,
    strategy: KvStrategy,
    current_server_codes: bool,
    poll_interval: Option<Duration>,
    poll_floor: Option<Duration>,
}

impl Settings {
    fn read(setup: &Setup, fields: &mut Fields) -> Option<Self> {
        let bootstrap = fields.or("bootstrap", Bootstrap::default());
        let bucket = fields.or("bucket", String::new());
        let mut username = fields.or("username", String::new());
        // The parser's own error would repeat the value.
        let password = fields.text("password");
        let password = password.map_or(Ok(String::new()), |text| serde_json::from_str(&text));
        let password = password.map_err(|_| "must be a text");
        let mut password = fields.accept("password", password).unwrap_or_default();
        let target = setup.target.as_ref();
        let nodes = target.and_then(|target| fields.accept("target", nodes(target, bootstrap)));
        let strategy = couchbase_strategy::read(fields);
        let current_server_codes = fields.or("current_server_codes", false);
        let mut time = |name| fields.optional(name).map(|Millis(time)| time);
        let poll_interval = time("config_poll_interval_ms");
        let poll_floor = time("config_poll_floor_ms");
        let (addresses, info) = nodes?;
        // The document's own fields take precedence: its password is that of the target's user.
        if let Some(info) = info.filter(|_| username.is_empty()) {
            username = info.user;
            if password.is_empty() {
                password = info.password;
            }
        }
        if username.is_empty() && !password.is_empty() && bootstrap == Bootstrap::Couchbase {
            fields.warn(fields.fault("password", "has no effect without a user"));
        }
        let client = match bootstrap {
            Bootstrap::Memcached => ClientOptions::memcached(),
            Bootstrap::Couchbase => {
                let options = ClientOptions::couchbase(&username, &password, &bucket);
                let mut options = options.plain_on_loopback();
                if let kv::Bootstrap::Couchbase {
                    credentials,
                    bucket: selected,
                    ..
                } = &mut options.bootstrap
                {
                    // The login needs a user name, and SELECT_BUCKET a bucket, in the document.
                    credentials.take_if(|_| username.is_empty());
                    selected.take_if(|_| bucket.is_empty());
                }
                options
            }
        };
        Some(Self {
            client,
            addresses,
            bootstrap,
            strategy,
            current_server_codes,
            poll_interval,
            poll_floor,
        })
    }

    /// With an alternate address as seed, the other nodes are reached by their alternate addresses.
    fn network(&self) -> NetworkChoice {
        NetworkChoice::by_seeds(self.addresses.iter().cloned())
    }

    fn poller(
        &self,
        setup: &Setup,
        store: &ConfigStore,
        client: &RoutedClient,
        network: NetworkChoice,
    ) -> ConfigPoller {
        let mut options = ConfigPollerOptions::new()
            .seeds(self.addresses.iter().cloned())
            .network(network)
            .first_from_client()
            .randomness(setup.randomness.clone());
        if let Some(interval) = self.poll_interval {
            options = options.interval(interval);
        }
        if let Some(floor) = self.poll_floor {
            options = options.floor(floor);
        }
        ConfigPoller::spawn(store.clone(), kv::fetch_over(client.clone()), options)
    }

    /// Routing is below the layers, so that a retry goes where the newest configuration points.
    fn stack(&self, setup: &Setup, store: &ConfigStore) -> Stack {
        let maps = ErrorMaps::new();
        let mut client = self.client.clone();
        client.non_blocking_throttling = self.current_server_codes;
        let client = client
            // The load bounds the calls in flight, and a call that is due is sent.
            .max_in_flight(usize::MAX)
            .on_config(kv::offer_to(store.clone()))
            .on_error_map(kv::keep_in(maps.clone()));
        let network = self.network();
        let routed = RoutedClient::new(
            self.addresses.iter().map(ToString::to_string),
            client,
            kv::map_in(store.clone(), network.clone()),
        );
        let mut layer = match self.bootstrap {
            Bootstrap::Couchbase => KvClientLayer::new(self.poller(setup, store, &routed, network)),
            Bootstrap::Memcached => KvClientLayer::without_config_poll(),
        };
        if self.current_server_codes {
            layer = layer.with_current_server_codes();
        }
        let strategy = self
            .strategy
            .make(setup.on_deadline_or_cap(), |best_effort| {
                Arc::new(ErrorMapStrategy::new(maps).otherwise(best_effort))
            });
        let layer = layer
            .no_timeout()
            .strategy(strategy)
            .observer(Arc::new(JournalObserver));
        let service = ServiceBuilder::new()
            .layer(layer)
            .layer(JournalLayer)
            .layer(kv::StageLayer::new())
            .service(routed);
        BoxCloneSyncService::new(service)
    }
}

/// The nodes, and the user of the target.
type Nodes = (Vec<Address>, Option<UserInfo>);

/// Reads the target; all nodes with a user must have the same one.
fn nodes(target: &OneOrMany, bootstrap: Bootstrap) -> Result<Nodes, String> {
    let (mut seeds, mut named) = (Vec::new(), None);
    let target = target.clone().into_vec();
    for seed in &target {
        let (info, seed) = user_info::split(seed)?;
        seeds.push(seed);
        match (info, &named) {
            (Some(info), Some(other)) if info != *other => {
                return Err("names two users, and a cluster is logged in to as one".to_owned());
            }
            (Some(info), _) => named = Some(info),
            (None, _) => {}
        }
    }
    if named.is_some() && bootstrap == Bootstrap::Memcached {
        let what = "memcached servers are not logged in to: leave the user and the password out";
        return Err(what.to_owned());
    }
    let addresses = seeds.into_iter().map(|seed| {
        let address = seed.parse::<Address>();
        address.map_err(|error| format!("{}: {error}", user_info::shown(seed)))
    });
    let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
    if addresses.is_empty() {
        return Err("names no node".to_owned());
    }
    Ok((addresses, named))
}

pub(crate) fn plan(mut document: Document) -> Option<Plan<KvCaller>> {
    let settings = Settings::read(&document.setup, &mut document.rest);
    let setup = document.setup.clone();
    let caller = || {
        let store = ConfigStore::new();
        let stack = settings?.stack(&setup, &store);
        Some(KvCaller { stack, store })
    };
    Plan::new(document, caller, read)
}

/// Makes a request of a key, a value and a CAS.
type Make = fn(String, Bytes, u64) -> KvRequest;

/// The operations of a call by name.
pub(super) const OPERATIONS: [(&str, Make); 15] = [
    ("get", |key, _, _| KvRequest::get(key)),
    ("set", |key, value, _| KvRequest::set(key, value, 0, 0)),
    ("add", |key, value, _| KvRequest::add(key, value, 0, 0)),
    ("replace", |key, value, _| {
        KvRequest::replace(key, value, 0, 0)
    }),
    ("delete", |key, _, _| KvRequest::delete(key)),
    ("append", |key, value, _| KvRequest::append(key, value)),
    ("increment", |key, _, _| KvRequest::increment(key, 1, 1, 0)),
    ("touch", |key, _, _| KvRequest::touch(key, 0)),
    ("get_and_touch", |key, _, _| {
        KvRequest::get_and_touch(key, 0)
    }),
    ("get_and_lock", |key, _, _| KvRequest::get_and_lock(key, 0)),
    ("unlock", |key, _, cas| KvRequest::unlock(key, cas)),
    ("noop", |_, _, _| KvRequest::noop()),
    ("lookup_in", |key, _, _| {
        KvRequest::lookup_in(key, [LookupSpec::Document])
    }),
    ("observe", |key, _, _| KvRequest::observe(key)),
    ("get_collection_id", |key, _, _| {
        KvRequest::get_collection_id(key)
    }),
];

fn read(fields: &mut Fields) -> Option<KvCall> {
    let op = fields.operation(OPERATIONS);
    let key: String = fields.or("key", String::new());
    if key.is_empty() && op.is_some_and(|(name, _)| name != "noop") {
        fields.wrong("key", "is required");
    }
    let value: Bytes = fields.or("value", Base64::default()).0;
    let cas = fields.optional("cas").map(|Whole(cas)| cas);
    let idempotency = match fields.optional("idempotent") {
        None => Idempotency::Unknown,
        Some(true) => Idempotency::Idempotent,
        Some(false) => Idempotency::NotIdempotent,
    };
    let (_, make) = op?;
    let request = make(key, value, cas.unwrap_or(0));
    Some(KvCall {
        request: match cas {
            Some(cas) => request.with_cas(cas),
            None => request,
        },
        idempotency,
    })
}

/// A status for people, with its name if it is known.
fn status_line(status: i32) -> String {
    let known = u16::try_from(status).ok().map(Status);
    match known.and_then(Status::name) {
        Some(name) => format!("status {status:#04x} ({name})"),
        None => format!("status {status:#04x}"),
    }
}

impl Caller for KvCaller {
    type Call = KvCall;

    async fn call(&self, head: Head, call: KvCall) -> Answer {
        let mut request = Call::new(call.request);
        request.context_mut().set_idempotency(call.idempotency);
        let story = Story::begin(&head, &mut request);
        let outcome = unless_cancelled(&head, self.stack.clone().oneshot(request)).await;
        // Most strategies try until the deadline, whose error does not say what went wrong.
        let last = story
            .journal
            .error()
            .map(|error| format!("; the last failure: {error}"));
        let (ending, timeout, error) = match &outcome {
            None => (Ending::Cancelled, None, Some("the caller left".to_owned())),
            // The attempt's verdict states whether the status is a failure.
            Some(Ok(_)) => (Ending::Success, None, None),
            Some(Err(error)) => match error.elapsed() {
                Some(elapsed) => (
                    Ending::Deadline,
                    Some(Timeout::from(elapsed)),
                    Some(format!("{error}{}", last.unwrap_or_default())),
                ),
                None => (Ending::Failure, None, Some(error.to_string())),
            },
        };
        let failures = story.journal.failures();
        let last_failure = failures.iter().rev().find_map(|failure| failure.code);
        let answered = outcome.and_then(Result::ok);
        let status = answered
            .as_ref()
            .map(|answer| i32::from(answer.status.0))
            .or(last_failure);
        let mut answer = story.end(head.call, ending);
        answer.timeout = timeout;
        answer.error = error;
        if let Some(status) = status {
            answer.for_people.push(Shown::Text(status_line(status)));
        }
        let cas = answered.as_ref().map(|answer| answer.cas);
        let value = answered.map(KvResponse::into_value);
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            answer.for_people.push(Shown::Bytes(value.clone()));
        }
        let revision = self.store.revision();
        let answer = match value {
            Some(value) => answer.with_bytes("value", value),
            None => answer.with("value", Value::Null),
        };
        answer.with("status", status).with("cas", cas).with(
            "config_revision",
            revision.map_or(Value::Null, |revision| {
                json!([revision.epoch, revision.rev])
            }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_the_name_of_a_status_that_is_known() {
        assert_eq!(status_line(0x01), "status 0x01 (KEY_ENOENT)");
        assert_eq!(status_line(0x7fff), "status 0x7fff");
    }
}

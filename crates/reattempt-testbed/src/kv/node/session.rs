//! The state of one connection of the node (features, user, bucket), and the bootstrap requests.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use reattempt_clients::kv::feature::{
    FEATURE_ALT_REQUEST, FEATURE_COLLECTIONS, FEATURE_DEDUPE_NMVB, FEATURE_JSON,
    FEATURE_KNOWN_VERSION, FEATURE_NON_BLOCKING_THROTTLING, FEATURE_SELECT_BUCKET,
    FEATURE_TCP_NODELAY, FEATURE_TRACING, FEATURE_UNORDERED, FEATURE_XERROR,
};
use reattempt_clients::kv::frame::{DATATYPE_JSON, Frame};
use reattempt_clients::kv::sasl::Mechanism;
use reattempt_clients::scram::{Salted, ScramError, ScramServer, Stored};
use reattempt_couchbase::kv::{Opcode, Status};

use super::reply::Reply;
use super::shared::Shared;

/// The features that a node grants by default.
pub(super) const FEATURES: [u16; 11] = [
    FEATURE_TCP_NODELAY,
    FEATURE_XERROR,
    FEATURE_SELECT_BUCKET,
    FEATURE_JSON,
    FEATURE_UNORDERED,
    FEATURE_TRACING,
    FEATURE_ALT_REQUEST,
    FEATURE_COLLECTIONS,
    FEATURE_NON_BLOCKING_THROTTLING,
    FEATURE_KNOWN_VERSION,
    FEATURE_DEDUPE_NMVB,
];

/// Whether this operation belongs to connection bootstrap, which here includes the first
/// configuration.
pub(super) fn is_bootstrap(opcode: Opcode) -> bool {
    opcode.is_bootstrap() || opcode == Opcode::GET_CLUSTER_CONFIG
}

/// The state of one connection.
#[derive(Debug)]
pub(super) struct Session {
    node: usize,
    features: Vec<u16>,
    scram: Option<ScramServer>,
    authenticated: bool,
    bucket: bool,
    config_sent: Option<(i64, i64)>,
}

impl Session {
    pub(super) fn new(node: usize) -> Self {
        Self {
            node,
            features: Vec::new(),
            scram: None,
            authenticated: false,
            bucket: false,
            config_sent: None,
        }
    }

    pub(super) fn has(&self, feature: u16) -> bool {
        self.features.contains(&feature)
    }

    /// The status that refuses data on this connection; only for nodes that require a login.
    pub(super) fn refuses_data(&self, shared: &Shared) -> Option<Status> {
        if !shared.settings.require_auth {
            return None;
        }
        match (self.authenticated, self.bucket) {
            (false, _) => Some(Status::EACCESS),
            (true, false) => Some(Status::NO_BUCKET),
            (true, true) => None,
        }
    }

    /// Status 0x07 with the configuration, if this connection may receive it.
    pub(super) fn not_my_vbucket(&mut self, shared: &Shared) -> Reply {
        let reply = Reply::status(Status::NOT_MY_VBUCKET);
        let revision = shared.revision();
        if self.has(FEATURE_DEDUPE_NMVB) && self.config_sent.is_some_and(|sent| sent >= revision) {
            return reply;
        }
        self.config_sent = Some(revision);
        Reply {
            value: shared.config_json(self.node, true),
            datatype: DATATYPE_JSON,
            ..reply
        }
    }

    /// Answers a bootstrap request.
    pub(super) fn bootstrap(&mut self, shared: &Shared, frame: &Frame) -> Reply {
        match frame.opcode {
            Opcode::HELLO => self.hello(shared, frame.value.clone()),
            Opcode::GET_ERROR_MAP => match &shared.settings.error_map {
                Some(_) if frame.value.len() != 2 => Reply::status(Status::EINVAL),
                Some(map) => Reply {
                    datatype: DATATYPE_JSON,
                    ..Reply::value(map.clone())
                },
                None => Reply::status(Status::UNKNOWN_COMMAND),
            },
            Opcode::SASL_LIST_MECHS => {
                let names: Vec<_> = shared
                    .settings
                    .mechanisms
                    .iter()
                    .map(|m| m.name())
                    .collect();
                Reply::value(names.join(" "))
            }
            Opcode::SASL_AUTH => self.sasl_auth(shared, frame),
            Opcode::SASL_STEP => self.sasl_step(frame),
            Opcode::SELECT_BUCKET => {
                if shared.settings.require_auth && !self.authenticated {
                    return Reply::status(Status::EACCESS);
                }
                self.bucket = frame.key == shared.settings.bucket.as_bytes();
                Reply::status(if self.bucket {
                    Status::SUCCESS
                } else {
                    Status::KEY_ENOENT
                })
            }
            Opcode::GET_CLUSTER_CONFIG => self.cluster_config(shared, frame.extras.clone()),
            _ => Reply::status(Status::UNKNOWN_COMMAND),
        }
    }

    fn hello(&mut self, shared: &Shared, mut asked: Bytes) -> Reply {
        if asked.len() % 2 != 0 {
            return Reply::status(Status::EINVAL);
        }
        self.features.clear();
        let mut granted = BytesMut::new();
        while asked.has_remaining() {
            let feature = asked.get_u16();
            if shared.settings.features.contains(&feature) && !self.features.contains(&feature) {
                self.features.push(feature);
                granted.put_u16(feature);
            }
        }
        Reply::value(granted)
    }

    fn sasl_auth(&mut self, shared: &Shared, frame: &Frame) -> Reply {
        let settings = &shared.settings;
        self.authenticated = false;
        self.scram = None;
        let offered = |mechanism: &Mechanism| settings.mechanisms.contains(mechanism);
        let Some(mechanism) = Mechanism::from_name(&frame.key).filter(offered) else {
            return Reply::status(Status::AUTH_ERROR);
        };
        let Some(rules) = mechanism.scram() else {
            let mut parts = frame.value.split(|byte| *byte == 0).skip(1);
            let right = parts.next() == Some(settings.username.as_bytes())
                && parts.next() == Some(settings.password.as_bytes());
            self.authenticated = right;
            return Reply::status(if right {
                Status::SUCCESS
            } else {
                Status::AUTH_ERROR
            });
        };
        let salt: [u8; 16] = rand::random();
        let nonce = format!("{:016x}", rand::random::<u64>());
        let begin = || {
            let user = ScramServer::user(&frame.value)?;
            // The minimum that clients accept, because tests log in often.
            let iterations = rules.min_iterations;
            let salted = Salted::derive(rules, &settings.password, &salt, iterations)?;
            let server = ScramServer::new(&frame.value, &nonce, Stored::of(&salted))?;
            Ok::<_, ScramError>((user, server))
        };
        match begin() {
            Ok((user, server)) => {
                let first = server.first();
                // An unknown name fails in the next step: this answer does not show who exists.
                self.scram = (user == settings.username).then_some(server);
                Reply {
                    status: Status::AUTH_CONTINUE,
                    ..Reply::value(first)
                }
            }
            Err(_) => Reply::status(Status::AUTH_ERROR),
        }
    }

    fn sasl_step(&mut self, frame: &Frame) -> Reply {
        let finished = self
            .scram
            .take()
            .and_then(|scram| scram.finish(&frame.value).ok());
        match finished {
            Some(message) => {
                self.authenticated = true;
                Reply::value(message)
            }
            None => Reply::status(Status::AUTH_ERROR),
        }
    }

    fn cluster_config(&mut self, shared: &Shared, mut known: Bytes) -> Reply {
        if shared.settings.require_auth && !self.authenticated {
            return Reply::status(Status::EACCESS);
        }
        let revision = shared.revision();
        match known.len() {
            0 => {}
            16 if !self.has(FEATURE_KNOWN_VERSION) => return Reply::status(Status::EINVAL),
            16 if (known.get_i64(), known.get_i64()) >= revision => return Reply::ok(),
            16 => {}
            _ => return Reply::status(Status::EINVAL),
        }
        self.config_sent = Some(revision);
        // Without a selected bucket, a node with buckets sends the configuration of the cluster. A
        // node without required login sends that of its bucket.
        let bucket = self.bucket || !shared.settings.require_auth;
        let body = shared.config_json(self.node, bucket);
        Reply {
            datatype: DATATYPE_JSON,
            ..Reply::value(body)
        }
    }
}

//! Connection bootstrap: HELLO, GET_ERROR_MAP, SASL, SELECT_BUCKET, GET_CLUSTER_CONFIG.
//!
//! Requests that do not depend on an earlier response are sent together. A node without HELLO or
//! error map is used without it; a node that refuses the login or the bucket is not used.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use reattempt_couchbase::cluster_config;
use reattempt_couchbase::kv::{Opcode, Status, error_map};

use crate::kv::feature::{
    FEATURE_ALT_REQUEST, FEATURE_COLLECTIONS, FEATURE_JSON, FEATURE_KNOWN_VERSION,
    FEATURE_NON_BLOCKING_THROTTLING, FEATURE_SELECT_BUCKET, FEATURE_TCP_NODELAY, FEATURE_TRACING,
    FEATURE_UNORDERED, FEATURE_XERROR,
};
use crate::kv::frame::{Frame, FrameError, Magic};
use crate::kv::sasl::Mechanism;

use super::error::{ClientError, CloseReason};
use super::options::{Bootstrap, ClientOptions};

/// The requested features, the last one only by [`ClientOptions::non_blocking_throttling`].
const FEATURES: [u16; 10] = [
    FEATURE_TCP_NODELAY,
    FEATURE_XERROR,
    FEATURE_SELECT_BUCKET,
    FEATURE_JSON,
    FEATURE_UNORDERED,
    FEATURE_TRACING,
    FEATURE_ALT_REQUEST,
    FEATURE_COLLECTIONS,
    FEATURE_KNOWN_VERSION,
    FEATURE_NON_BLOCKING_THROTTLING,
];
/// The longest response, of a node that has not yet proved anything: a configuration of four
/// thousand nodes is shorter.
const MOST_BYTES: usize = cluster_config::MAX_BYTES;
/// The capacity of a connection's read buffer, in bytes, and the least of each later one: the
/// buffer stores its first capacity, and is replaced while responses that share it are alive.
pub(super) const READ_BUFFER: usize = 8 * 1024;

/// The result of the bootstrap.
#[derive(Debug, Default)]
pub(super) struct Agreed {
    pub(super) features: Vec<u16>,
    pub(super) error_map: Option<Bytes>,
    pub(super) config: Option<Bytes>,
    /// Whether a bucket was selected.
    pub(super) bucket: bool,
    /// The first opaque not used during bootstrap, so that a duplicate bootstrap response never
    /// matches a later request.
    pub(super) next_opaque: u32,
}

/// A connection during bootstrap.
pub(super) struct Setup<'a> {
    pub(super) address: Arc<str>,
    pub(super) stream: TcpStream,
    pub(super) input: BytesMut,
    pub(super) options: &'a ClientOptions,
    /// The operations requested so far; an opaque is an index into this list, counted from 1.
    asked: Vec<Opcode>,
    early: HashMap<u32, Frame>,
}

impl<'a> Setup<'a> {
    pub(super) fn new(address: Arc<str>, stream: TcpStream, options: &'a ClientOptions) -> Self {
        Self {
            address,
            stream,
            input: BytesMut::with_capacity(READ_BUFFER),
            options,
            asked: Vec::new(),
            early: HashMap::new(),
        }
    }

    /// Runs all steps that the options require.
    pub(super) async fn run(&mut self) -> Result<Agreed, ClientError> {
        let Bootstrap::Couchbase {
            credentials,
            bucket,
            mechanism,
        } = &self.options.bootstrap
        else {
            return Ok(Agreed::default());
        };
        let mut agreed = Agreed::default();
        let mut out = BytesMut::new();
        let hello = self.hello(&mut out)?;
        let version = Bytes::copy_from_slice(&error_map::REQUEST_VERSION.to_be_bytes());
        let map = self.put(&mut out, Opcode::GET_ERROR_MAP, Bytes::new(), version)?;
        // With a configured mechanism the list is not needed.
        let list = match (credentials, mechanism) {
            (Some(_), None) => Some(self.put(
                &mut out,
                Opcode::SASL_LIST_MECHS,
                Bytes::new(),
                Bytes::new(),
            )?),
            _ => None,
        };
        self.write(out, Opcode::HELLO).await?;

        let answer = self.read(hello, Opcode::HELLO).await?;
        match answer.status() {
            Status::SUCCESS => {
                let mut granted = answer.value;
                while granted.remaining() >= 2 {
                    let feature = granted.get_u16();
                    if FEATURES.contains(&feature) && !agreed.features.contains(&feature) {
                        agreed.features.push(feature);
                    }
                }
            }
            Status::UNKNOWN_COMMAND | Status::NOT_SUPPORTED => {}
            // The connection would lack the features as long as it lives.
            _ => return Err(self.refused(&answer)),
        }
        let answer = self.read(map, Opcode::GET_ERROR_MAP).await?;
        let usable =
            answer.status() == Status::SUCCESS && agreed.features.contains(&FEATURE_XERROR);
        // A longer one would not be read.
        let usable = usable && answer.value.len() <= error_map::MAX_BYTES;
        agreed.error_map = usable.then_some(answer.value);

        if let Some((username, password)) = credentials {
            let mechanism = match (list, mechanism) {
                (Some(list), _) => {
                    let answer = self.read(list, Opcode::SASL_LIST_MECHS).await?;
                    let offered = match answer.status() {
                        Status::SUCCESS => answer.value,
                        Status::UNKNOWN_COMMAND | Status::NOT_SUPPORTED => Bytes::new(),
                        _ => return Err(self.refused(&answer)),
                    };
                    // The server-provided list must not make the client send its password in plain
                    // text.
                    match Mechanism::strongest(&offered) {
                        Some(Mechanism::Plain) if !self.may_be_plain() => {
                            let plain = "it offers only PLAIN, which sends the password in the clear: ask for it";
                            return Err(self.auth(plain));
                        }
                        Some(mechanism) => {
                            if mechanism != Mechanism::Plain {
                                self.options.note_scram();
                            }
                            mechanism
                        }
                        // A node without a list of mechanisms supports at least PLAIN.
                        None if self.may_be_plain() && offered.is_empty() => Mechanism::Plain,
                        None => return Err(self.auth("it offers no mechanism that is known here")),
                    }
                }
                (None, given) => given.unwrap_or(Mechanism::Plain),
            };
            self.login(mechanism, username, password).await?;
        }

        let mut out = BytesMut::new();
        let select = match bucket {
            Some(bucket) => {
                let name = Bytes::copy_from_slice(bucket.as_bytes());
                Some(self.put(&mut out, Opcode::SELECT_BUCKET, name, Bytes::new())?)
            }
            None => None,
        };
        let config = self.put(
            &mut out,
            Opcode::GET_CLUSTER_CONFIG,
            Bytes::new(),
            Bytes::new(),
        )?;
        self.write(out, Opcode::SELECT_BUCKET).await?;
        if let Some(select) = select {
            let answer = self.read(select, Opcode::SELECT_BUCKET).await?;
            if answer.status() != Status::SUCCESS {
                return Err(self.refused(&answer));
            }
            agreed.bucket = true;
        }
        let answer = self.read(config, Opcode::GET_CLUSTER_CONFIG).await?;
        if answer.status() == Status::SUCCESS && !answer.value.is_empty() {
            agreed.config = Some(answer.value);
        }
        agreed.next_opaque = self.asked.len() as u32 + 1;
        Ok(agreed)
    }

    fn hello(&mut self, out: &mut BytesMut) -> Result<u32, ClientError> {
        let mut features = BytesMut::new();
        let throttling = self.options.non_blocking_throttling;
        for feature in FEATURES {
            if throttling || feature != FEATURE_NON_BLOCKING_THROTTLING {
                features.put_u16(feature);
            }
        }
        let id: u64 = rand::random();
        let agent = serde_json::json!({
            "a": self.options.agent.chars().take(200).collect::<String>(),
            "i": format!("{id:016x}/{id:016x}"),
        });
        self.put(
            out,
            Opcode::HELLO,
            agent.to_string().into(),
            features.freeze(),
        )
    }

    pub(super) async fn exchange(
        &mut self,
        operation: Opcode,
        key: Bytes,
        value: Bytes,
    ) -> Result<Frame, ClientError> {
        let mut out = BytesMut::new();
        let opaque = self.put(&mut out, operation, key, value)?;
        self.write(out, operation).await?;
        self.read(opaque, operation).await
    }

    fn put(
        &mut self,
        out: &mut BytesMut,
        op: Opcode,
        key: Bytes,
        value: Bytes,
    ) -> Result<u32, ClientError> {
        self.asked.push(op);
        let opaque = self.asked.len() as u32;
        let frame = Frame {
            key,
            value,
            ..Frame::new(Magic::Request, op, opaque)
        };
        frame.encode(out).map_err(ClientError::Invalid)?;
        Ok(opaque)
    }

    async fn write(&mut self, out: BytesMut, operation: Opcode) -> Result<(), ClientError> {
        let result = self.stream.write_all(&out).await;
        result.map_err(|error| self.lost(operation, CloseReason::Io(Arc::new(error))))
    }

    /// The operation that was requested with this opaque.
    fn asked(&self, opaque: u32) -> Option<Opcode> {
        let place = usize::try_from(opaque).ok()?.checked_sub(1)?;
        self.asked.get(place).copied()
    }

    /// The response with this opaque. Responses to other requests that arrive first are kept; those
    /// without a request are ignored.
    async fn read(&mut self, opaque: u32, operation: Opcode) -> Result<Frame, ClientError> {
        loop {
            if let Some(frame) = self.early.remove(&opaque) {
                return Ok(frame);
            }
            let decoded = Frame::decode(&mut self.input, self.options.max_body.min(MOST_BYTES))
                .map_err(|error| self.lost(operation, CloseReason::Protocol(error)))?;
            if let Some(frame) = decoded {
                if frame.magic.is_response() {
                    match self.asked(frame.opaque) {
                        Some(asked) if asked == frame.opcode => {
                            self.early.entry(frame.opaque).or_insert(frame);
                        }
                        Some(asked) => {
                            let answered = frame.opcode;
                            let reason = CloseReason::WrongOpcode { asked, answered };
                            return Err(self.lost(operation, reason));
                        }
                        None => {}
                    }
                } else if frame.magic != Magic::ServerRequest {
                    let error = FrameError::UnexpectedMagic { magic: frame.magic };
                    return Err(self.lost(operation, CloseReason::Protocol(error)));
                }
                continue;
            }
            let read = self.stream.read_buf(&mut self.input).await;
            let reason = match read {
                Ok(0) if self.input.is_empty() => CloseReason::Closed,
                Ok(0) => CloseReason::MidFrame {
                    received: self.input.len(),
                },
                Ok(_) => continue,
                Err(error) => CloseReason::Io(Arc::new(error)),
            };
            return Err(self.lost(operation, reason));
        }
    }

    /// The node may answer otherwise later: the connection attempt fails, and is retried.
    pub(super) fn refused(&self, answer: &Frame) -> ClientError {
        ClientError::Bootstrap {
            address: self.address.clone(),
            operation: answer.opcode,
            status: answer.status(),
        }
    }

    fn lost(&self, operation: Opcode, reason: CloseReason) -> ClientError {
        ClientError::BootstrapClosed {
            address: self.address.clone(),
            operation,
            reason,
        }
    }
}

//! One socket: one command at a time.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use bson::Document;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::encoded::Encoded;
use super::server_error::Printable;
use super::{During, MongoError, Origin, ServerDescription};
use crate::dial;
use crate::mongodb::wire::{ReadError, Reply, WireError, read_reply};

static CONNECTIONS: AtomicU64 = AtomicU64::new(1);
static REQUESTS: AtomicI32 = AtomicI32::new(1);

/// The longest reply taken in a handshake, before a server has proved anything: 1 MiB. The longest
/// that servers send, with 50 members, are of some 20 KiB.
const HANDSHAKE_LIMIT: usize = 1 << 20;

/// A new request id, never given before within this process.
pub(super) fn next_request_id() -> i32 {
    REQUESTS.fetch_add(1, Ordering::Relaxed)
}

/// One connection to a server, after its handshake.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    pub(super) origin: Origin,
    id: u64,
    limit: usize,
    pub(super) description: ServerDescription,
    /// True between the first byte of a command and the last of its reply. A connection that is
    /// dropped in this state must not be used again.
    busy: bool,
}

impl Connection {
    /// Connects, and sends nothing yet. `overload` labels the failure of a server that may be
    /// overloaded.
    pub(super) async fn dial(
        address: &str,
        limit: usize,
        deadline: Instant,
        overload: &impl Fn(MongoError) -> MongoError,
    ) -> Result<Self, MongoError> {
        let id = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let mut origin = Origin {
            server: address.to_owned(),
            max_wire_version: None,
            connection: None,
        };
        let stream = dial(address, &origin, deadline, overload).await?;
        origin.connection = Some(id);
        Ok(Self {
            stream,
            origin,
            id,
            limit,
            description: ServerDescription::unknown(address),
            busy: false,
        })
    }

    /// The client's number of it.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Where it goes, and what the server offers.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The server's description from the handshake.
    #[must_use]
    pub fn description(&self) -> &ServerDescription {
        &self.description
    }

    /// Whether a reply is outstanding, so that the connection cannot be used again.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Whether the server has neither closed it nor sent a reply without a command. A close that
    /// the runtime has not seen yet is found by the next command.
    pub(super) fn is_quiet(&self) -> bool {
        let read = self.stream.try_read(&mut [0]);
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends a command and waits for its reply, at most for `timeout`.
    ///
    /// Dropping the future leaves the connection busy: it can only be closed.
    ///
    /// # Errors
    ///
    /// A command that cannot be encoded, network failures, timeouts and protocol errors. A reply
    /// that is not ok is not an error here.
    pub async fn call(
        &mut self,
        request_id: i32,
        command: &Document,
        timeout: Option<Duration>,
    ) -> Result<Reply, MongoError> {
        let message = Encoded::new(request_id, command, &self.origin)?;
        self.send(&message, timeout).await
    }

    /// As [`Connection::call`].
    pub(super) async fn send(
        &mut self,
        message: &Encoded,
        timeout: Option<Duration>,
    ) -> Result<Reply, MongoError> {
        let Some(after) = timeout else {
            return self.exchange(message, false).await;
        };
        match tokio::time::timeout(after, self.exchange(message, false)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(MongoError::SocketTimeout {
                origin: self.origin.clone(),
                during: During::Receive,
                after,
                labels: Vec::new(),
            }),
        }
    }

    pub(super) async fn exchange(
        &mut self,
        message: &Encoded,
        handshake: bool,
    ) -> Result<Reply, MongoError> {
        let phase = |during| if handshake { During::Handshake } else { during };
        self.busy = true;
        if let Err(error) = self.stream.write_all(&message.bytes).await {
            return Err(self.broken(phase(During::Send), &error));
        }
        let during = phase(During::Receive);
        let limit = match handshake {
            true => self.limit.min(HANDSHAKE_LIMIT),
            false => self.limit,
        };
        let reply = match read_reply(&mut self.stream, limit).await {
            Ok(Some(reply)) => reply,
            Ok(None) => {
                let end = io::Error::new(io::ErrorKind::UnexpectedEof, "closed before a reply");
                return Err(self.broken(during, &end));
            }
            Err(ReadError::Io(error)) => return Err(self.broken(during, &error)),
            Err(ReadError::Wire(WireError::Opcode(_))) => {
                return Err(self.protocol(during, "the reply is no OP_MSG".to_owned()));
            }
            Err(ReadError::Wire(error)) => return Err(self.protocol(during, error.to_string())),
        };
        let (asked, answered) = (message.request_id, reply.response_to);
        if answered != asked {
            let message = format!("asked {asked}, the reply answers {answered}");
            return Err(self.protocol(during, message));
        }
        self.busy = false;
        Ok(reply)
    }

    fn broken(&self, during: During, error: &io::Error) -> MongoError {
        MongoError::Network {
            origin: self.origin.clone(),
            during,
            kind: error.kind(),
            message: error.to_string(),
            labels: Vec::new(),
        }
    }

    fn protocol(&self, during: During, message: String) -> MongoError {
        MongoError::Protocol {
            origin: self.origin.clone(),
            during,
            // It may quote the server.
            message: Printable(&message).to_string(),
        }
    }
}

async fn dial(
    address: &str,
    origin: &Origin,
    deadline: Instant,
    overload: &impl Fn(MongoError) -> MongoError,
) -> Result<TcpStream, MongoError> {
    let failed = |error: io::Error| MongoError::Connect {
        origin: origin.clone(),
        kind: error.kind(),
        message: error.to_string(),
        labels: Vec::new(),
    };
    // A failed name lookup does not show that the server is overloaded.
    let found = dial::look_up(address, deadline).await.map_err(failed)?;
    dial::connect(&found, deadline)
        .await
        .map_err(|error| overload(failed(error)))
}

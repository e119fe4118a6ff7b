//! One socket: handshake, then one command at a time.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::error::is_ok;
use super::{
    ClientOptions, Credential, During, MongoError, Origin, RETRYABLE_ERROR,
    SYSTEM_OVERLOADED_ERROR, ServerDescription, ServerError,
};
use crate::mongodb::scram::{ClientFirst, ScramError};
use crate::mongodb::wire::{Message, OpMsg, ReadError, read_message};

static CONNECTIONS: AtomicU64 = AtomicU64::new(1);
static REQUESTS: AtomicI32 = AtomicI32::new(1);

/// A new request id, never given before within this process.
pub(super) fn next_request_id() -> i32 {
    REQUESTS.fetch_add(1, Ordering::Relaxed)
}

/// One connection to a server, after its handshake.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    origin: Origin,
    id: u64,
    limit: usize,
    description: ServerDescription,
    /// Between the first byte of a command and the last of its reply. What is dropped in this
    /// state must not be used again.
    busy: bool,
}

impl Connection {
    /// Dials, says hello and, when `login` is wanted, authenticates; all within `connect_timeout`.
    ///
    /// # Errors
    ///
    /// All those of [`MongoError::in_handshake`].
    pub async fn open(
        address: &str,
        options: &ClientOptions,
        login: bool,
    ) -> Result<Self, MongoError> {
        let deadline = Instant::now() + options.connect_timeout;
        let id = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let mut origin = Origin {
            server: address.to_owned(),
            max_wire_version: None,
            connection: None,
        };
        let overload = |mut error: MongoError| {
            if options.overload_labels {
                error.label(&[SYSTEM_OVERLOADED_ERROR, RETRYABLE_ERROR]);
            }
            error
        };
        let stream = dial(address, &origin, deadline, &overload).await?;
        origin.connection = Some(id);
        let mut connection = Self {
            stream,
            origin,
            id,
            limit: options.message_limit,
            description: ServerDescription::unknown(address),
            busy: false,
        };
        let hello = connection
            .hello(options, deadline)
            .await
            .map_err(overload)?;
        connection.description = hello;
        if let Some(credential) = options.credential.as_ref().filter(|_| login) {
            connection
                .authenticate(credential, deadline, options.connect_timeout)
                .await?;
        }
        Ok(connection)
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

    /// What the server said of itself in the handshake.
    #[must_use]
    pub fn description(&self) -> &ServerDescription {
        &self.description
    }

    /// Whether a reply is still owed, so that the connection cannot be used again.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Asks what the server is now.
    ///
    /// # Errors
    ///
    /// Like those of a command in the handshake.
    pub async fn hello(
        &mut self,
        options: &ClientOptions,
        deadline: Instant,
    ) -> Result<ServerDescription, MongoError> {
        let mut hello = doc! {
            "hello": 1,
            "helloOk": true,
            "client": {
                "driver": { "name": "reattempt-testbed", "version": env!("CARGO_PKG_VERSION") },
                "os": { "type": std::env::consts::OS },
                "application": { "name": options.app_name.as_deref().unwrap_or_default() },
            },
        };
        if options.overload_labels {
            hello.insert("backpressure", "2");
        }
        let reply = self
            .handshake(hello, "admin", deadline, options.connect_timeout)
            .await?;
        let description = ServerDescription::from_hello(&self.origin.server, &reply);
        self.origin.max_wire_version = Some(description.max_wire_version);
        Ok(description)
    }

    async fn authenticate(
        &mut self,
        credential: &Credential,
        deadline: Instant,
        limit: Duration,
    ) -> Result<(), MongoError> {
        let origin = self.origin.clone();
        let failed = |error: ScramError| MongoError::Authentication {
            origin: origin.clone(),
            message: error.to_string(),
        };
        let nonce = STANDARD_NO_PAD.encode(rand::random::<[u8; 18]>());
        let first = ClientFirst::new(&credential.username, &nonce);
        let start = doc! {
            "saslStart": 1,
            "mechanism": "SCRAM-SHA-256",
            "payload": binary(first.message().as_bytes()),
            "autoAuthorize": 1,
            "options": { "skipEmptyExchange": true },
        };
        let source = credential.source.as_str();
        let reply = self.handshake(start, source, deadline, limit).await?;
        let last = first
            .server_first(payload(&reply), &credential.password, credential.kept())
            .map_err(&failed)?;
        let conversation = reply
            .get("conversationId")
            .cloned()
            .unwrap_or(Bson::Int32(1));
        let go_on = |payload: &[u8]| {
            doc! {
                "saslContinue": 1,
                "conversationId": conversation.clone(),
                "payload": binary(payload),
            }
        };
        let proof = go_on(last.message().as_bytes());
        let reply = self.handshake(proof, source, deadline, limit).await?;
        last.server_final(payload(&reply)).map_err(&failed)?;
        credential.keep(last.salted());
        if !reply.get_bool("done").unwrap_or(false) {
            self.handshake(go_on(b""), source, deadline, limit).await?;
        }
        Ok(())
    }

    /// One command of the handshake, its reply checked for ok.
    async fn handshake(
        &mut self,
        mut command: Document,
        database: &str,
        deadline: Instant,
        limit: Duration,
    ) -> Result<Document, MongoError> {
        command.insert("$db", database);
        let request_id = next_request_id();
        let called = timeout_at(deadline, self.exchange(request_id, &command, true)).await;
        let reply = called.unwrap_or_else(|_| {
            Err(MongoError::SocketTimeout {
                origin: self.origin.clone(),
                during: During::Handshake,
                after: limit,
                labels: Vec::new(),
            })
        })?;
        if is_ok(&reply) {
            Ok(reply)
        } else {
            Err(ServerError::read(
                self.origin.clone(),
                reply,
                request_id,
                true,
            ))
        }
    }

    /// Sends a command and waits for its reply, at most for `timeout`.
    ///
    /// Dropped midway it leaves the connection busy: it can only be closed.
    ///
    /// # Errors
    ///
    /// Network failures, timeouts and protocol errors; a reply that is not ok is no error here.
    pub async fn call(
        &mut self,
        request_id: i32,
        command: &Document,
        timeout: Option<Duration>,
    ) -> Result<Document, MongoError> {
        let Some(after) = timeout else {
            return self.exchange(request_id, command, false).await;
        };
        match tokio::time::timeout(after, self.exchange(request_id, command, false)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(MongoError::SocketTimeout {
                origin: self.origin.clone(),
                during: During::Receive,
                after,
                labels: Vec::new(),
            }),
        }
    }

    async fn exchange(
        &mut self,
        request_id: i32,
        command: &Document,
        handshake: bool,
    ) -> Result<Document, MongoError> {
        let phase = |during| if handshake { During::Handshake } else { during };
        let bytes = OpMsg::encode(request_id, 0, command).map_err(|error| MongoError::Rebuild {
            origin: self.origin.clone(),
            message: error.to_string(),
        })?;
        self.busy = true;
        if let Err(error) = self.stream.write_all(&bytes).await {
            return Err(self.broken(phase(During::Send), &error));
        }
        let during = phase(During::Receive);
        let reply = match read_message(&mut self.stream, self.limit).await {
            Ok(Some(Message::Msg(reply))) => reply,
            Ok(Some(_)) => return Err(self.protocol(during, "the reply is no OP_MSG".to_owned())),
            Ok(None) => {
                let end = io::Error::new(io::ErrorKind::UnexpectedEof, "closed before a reply");
                return Err(self.broken(during, &end));
            }
            Err(ReadError::Io(error)) => return Err(self.broken(during, &error)),
            Err(ReadError::Wire(error)) => return Err(self.protocol(during, error.to_string())),
        };
        if reply.response_to != request_id {
            let answered = reply.response_to;
            let message = format!("asked {request_id}, the reply answers {answered}");
            return Err(self.protocol(during, message));
        }
        self.busy = false;
        Ok(reply.document)
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
            message,
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
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    // A name that is not found says nothing of how busy the server is.
    let mut found = timeout_at(deadline, tokio::net::lookup_host(address))
        .await
        .map_err(late)
        .and_then(|found| found)
        .map_err(failed)?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        let Some(target) = found.next() else {
            return Err(overload(failed(last)));
        };
        let tried = timeout_at(deadline, TcpStream::connect(target)).await;
        match tried.map_err(late).and_then(|stream| stream) {
            Ok(stream) => {
                // Small commands must not wait for the peer's acknowledgement.
                stream.set_nodelay(true).map_err(failed)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
}

fn binary(bytes: &[u8]) -> Binary {
    Binary {
        subtype: BinarySubtype::Generic,
        bytes: bytes.to_vec(),
    }
}

fn payload(reply: &Document) -> &[u8] {
    match reply.get("payload") {
        Some(Bson::Binary(binary)) => &binary.bytes,
        _ => &[],
    }
}

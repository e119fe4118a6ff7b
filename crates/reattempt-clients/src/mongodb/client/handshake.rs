//! What a new connection says first: hello, and who it is.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};
use reattempt_mongodb::labels::{RETRYABLE_ERROR, SYSTEM_OVERLOADED_ERROR};
use tokio::time::{Instant, timeout_at};

use super::connection::next_request_id;
use super::encoded::Encoded;
use super::server_error::is_ok;
use super::{
    ClientOptions, Connection, Credential, During, MongoError, ServerDescription, ServerError,
};
use crate::instant::after;
use crate::mongodb::scram::{self, RULES};
use crate::scram::{ScramClient, ScramError};

const COMMAND_NOT_FOUND: i64 = 59;

/// How long the handshake may take, and each answer in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    deadline: Instant,
    whole: Duration,
    answer: Option<Duration>,
}

impl Patience {
    /// Of a connection of a pool: `connectTimeoutMS` for all of it, `socketTimeoutMS` for each
    /// answer.
    pub(super) fn of_pool(options: &ClientOptions) -> Self {
        Self {
            answer: options.socket_timeout,
            ..Self::of_monitor(options)
        }
    }

    /// Of a monitor, which looks at servers under `connectTimeoutMS` alone.
    pub(super) fn of_monitor(options: &ClientOptions) -> Self {
        Self {
            deadline: after(Instant::now(), options.connect_timeout),
            whole: options.connect_timeout,
            answer: None,
        }
    }

    /// When the answer to what is sent now has to be there, and the limit that says so.
    fn next(self) -> (Instant, Duration) {
        let by_answer = self
            .answer
            .map(|answer| (after(Instant::now(), answer), answer));
        by_answer
            .filter(|(at, _)| *at < self.deadline)
            .unwrap_or((self.deadline, self.whole))
    }
}

impl Connection {
    /// Connects, sends hello and, when `login` is true, authenticates, all within
    /// `connect_timeout`. With `login` each answer has to arrive within `socket_timeout`.
    ///
    /// # Errors
    ///
    /// Errors for which [`MongoError::in_handshake`] is true.
    pub async fn open(
        address: &str,
        options: &ClientOptions,
        login: bool,
    ) -> Result<Self, MongoError> {
        let patience = if login {
            Patience::of_pool(options)
        } else {
            Patience::of_monitor(options)
        };
        let overload = |mut error: MongoError| {
            if options.overload_labels {
                error.label(&[SYSTEM_OVERLOADED_ERROR, RETRYABLE_ERROR]);
            }
            error
        };
        let limit = options.message_limit;
        let mut connection = Self::dial(address, limit, patience.deadline, &overload).await?;
        let hello = connection
            .hello(options, Some(client(options)), patience)
            .await;
        connection.description = hello.map_err(overload)?;
        if let Some(credential) = options.credential.as_ref().filter(|_| login) {
            connection.authenticate(credential, patience).await?;
        }
        Ok(connection)
    }

    /// Asks what the server is now. `client` says who asks; servers refuse it on a connection on
    /// which it was sent before.
    ///
    /// # Errors
    ///
    /// Like those of a command in the handshake.
    pub(super) async fn hello(
        &mut self,
        options: &ClientOptions,
        client: Option<Document>,
        patience: Patience,
    ) -> Result<ServerDescription, MongoError> {
        let command = |name: &str| {
            let mut hello = doc! { name: 1, "helloOk": true };
            if let Some(client) = &client {
                hello.insert("client", client.clone());
            }
            if options.overload_labels {
                hello.insert("backpressure", "2");
            }
            hello
        };
        let reply = match self.handshake(command("hello"), "admin", patience).await {
            // Servers before 4.4 know it by its old name only.
            Err(error) if error.code() == Some(COMMAND_NOT_FOUND) => {
                self.handshake(command("isMaster"), "admin", patience)
                    .await?
            }
            outcome => outcome?,
        };
        let description = ServerDescription::from_hello(&self.origin.server, &reply);
        self.origin.max_wire_version = Some(description.max_wire_version);
        Ok(description)
    }

    async fn authenticate(
        &mut self,
        credential: &Credential,
        patience: Patience,
    ) -> Result<(), MongoError> {
        let origin = self.origin.clone();
        let failed = |error: ScramError| MongoError::Authentication {
            origin: origin.clone(),
            message: scram::message(&error),
        };
        let nonce = STANDARD_NO_PAD.encode(rand::random::<[u8; 18]>());
        let (name, password) = (&credential.username, &credential.password);
        let mut exchange = ScramClient::new(RULES, name, password, &nonce);
        let start = doc! {
            "saslStart": 1,
            "mechanism": "SCRAM-SHA-256",
            "payload": binary(exchange.first().as_bytes()),
            "autoAuthorize": 1,
            "options": { "skipEmptyExchange": true },
        };
        let source = credential.source.as_str();
        let reply = self.handshake(start, source, patience).await?;
        let said = payload(&reply).to_vec();
        // Thousands of rounds, or as many as the server wants up to the bound.
        let answered = credential.kept.run(move |kept| {
            let last = exchange.answer(&said, kept)?;
            Ok((exchange, last))
        });
        // Other logins may be computed first.
        let (deadline, limit) = patience.next();
        let Ok(answered) = timeout_at(deadline, answered).await else {
            return Err(self.late(limit));
        };
        let (exchange, last) = answered.map_err(&failed)?;
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
        let proof = go_on(last.as_bytes());
        let reply = self.handshake(proof, source, patience).await?;
        exchange.verify(payload(&reply)).map_err(&failed)?;
        let done = |reply: &Document| reply.get_bool("done").unwrap_or(false);
        if done(&reply) || done(&self.handshake(go_on(b""), source, patience).await?) {
            return Ok(());
        }
        Err(MongoError::Authentication {
            origin,
            message: "the server does not say that it is done".to_owned(),
        })
    }

    fn late(&self, after: Duration) -> MongoError {
        MongoError::SocketTimeout {
            origin: self.origin.clone(),
            during: During::Handshake,
            after,
            labels: Vec::new(),
        }
    }

    /// One command of the handshake, its reply checked for ok.
    async fn handshake(
        &mut self,
        mut command: Document,
        database: &str,
        patience: Patience,
    ) -> Result<Document, MongoError> {
        command.insert("$db", database);
        let request_id = next_request_id();
        let (deadline, limit) = patience.next();
        let message = Encoded::new(request_id, &command, &self.origin)?;
        let called = timeout_at(deadline, self.exchange(&message, true)).await;
        let reply = called.map_err(|_| self.late(limit))??.document;
        if is_ok(&reply) {
            Ok(reply)
        } else {
            Err(ServerError::read(self.origin.clone(), reply, request_id, true).into())
        }
    }
}

/// Who asks.
fn client(options: &ClientOptions) -> Document {
    let mut client = doc! {
        "driver": { "name": "reattempt-clients", "version": env!("CARGO_PKG_VERSION") },
        "os": { "type": std::env::consts::OS },
    };
    if let Some(name) = &options.app_name {
        client.insert("application", doc! { "name": name });
    }
    client
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

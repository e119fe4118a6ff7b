//! `hello`, and SCRAM-SHA-256 over `saslStart` and `saslContinue`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};
use reattempt_clients::mongodb::scram;
use reattempt_clients::scram::{ScramError, ScramServer};

use super::command::Command;
use super::peer::{Login, Peer};
use crate::lock::lock;
use crate::mongodb::node::codes::CommandError;

pub(super) fn hello(command: &Command<'_>, peer: &mut Peer) -> Result<Document, CommandError> {
    if command.document.get_document("client").is_ok()
        && std::mem::replace(&mut peer.said_who, true)
    {
        let refusal = "The client metadata document may only be sent in the first hello";
        return Err(CommandError::new(186, refusal));
    }
    let shared = command.shared;
    let now = shared.store.now();
    let mut hello = lock(&shared.standing).hello(&shared.me, peer.connection, shared.limit, now);
    if let Ok(asked) = command.document.get_str("saslSupportedMechs") {
        let user = asked.split_once('.').map_or(asked, |(_, user)| user);
        if shared.users.contains_key(user) {
            hello.insert("saslSupportedMechs", vec![Bson::from("SCRAM-SHA-256")]);
        }
    }
    Ok(hello)
}

pub(super) fn sasl_start(
    command: &Command<'_>,
    login: &mut Login,
) -> Result<Document, CommandError> {
    *login = Login::Out;
    let mechanism = command.document.get_str("mechanism").unwrap_or_default();
    if mechanism != "SCRAM-SHA-256" {
        return Err(CommandError::new(
            334,
            format!("Unsupported mechanism '{mechanism}'"),
        ));
    }
    let payload = payload(command.document)?;
    let user = ScramServer::user(payload).map_err(refused)?;
    let stored = command
        .shared
        .users
        .get(&user)
        .cloned()
        .ok_or_else(|| CommandError::new(18, "Authentication failed."))?;
    let tail = STANDARD_NO_PAD.encode(rand::random::<[u8; 18]>());
    let exchange = ScramServer::new(payload, &tail, stored).map_err(refused)?;
    let skip_empty = command
        .document
        .get_document("options")
        .and_then(|options| options.get_bool("skipEmptyExchange"))
        .unwrap_or(false);
    let answer = answer(&exchange.first(), false);
    *login = Login::Proof(Box::new(exchange), skip_empty);
    Ok(answer)
}

pub(super) fn sasl_continue(
    command: &Command<'_>,
    login: &mut Login,
) -> Result<Document, CommandError> {
    match std::mem::take(login) {
        Login::Proof(exchange, skip_empty) => {
            let verifier = exchange
                .finish(payload(command.document)?)
                .map_err(refused)?;
            *login = if skip_empty { Login::In } else { Login::Empty };
            Ok(answer(&verifier, skip_empty))
        }
        Login::Empty => {
            *login = Login::In;
            Ok(answer("", true))
        }
        Login::Out | Login::In => Err(CommandError::new(17, "No SASL session state found")),
    }
}

fn payload(document: &Document) -> Result<&[u8], CommandError> {
    match document.get("payload") {
        Some(Bson::Binary(binary)) => Ok(&binary.bytes),
        _ => Err(CommandError::bad_value("payload: must be binary")),
    }
}

fn answer(payload: &str, done: bool) -> Document {
    let payload = Binary {
        subtype: BinarySubtype::Generic,
        bytes: payload.as_bytes().to_vec(),
    };
    doc! { "conversationId": 1, "done": done, "payload": payload }
}

/// The message does not reveal which part was wrong, as in servers.
fn refused(error: ScramError) -> CommandError {
    match error {
        ScramError::WrongProof | ScramError::WrongNonce => {
            CommandError::new(18, "Authentication failed.")
        }
        other => CommandError::bad_value(scram::message(&other)),
    }
}

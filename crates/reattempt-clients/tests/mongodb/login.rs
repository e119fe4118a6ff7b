//! Logins with a server that breaks the SCRAM exchange.

use std::time::Duration;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};
use reattempt_clients::mongodb::client::{
    Client, ClientOptions, Connection, Credential, MongoError,
};
use reattempt_clients::mongodb::scram::RULES;
use reattempt_clients::mongodb::wire::{Message, OpMsg, PROTOCOL_LIMIT, read_message};
use reattempt_clients::scram::{MAX_ITERATIONS, Salted, ScramServer, Stored};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::{find, send, soon};

/// The server's replies to `saslStart` and `saslContinue`.
#[derive(Clone, Copy)]
struct Says {
    iterations: u32,
    signature: Option<&'static str>,
    done: bool,
    done_at_last: bool,
}

const HONEST: Says = Says {
    iterations: 4096,
    signature: None,
    done: true,
    done_at_last: true,
};

fn answer(says: Says, exchange: &mut Option<ScramServer>, command: &Document) -> Document {
    let said = match command.get("payload") {
        Some(Bson::Binary(said)) => &*said.bytes,
        _ => &[],
    };
    let payload = |text: &str| Binary {
        subtype: BinarySubtype::Generic,
        bytes: text.as_bytes().to_vec(),
    };
    match command.keys().next().map_or("", String::as_str) {
        "saslStart" => {
            let salt = b"0123456789abcdef";
            let salted = Salted::derive(RULES, "pencil", salt, says.iterations).unwrap();
            let begun = ScramServer::new(said, "tail", Stored::of(&salted)).unwrap();
            let payload = payload(&begun.first());
            *exchange = Some(begun);
            doc! { "ok": 1, "conversationId": 1, "done": false, "payload": payload }
        }
        "saslContinue" if said.is_empty() => {
            doc! { "ok": 1, "conversationId": 1, "done": says.done_at_last, "payload": payload("") }
        }
        "saslContinue" => {
            let signature = exchange.take().unwrap().finish(said).unwrap();
            let payload = payload(says.signature.unwrap_or(&signature));
            doc! { "ok": 1, "conversationId": 1, "done": says.done, "payload": payload }
        }
        "find" => doc! { "ok": 1, "cursor": { "id": 0_i64, "ns": "db.c", "firstBatch": [] } },
        _ => doc! { "ok": 1, "isWritablePrimary": true, "maxWireVersion": 21 },
    }
}

async fn serve(mut stream: TcpStream, says: Says) {
    let mut exchange = None;
    while let Ok(Some(Message::Msg(asked))) = read_message(&mut stream, PROTOCOL_LIMIT).await {
        let answer = answer(says, &mut exchange, &asked.document);
        let bytes = OpMsg::encode(1, asked.request_id, &answer).unwrap();
        stream.write_all(&bytes).await.unwrap();
    }
}

/// The result of a find that has to log in first.
async fn find_after_login(says: Says) -> Result<(), MongoError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = ClientOptions::new([listener.local_addr().unwrap().to_string()]);
    options.credential = Some(Credential::new("user", "pencil", "admin"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, says));
        }
    });
    send(&Client::new(options), &find()).await.map(drop)
}

/// M6: a server that does not prove that it knows the password, or never ends the login, gets no
/// command.
#[tokio::test]
async fn a_server_has_to_prove_itself_and_to_say_that_it_is_done() {
    find_after_login(HONEST).await.unwrap();
    let three_steps = Says {
        done: false,
        ..HONEST
    };
    find_after_login(three_steps).await.unwrap();
    let never_done = Says {
        done_at_last: false,
        ..three_steps
    };
    let wrong = |signature| Says {
        signature: Some(signature),
        ..HONEST
    };
    let zeros = "v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let few = Says {
        iterations: 4095,
        ..HONEST
    };
    let bounds = "SCRAM iterations 4095: must be between 4096 and 100000";
    for (says, problem) in [
        (never_done, "the server does not say that it is done"),
        (wrong(zeros), "SCRAM proof does not hold"),
        (wrong("v="), "SCRAM proof does not hold"),
        (
            wrong(""),
            "SCRAM message: attribute v is missing at place 0",
        ),
        (wrong("e=no"), "the server refused: no"),
        (few, bounds),
    ] {
        let error = find_after_login(says).await.unwrap_err();
        assert!(
            matches!(&error, MongoError::Authentication { message, .. } if message == problem),
            "{error}"
        );
        assert!(error.in_handshake() && !error.was_sent());
    }
}

/// A server that asks for the most rounds a client does, looks on for a while and says so. Whether
/// it was sent the proof.
async fn slow_login(listener: TcpListener, waited: oneshot::Sender<()>) -> bool {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut waited = Some(waited);
    while let Ok(Some(Message::Msg(asked))) = read_message(&mut stream, PROTOCOL_LIMIT).await {
        let document = match asked.document.keys().next().map_or("", String::as_str) {
            "saslContinue" => return true,
            "saslStart" => {
                let first = asked.document.get_binary_generic("payload").unwrap();
                let first = String::from_utf8_lossy(first);
                let (_, nonce) = first.split_once("r=").unwrap();
                let said = format!("r={nonce}x,s=AAAA,i={MAX_ITERATIONS}").into_bytes();
                let subtype = BinarySubtype::Generic;
                doc! { "ok": 1, "payload": Binary { subtype, bytes: said } }
            }
            _ => doc! { "ok": 1, "isWritablePrimary": true, "maxWireVersion": 21 },
        };
        let bytes = OpMsg::encode(1, asked.request_id, &document).unwrap();
        stream.write_all(&bytes).await.unwrap();
        if let Some(waited) = waited.take_if(|_| document.contains_key("payload")) {
            for _ in 0..2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let _ = waited.send(());
        }
    }
    false
}

/// The rounds do not hold the runtime, on which everything else of the caller may run.
#[tokio::test]
async fn a_login_can_be_cut_off_during_its_rounds() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut options = ClientOptions::new([address.clone()]);
    options.credential = Some(Credential::new("user", "pencil", "admin"));
    let (waited, has_waited) = oneshot::channel();
    let server = tokio::spawn(slow_login(listener, waited));
    tokio::select! {
        biased;
        opened = Connection::open(&address, &options, true) => panic!("{opened:?}"),
        done = has_waited => done.unwrap(),
    }
    assert!(!soon(server).await.unwrap(), "the proof was sent");
}

//! One connection to a node: reads commands, applies the script, answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};
use reattempt_clients::mongodb::wire::{Message, OpMsg, OpReply, read_message};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::codes::CommandError;
use super::commands::{self, Peer};
use super::script::Action;
use super::seen::{SeenCommand, canonical};
use super::shared::Shared;
use crate::pause::pause;

/// Accepts connections until it is aborted, which ends them too.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, which ends the connections.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let number = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
                    let refused = |left: u64| left.checked_sub(1);
                    let order = Ordering::Relaxed;
                    if shared.refuse.fetch_update(order, order, refused).is_ok() {
                        continue;
                    }
                    // Small answers must not wait for the peer's acknowledgement.
                    let _ = stream.set_nodelay(true);
                    let shared = Arc::clone(&shared);
                    let mut closer = shared.closer.subscribe();
                    connections.spawn(async move {
                        tokio::select! {
                            () = connection(shared, stream, number) => {}
                            _ = closer.changed() => {}
                        }
                    });
                }
                // Most likely out of file descriptors: wait until other connections close.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

/// Serves a connection until either side closes it.
pub(super) async fn connection(shared: Arc<Shared>, mut stream: TcpStream, connection: u64) {
    let mut peer = Peer {
        connection,
        ..Peer::default()
    };
    let mut ordinal = 0;
    // Invalid input ends the connection, like a disconnect.
    while let Ok(Some(message)) = read_message(&mut stream, shared.limit).await {
        let (request_id, database, document, legacy) = match message {
            Message::Msg(message) => {
                let database = message.document.get_str("$db").unwrap_or("").to_owned();
                (message.request_id, database, message.document, false)
            }
            Message::Query(query) => {
                let database = query.collection.split('.').next().unwrap_or("").to_owned();
                (query.request_id, database, query.document, true)
            }
            Message::Reply(_) => return,
        };
        let name = document.keys().next().cloned().unwrap_or_default();
        let at = Instant::now();
        let seen = SeenCommand {
            name,
            database,
            document,
            request_id,
            connection,
            ordinal,
            at,
            legacy,
        };
        ordinal += 1;
        let goes_on = answer(&shared, &mut stream, &mut peer, &seen).await;
        if !goes_on {
            return;
        }
    }
}

/// Answers one command; returns whether the connection continues.
async fn answer(
    shared: &Shared,
    stream: &mut TcpStream,
    peer: &mut Peer,
    seen: &SeenCommand,
) -> bool {
    shared.record(seen);
    let (delay, action) = match shared.script.take(seen) {
        Some(step) => (step.delay, step.action),
        None => (Duration::ZERO, Action::Pass(Document::new())),
    };
    pause(delay).await;
    let reply = match action {
        Action::Hang => {
            until_closed(stream).await;
            return false;
        }
        Action::Close => return false,
        Action::Reset => {
            let _ = stream.set_zero_linger();
            return false;
        }
        Action::Reply(document, timed) => {
            if timed {
                finished(shared, document)
            } else {
                document
            }
        }
        Action::Pass(added) => {
            let mut document = usual(shared, peer, seen).await;
            document.extend(added);
            document
        }
        Action::PartOfReply { bytes, then_close } => {
            let reply = usual(shared, peer, seen).await;
            if let Some(whole) = encode(shared, seen, &reply) {
                let count = bytes.unwrap_or(whole.len() / 2).min(whole.len() - 1);
                // A write error is ignored: the connection is closed or silent afterwards in any
                // case.
                let _ = stream.write_all(&whole[..count]).await;
                if then_close {
                    let _ = stream.shutdown().await;
                } else {
                    until_closed(stream).await;
                }
            }
            return false;
        }
    };
    match encode(shared, seen, &reply) {
        Some(bytes) => stream.write_all(&bytes).await.is_ok(),
        None => false,
    }
}

/// Discards further input until the peer closes.
async fn until_closed(stream: &mut TcpStream) {
    let mut ignored = [0; 1024];
    while matches!(stream.read(&mut ignored).await, Ok(count) if count > 0) {}
}

async fn usual(shared: &Shared, peer: &mut Peer, seen: &SeenCommand) -> Document {
    if seen.legacy && canonical(&seen.name) != "hello" {
        return CommandError::new(352, format!("Unsupported OP_QUERY command: {}", seen.name))
            .document();
    }
    let answer = commands::run(shared, peer, seen);
    pause(answer.wait).await;
    let mut document = answer.document;
    if !document.contains_key("ok") {
        document.insert("ok", 1.0);
    }
    if seen.is_data() {
        shared.store.tick();
    }
    finished(shared, document)
}

/// Adds the cluster time, which every reply carries.
fn finished(shared: &Shared, mut document: Document) -> Document {
    let now = shared.store.now();
    let signature = Binary {
        subtype: BinarySubtype::Generic,
        bytes: vec![0; 20],
    };
    document.insert("operationTime", now);
    document.insert(
        "$clusterTime",
        doc! { "clusterTime": now, "signature": { "hash": signature, "keyId": 0_i64 } },
    );
    document
}

fn encode(shared: &Shared, seen: &SeenCommand, reply: &Document) -> Option<Vec<u8>> {
    let id = shared.next_message();
    if seen.legacy {
        OpReply::encode(id, seen.request_id, reply).ok()
    } else {
        OpMsg::encode(id, seen.request_id, reply).ok()
    }
}

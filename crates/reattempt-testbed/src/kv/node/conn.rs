//! One connection of a node: reads requests, applies the script, writes responses.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use reattempt_clients::kv::feature::{FEATURE_COLLECTIONS, FEATURE_TRACING};
use reattempt_clients::kv::frame::{
    self, FRAME_SERVER_DURATION, FRAME_THROTTLE_DURATION, Frame, Magic, encode_duration,
    put_framing_extra,
};
use reattempt_couchbase::kv::{Opcode, Status};

use super::data::{self, DataRequest};
use super::inner::Inner;
use super::reply::Reply;
use super::seen::SeenRequest;
use super::session::{Session, is_bootstrap};
use super::step::{Answer, Delivery, Step};
use crate::lock::lock;

/// Maximum number of delayed responses per connection.
const MAX_DELAYED: usize = 4096;

/// An encoded response, and how to deliver it.
struct Outgoing {
    bytes: Bytes,
    delivery: Delivery,
    opaque: u32,
}

/// Serves a connection until either side ends it.
pub(super) async fn serve(inner: &Inner, mut stream: TcpStream, number: u64) {
    // A closed connection is detected by the first read.
    let _ = stream.set_nodelay(true);
    let mut session = Session::new(inner.index);
    let mut buffer = BytesMut::new();
    let mut delayed: JoinSet<Outgoing> = JoinSet::new();
    let mut held: Vec<Bytes> = Vec::new();
    loop {
        let outgoing = tokio::select! {
            Some(ready) = delayed.join_next(), if !delayed.is_empty() => match ready {
                Ok(ready) => ready,
                Err(_) => continue,
            },
            read = stream.read_buf(&mut buffer), if delayed.len() < MAX_DELAYED => {
                if !matches!(read, Ok(count) if count > 0) {
                    return;
                }
                let mut now = Vec::new();
                loop {
                    match Frame::decode(&mut buffer, inner.shared.settings.max_body) {
                        Ok(Some(frame)) if frame.magic.is_request() => {
                            let (delay, outgoing) = handle(inner, &mut session, number, frame);
                            if delay.is_zero() {
                                now.push(outgoing);
                            } else {
                                delayed.spawn(async move {
                                    tokio::time::sleep(delay).await;
                                    outgoing
                                });
                            }
                        }
                        // The client's response to a server request: nothing waits for it.
                        Ok(Some(frame)) if frame.magic == Magic::ServerResponse => {}
                        Ok(None) => break,
                        Ok(Some(_)) | Err(_) => return,
                    }
                }
                for outgoing in now {
                    if !deliver(&mut stream, &mut held, outgoing).await {
                        return;
                    }
                }
                continue;
            }
        };
        if !deliver(&mut stream, &mut held, outgoing).await {
            return;
        }
    }
}

/// Writes one response; returns false when the connection ends with it.
async fn deliver(stream: &mut TcpStream, held: &mut Vec<Bytes>, outgoing: Outgoing) -> bool {
    let Outgoing {
        bytes,
        delivery,
        opaque,
    } = outgoing;
    let patched = |at: usize, patch: &[u8]| {
        let mut bytes = BytesMut::from(bytes.as_ref());
        if let Some(place) = bytes.get_mut(at..at + patch.len()) {
            place.copy_from_slice(patch);
        }
        bytes.freeze()
    };
    let (write, go_on) = match delivery {
        Delivery::Plain => (bytes, true),
        Delivery::CloseAfter => (bytes, false),
        Delivery::CloseBefore => return false,
        Delivery::Reset => {
            // Without this the close would be orderly. It fails only when the socket is already
            // closed.
            let _ = stream.set_zero_linger();
            return false;
        }
        Delivery::HalfFrame => (bytes.slice(..bytes.len() / 2), false),
        Delivery::OutOfOrder => {
            held.push(bytes);
            return true;
        }
        Delivery::WrongOpaque => (patched(12, &(!opaque).to_be_bytes()), true),
        Delivery::StrayFirst => (
            [patched(12, &(!opaque).to_be_bytes()), bytes]
                .concat()
                .into(),
            true,
        ),
        Delivery::BadMagic => (patched(0, &[0x47]), true),
        Delivery::AbsurdLength => (patched(8, &u32::MAX.to_be_bytes()), true),
    };
    if write.is_empty() {
        return go_on;
    }
    if stream.write_all(&write).await.is_err() {
        return false;
    }
    for late in held.drain(..) {
        if stream.write_all(&late).await.is_err() {
            return false;
        }
    }
    go_on
}

/// Records a request, applies the script and the handlers, and creates the response.
fn handle(inner: &Inner, session: &mut Session, number: u64, frame: Frame) -> (Duration, Outgoing) {
    let arrived = Instant::now();
    let (seen, vbuckets, bad_key) = note(session, number, arrived, &frame);
    let step = inner.step_for(&seen);
    let key = seen.key.clone();
    let collection = seen.collection.unwrap_or(0);
    lock(&inner.seen).push(seen);
    let mut reply = match &step.answer {
        Answer::Execute if is_bootstrap(frame.opcode) => session.bootstrap(&inner.shared, &frame),
        Answer::Execute if bad_key => Reply::status(Status::EINVAL),
        Answer::Execute => {
            let foreign = vbuckets
                .iter()
                .any(|vbucket| !inner.shared.owns(inner.index, *vbucket));
            if let Some(refusal) = session.refuses_data(&inner.shared) {
                Reply::status(refusal)
            } else if foreign {
                session.not_my_vbucket(&inner.shared)
            } else {
                let collections = session.has(FEATURE_COLLECTIONS);
                let request = DataRequest {
                    frame: &frame,
                    collection,
                    key,
                    collections,
                };
                data::carry_out(&inner.shared, &request)
            }
        }
        Answer::NotMyVbucket => session.not_my_vbucket(&inner.shared),
        Answer::Status {
            status,
            body,
            datatype,
            extras,
        } => Reply {
            value: body.clone(),
            datatype: *datatype,
            extras: extras.clone(),
            ..Reply::status(*status)
        },
        Answer::Raw(_) | Answer::Nothing => Reply::ok(),
    };
    if reply.status == Status::UNKNOWN_COLLECTION && reply.value.is_empty() {
        let manifest = format!(
            "{{\"manifest_uid\":\"1\",\"error\":{{\"context\":\"Unknown collection id {collection:#x}\",\"ref\":\"testbed\"}}}}"
        );
        reply.value = manifest.into();
        reply.datatype = frame::DATATYPE_JSON;
    }
    let bytes = match step.answer {
        Answer::Raw(bytes) => bytes,
        Answer::Nothing => Bytes::new(),
        _ => encode(session, &frame, reply, &step, arrived),
    };
    (
        step.delay,
        Outgoing {
            bytes,
            delivery: step.delivery,
            opaque: frame.opaque,
        },
    )
}

/// The record of a request, the vbuckets it needs, and whether its key is malformed.
fn note(
    session: &Session,
    connection: u64,
    arrived: Instant,
    frame: &Frame,
) -> (SeenRequest, Vec<u16>, bool) {
    let keyed = frame.opcode.is_keyed();
    let (vbuckets, wire_key) = if frame.opcode == Opcode::OBSERVE {
        data::observed(frame.value.clone())
    } else {
        let vbuckets = if keyed {
            vec![frame.specific]
        } else {
            Vec::new()
        };
        (vbuckets, frame.key.clone())
    };
    let (mut collection, mut key, mut bad_key) = (None, wire_key, false);
    if keyed && session.has(FEATURE_COLLECTIONS) {
        match frame::split_collection_id(&key) {
            Ok((id, rest)) => (collection, key) = (Some(id), rest),
            Err(_) => bad_key = true,
        }
    }
    let seen = SeenRequest {
        opcode: frame.opcode,
        key,
        collection,
        vbucket: if frame.opcode == Opcode::OBSERVE {
            vbuckets.first().copied().unwrap_or(frame.specific)
        } else {
            frame.specific
        },
        opaque: frame.opaque,
        cas: frame.cas,
        extras: frame.extras.clone(),
        value: frame.value.clone(),
        framing: frame.framing.clone(),
        connection,
        arrived,
    };
    (seen, vbuckets, bad_key)
}

fn encode(session: &Session, asked: &Frame, reply: Reply, step: &Step, arrived: Instant) -> Bytes {
    let mut framing = BytesMut::new();
    // With tracing enabled, every response carries the server duration.
    let took = session.has(FEATURE_TRACING).then(|| arrived.elapsed());
    let extras = [
        (FRAME_SERVER_DURATION, step.server_duration.or(took)),
        (FRAME_THROTTLE_DURATION, step.throttle_duration),
    ];
    for (id, duration) in extras {
        if let Some(duration) = duration {
            let value = encode_duration(duration).to_be_bytes();
            put_framing_extra(&mut framing, id as u8, &value).expect("two bytes fit");
        }
    }
    let frame = Frame {
        datatype: reply.datatype,
        specific: reply.status.0,
        cas: reply.cas,
        framing: framing.freeze(),
        extras: reply.extras,
        key: reply.key,
        value: reply.value,
        ..Frame::new(Magic::Response, asked.opcode, asked.opaque)
    };
    let mut bytes = BytesMut::new();
    match frame.encode(&mut bytes) {
        Ok(()) => bytes.freeze(),
        // Only a script can create a frame that does not fit; the client then gets the bare status.
        Err(_) => {
            let bare = Frame {
                specific: reply.status.0,
                ..Frame::new(Magic::Response, asked.opcode, asked.opaque)
            };
            bare.encode(&mut bytes).expect("an empty frame fits");
            bytes.freeze()
        }
    }
}

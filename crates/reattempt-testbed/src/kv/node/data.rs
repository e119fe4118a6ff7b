//! The data operations of the node, on the shared store.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use reattempt_clients::kv::frame::{self, Frame};
use reattempt_couchbase::kv::{Opcode, Status};

use super::reply::Reply;
use super::shared::Shared;
use super::store::{Document, WriteMode};
use super::subdoc;

/// `increment` with this expiry does not create a missing counter.
const DO_NOT_CREATE: u32 = 0xffff_ffff;
/// Maximum document size, in bytes.
const MAX_VALUE: usize = 20 * 1024 * 1024;

/// A data request whose key has already been split from its collection id.
#[derive(Debug)]
pub(super) struct DataRequest<'a> {
    pub(super) frame: &'a Frame,
    pub(super) collection: u32,
    pub(super) key: Bytes,
    /// Whether keys in bodies carry a collection id as well.
    pub(super) collections: bool,
}

/// Executes a data request. The owner of its vbucket is already checked, except for `observe`.
pub(super) fn carry_out(shared: &Shared, request: &DataRequest<'_>) -> Reply {
    answer(shared, request).unwrap_or_else(Reply::status)
}

fn answer(shared: &Shared, request: &DataRequest<'_>) -> Result<Reply, Status> {
    let frame = request.frame;
    match frame.opcode {
        Opcode::NOOP => return Ok(Reply::ok()),
        Opcode::VERSION => return Ok(Reply::value("testbed")),
        Opcode::COLLECTIONS_GET_ID => return collection_id(shared, frame),
        Opcode::OBSERVE => return observe(shared, request),
        op if !op.is_keyed() => return Err(Status::UNKNOWN_COMMAND),
        _ => {}
    }
    if request.key.is_empty() || request.key.len() > 250 {
        return Err(Status::EINVAL);
    }
    if frame.value.len() > MAX_VALUE {
        return Err(Status::E2BIG);
    }
    shared.knows_collection(request.collection)?;
    let id = (request.collection, request.key.clone());
    let mut extras = frame.extras.clone();
    let mut documents = shared.store.lock();
    let written = |cas: u64| Reply { cas, ..Reply::ok() };
    match frame.opcode {
        Opcode::GET => documents
            .find(&id)
            .map(|found| read(found))
            .ok_or(Status::KEY_ENOENT),
        Opcode::SET | Opcode::ADD | Opcode::REPLACE => {
            exactly(&extras, 8)?;
            let mode = match frame.opcode {
                Opcode::ADD => WriteMode::MustNotExist,
                Opcode::REPLACE => WriteMode::MustExist,
                _ => WriteMode::Any,
            };
            let (flags, expiry) = (extras.get_u32(), extras.get_u32());
            let value = (frame.value.clone(), frame.datatype & frame::DATATYPE_JSON);
            documents
                .write(id, frame.cas, mode, value, (flags, expiry))
                .map(written)
        }
        Opcode::DELETE => documents.delete(&id, frame.cas).map(written),
        Opcode::APPEND | Opcode::PREPEND => documents
            .update(&id, frame.cas, Status::NOT_STORED, |old| {
                let (first, second) = match frame.opcode {
                    Opcode::APPEND => (old, &frame.value),
                    _ => (&frame.value, old),
                };
                if first.len() + second.len() > MAX_VALUE {
                    return Err(Status::E2BIG);
                }
                Ok(([first.as_ref(), second.as_ref()].concat().into(), ()))
            })
            .map(|(cas, ())| written(cas)),
        Opcode::INCREMENT | Opcode::DECREMENT => {
            exactly(&extras, 20)?;
            let (delta, initial) = (extras.get_u64(), extras.get_u64());
            let expiry = extras.get_u32();
            if documents.find(&id).is_none() && expiry != DO_NOT_CREATE {
                let value = (Bytes::from(initial.to_string()), frame::DATATYPE_JSON);
                let cas = documents.write(id, 0, WriteMode::Any, value, (0, expiry))?;
                return Ok(Reply {
                    cas,
                    ..Reply::value(initial.to_be_bytes().to_vec())
                });
            }
            let up = frame.opcode == Opcode::INCREMENT;
            let (cas, count) = documents.update(&id, frame.cas, Status::KEY_ENOENT, |old| {
                count(old, delta, up)
            })?;
            Ok(Reply {
                cas,
                ..Reply::value(count.to_be_bytes().to_vec())
            })
        }
        Opcode::TOUCH => {
            exactly(&extras, 4)?;
            documents
                .touch(&id, extras.get_u32())
                .map(|found| written(found.cas))
        }
        Opcode::GET_AND_TOUCH => {
            exactly(&extras, 4)?;
            documents
                .touch(&id, extras.get_u32())
                .map(|found| read(&found))
        }
        Opcode::GET_AND_LOCK => {
            let seconds = if extras.len() == 4 {
                extras.get_u32()
            } else {
                0
            };
            let found = documents.get_and_lock(&id, seconds)?;
            // Only the client that locked a document learns its CAS.
            Ok(Reply {
                cas: found.cas,
                ..read(&found)
            })
        }
        Opcode::UNLOCK => documents.unlock(&id, frame.cas).map(|()| Reply::ok()),
        Opcode::SUBDOC_MULTI_LOOKUP => {
            let found = documents.find(&id).ok_or(Status::KEY_ENOENT)?.clone();
            drop(documents);
            let reply = subdoc::lookup_in(&found.value, &frame.value);
            Ok(Reply {
                cas: found.visible_cas(),
                ..reply
            })
        }
        _ => Err(Status::UNKNOWN_COMMAND),
    }
}

fn exactly(extras: &Bytes, length: usize) -> Result<(), Status> {
    if extras.len() == length {
        Ok(())
    } else {
        Err(Status::EINVAL)
    }
}

fn read(document: &Document) -> Reply {
    Reply {
        extras: document.flags.to_be_bytes().to_vec().into(),
        cas: document.visible_cas(),
        datatype: document.datatype,
        ..Reply::value(document.value.clone())
    }
}

fn count(old: &Bytes, delta: u64, up: bool) -> Result<(Bytes, u64), Status> {
    let text = std::str::from_utf8(old).map_err(|_| Status::DELTA_BADVAL)?;
    let now: u64 = text.trim().parse().map_err(|_| Status::DELTA_BADVAL)?;
    let next = if up {
        now.wrapping_add(delta)
    } else {
        now.saturating_sub(delta)
    };
    Ok((next.to_string().into(), next))
}

fn collection_id(shared: &Shared, frame: &Frame) -> Result<Reply, Status> {
    // Old servers read the path from the key, newer ones from the value.
    let path = if frame.value.is_empty() {
        &frame.key
    } else {
        &frame.value
    };
    let path = std::str::from_utf8(path).map_err(|_| Status::EINVAL)?;
    let (manifest, id) = shared.collection(path)?;
    let mut extras = BytesMut::with_capacity(12);
    extras.put_u64(manifest);
    extras.put_u32(id);
    Ok(Reply {
        extras: extras.freeze(),
        ..Reply::ok()
    })
}

/// Returns the state of each key in the body; every stored document counts as persisted.
fn observe(shared: &Shared, request: &DataRequest<'_>) -> Result<Reply, Status> {
    let mut body = request.frame.value.clone();
    let mut answer = BytesMut::new();
    while body.has_remaining() {
        if body.len() < 4 {
            return Err(Status::EINVAL);
        }
        let (vbucket, length) = (body.get_u16(), usize::from(body.get_u16()));
        if body.len() < length {
            return Err(Status::EINVAL);
        }
        let whole = body.split_to(length);
        let id = if request.collections {
            frame::split_collection_id(&whole).map_err(|_| Status::EINVAL)?
        } else {
            (0, whole.clone())
        };
        let mut documents = shared.store.lock();
        let (state, cas) = documents
            .find(&id)
            .map_or((0x80, 0), |found| (0x01, found.cas));
        answer.put_u16(vbucket);
        answer.put_u16(length as u16);
        answer.put_slice(&whole);
        answer.put_u8(state);
        answer.put_u64(cas);
    }
    Ok(Reply::value(answer))
}

/// The vbuckets in the body of an `observe`, and its first key; empty when the body is invalid.
pub(super) fn observed(mut body: Bytes) -> (Vec<u16>, Bytes) {
    let (mut vbuckets, mut first) = (Vec::new(), Bytes::new());
    while body.len() >= 4 {
        let (vbucket, length) = (body.get_u16(), usize::from(body.get_u16()));
        if body.len() < length {
            break;
        }
        let key = body.split_to(length);
        if vbuckets.is_empty() {
            first = key;
        }
        vbuckets.push(vbucket);
    }
    (vbuckets, first)
}

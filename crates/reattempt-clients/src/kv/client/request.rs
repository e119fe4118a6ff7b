//! The logical request, without opaque and connection-specific framing.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use reattempt_couchbase::kv::Opcode;

use super::payload::{Parts, Payload};
use crate::kv::frame::{Frame, FrameError, Magic, fits, put_collection_id};

/// One path of a `lookup_in`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupSpec {
    /// The value at a path.
    Get(String),
    /// Whether a path exists.
    Exists(String),
    /// The number of members at a path.
    Count(String),
    /// The whole document.
    Document,
}

/// The collection of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collection {
    /// By id; 0 is the default collection.
    Id(u32),
    /// As `scope.collection`, for a [`CollectionClient`](crate::kv::CollectionClient) to look up. A
    /// connection sends no keyed request that still has it.
    Named(Arc<str>),
}

/// A logical request. It is encoded again, with a new opaque, each time it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KvRequest {
    /// The operation.
    pub opcode: Opcode,
    /// The key, without collection id.
    pub key: Bytes,
    /// The collection of the key.
    pub collection: Collection,
    /// The vbucket; `None` leaves it to the router (a single node then gets 0): that of the key, or
    /// any node if the operation names no document.
    pub vbucket: Option<u16>,
    /// The datatype bits of the value.
    pub datatype: u8,
    payload: Payload,
}

impl KvRequest {
    /// Creates a request with only opcode and key.
    pub fn new(opcode: Opcode, key: impl Into<Bytes>) -> Self {
        Self {
            opcode,
            key: key.into(),
            collection: Collection::Id(0),
            vbucket: None,
            datatype: 0,
            payload: Payload::default(),
        }
    }

    /// Reads a document.
    pub fn get(key: impl Into<Bytes>) -> Self {
        Self::new(Opcode::GET, key)
    }

    /// Writes a document, whether it exists or not. `expiry` in seconds, 0 for never.
    pub fn set(key: impl Into<Bytes>, value: impl Into<Bytes>, flags: u32, expiry: u32) -> Self {
        Self::write(Opcode::SET, key.into(), value.into(), flags, expiry)
    }

    /// Writes a document that must not exist.
    pub fn add(key: impl Into<Bytes>, value: impl Into<Bytes>, flags: u32, expiry: u32) -> Self {
        Self::write(Opcode::ADD, key.into(), value.into(), flags, expiry)
    }

    /// Writes a document that must exist.
    pub fn replace(
        key: impl Into<Bytes>,
        value: impl Into<Bytes>,
        flags: u32,
        expiry: u32,
    ) -> Self {
        Self::write(Opcode::REPLACE, key.into(), value.into(), flags, expiry)
    }

    fn write(opcode: Opcode, key: Bytes, value: Bytes, flags: u32, expiry: u32) -> Self {
        let extras = [flags, expiry].map(u32::to_be_bytes);
        Self::new(opcode, key).with(|parts| {
            parts.value = value;
            parts.extras = extras.concat().into();
        })
    }

    /// Removes a document.
    pub fn delete(key: impl Into<Bytes>) -> Self {
        Self::new(Opcode::DELETE, key)
    }

    /// Adds bytes to the end of a document.
    pub fn append(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self::new(Opcode::APPEND, key).with_value(value)
    }

    /// Adds bytes to the start of a document.
    pub fn prepend(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self::new(Opcode::PREPEND, key).with_value(value)
    }

    /// Adds to a counter; `initial` is its value when it does not exist.
    pub fn increment(key: impl Into<Bytes>, delta: u64, initial: u64, expiry: u32) -> Self {
        let numbers = [delta, initial].map(u64::to_be_bytes).concat();
        let extras = [&*numbers, &expiry.to_be_bytes()].concat();
        Self::new(Opcode::INCREMENT, key).with_extras(extras)
    }

    /// Sets the expiry of a document, in seconds.
    pub fn touch(key: impl Into<Bytes>, expiry: u32) -> Self {
        Self::with_seconds(Opcode::TOUCH, key.into(), expiry)
    }

    /// Reads a document and sets its expiry, in seconds.
    pub fn get_and_touch(key: impl Into<Bytes>, expiry: u32) -> Self {
        Self::with_seconds(Opcode::GET_AND_TOUCH, key.into(), expiry)
    }

    /// Reads a document and locks it for some seconds (0: the server's default).
    pub fn get_and_lock(key: impl Into<Bytes>, seconds: u32) -> Self {
        Self::with_seconds(Opcode::GET_AND_LOCK, key.into(), seconds)
    }

    fn with_seconds(opcode: Opcode, key: Bytes, seconds: u32) -> Self {
        Self::new(opcode, key).with_extras(seconds.to_be_bytes())
    }

    /// Unlocks a document that was locked with this CAS.
    pub fn unlock(key: impl Into<Bytes>, cas: u64) -> Self {
        Self::new(Opcode::UNLOCK, key).with_cas(cas)
    }

    /// Does nothing and answers.
    pub fn noop() -> Self {
        Self::new(Opcode::NOOP, Bytes::new())
    }

    /// Reads paths of a JSON document.
    pub fn lookup_in(key: impl Into<Bytes>, specs: impl IntoIterator<Item = LookupSpec>) -> Self {
        let mut value = BytesMut::new();
        for spec in specs {
            let (op, path) = match &spec {
                LookupSpec::Get(path) => (Opcode::SUBDOC_GET, path.as_str()),
                LookupSpec::Exists(path) => (Opcode::SUBDOC_EXISTS, path.as_str()),
                LookupSpec::Count(path) => (Opcode::SUBDOC_GET_COUNT, path.as_str()),
                LookupSpec::Document => (Opcode::GET, ""),
            };
            // A path longer than 64 KiB cannot be encoded; the server refuses the truncated path.
            let path = &path.as_bytes()[..path.len().min(0xffff)];
            value.put_u8(op.0);
            value.put_u8(0);
            value.put_u16(path.len() as u16);
            value.put_slice(path);
        }
        Self::new(Opcode::SUBDOC_MULTI_LOOKUP, key).with_value(value)
    }

    /// Returns how far a key is persisted and replicated.
    pub fn observe(key: impl Into<Bytes>) -> Self {
        Self::new(Opcode::OBSERVE, key)
    }

    /// Looks up the id of `scope.collection`.
    pub fn get_collection_id(path: impl Into<Bytes>) -> Self {
        Self::new(Opcode::COLLECTIONS_GET_ID, Bytes::new()).with_value(path)
    }

    /// Fetches the cluster configuration; with `(epoch, rev)` only a newer one (otherwise the
    /// response is empty). Only for nodes that granted feature 0x1d.
    pub fn get_cluster_config(known: Option<(i64, i64)>) -> Self {
        let request = Self::new(Opcode::GET_CLUSTER_CONFIG, Bytes::new());
        match known {
            Some((epoch, rev)) => request.with_extras([epoch, rev].map(i64::to_be_bytes).concat()),
            None => request,
        }
    }

    fn with(mut self, set: impl FnOnce(&mut Parts)) -> Self {
        self.payload = self.payload.set(set);
        self
    }

    /// Sets the value.
    pub fn with_value(self, value: impl Into<Bytes>) -> Self {
        self.with(|parts| parts.value = value.into())
    }

    /// Sets the CAS that the document must have.
    pub fn with_cas(self, cas: u64) -> Self {
        self.with(|parts| parts.cas = cas)
    }

    /// Sets the collection by id.
    pub fn in_collection(mut self, id: u32) -> Self {
        self.collection = Collection::Id(id);
        self
    }

    /// Sets the collection by `scope.collection`. Only for a
    /// [`CollectionClient`](crate::kv::CollectionClient), which looks up its id; without one a
    /// keyed request fails with [`UnresolvedCollection`](super::ClientError::UnresolvedCollection).
    pub fn in_collection_named(mut self, path: impl Into<Arc<str>>) -> Self {
        self.collection = Collection::Named(path.into());
        self
    }

    /// Sets the extras.
    pub fn with_extras(self, extras: impl Into<Box<[u8]>>) -> Self {
        self.with(|parts| parts.extras = extras.into())
    }

    /// Sets the encoded framing extras, see [`put_framing_extra`]. A connection whose node did not
    /// agree to them (feature 0x10) sends no request with some.
    ///
    /// [`put_framing_extra`]: crate::kv::frame::put_framing_extra
    pub fn with_framing(self, framing: impl Into<Box<[u8]>>) -> Self {
        self.with(|parts| parts.framing = framing.into())
    }

    /// The value.
    pub fn value(&self) -> &[u8] {
        self.payload.get().map_or(&[], |parts| &parts.value)
    }

    /// The CAS that the document must have; 0 for any.
    pub fn cas(&self) -> u64 {
        self.payload.get().map_or(0, |parts| parts.cas)
    }

    /// The extras.
    pub fn extras(&self) -> &[u8] {
        self.payload.get().map_or(&[], |parts| &parts.extras)
    }

    /// The encoded framing extras.
    pub fn framing(&self) -> &[u8] {
        self.payload.get().map_or(&[], |parts| &parts.framing)
    }

    /// Whether the key determines the node of the request.
    pub fn is_keyed(&self) -> bool {
        self.opcode.is_keyed()
    }

    /// Encodes the request for one connection.
    pub(super) fn encode(&self, opaque: u32, collections: bool) -> Result<Bytes, FrameError> {
        let vbucket = self.vbucket.unwrap_or(0);
        let mut with_id = BytesMut::new();
        let key = match &self.collection {
            Collection::Id(id) if collections && self.is_keyed() => {
                with_id.reserve(5 + self.key.len());
                put_collection_id(&mut with_id, *id);
                with_id.put_slice(&self.key);
                &*with_id
            }
            _ => &*self.key,
        };
        let mut frame = Frame {
            magic: Magic::Request,
            opcode: self.opcode,
            datatype: self.datatype,
            specific: vbucket,
            opaque,
            cas: self.cas(),
            framing: self.framing(),
            extras: self.extras(),
            key,
            value: self.value(),
        };
        let mut observed = BytesMut::new();
        if self.opcode == Opcode::OBSERVE {
            // The only operation with its keys in the body.
            fits("key", key.len(), 0xffff)?;
            observed.put_u16(vbucket);
            observed.put_u16(key.len() as u16);
            observed.put_slice(key);
            (frame.key, frame.value) = (&[], &*observed);
        }
        let mut bytes = BytesMut::new();
        frame.encode(&mut bytes)?;
        Ok(bytes.freeze())
    }
}

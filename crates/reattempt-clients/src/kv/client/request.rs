//! The logical request, without opaque and connection-specific framing.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use reattempt_couchbase::kv::Opcode;

use crate::kv::frame::{Frame, FrameError, Magic, put_collection_id};

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

/// A logical request. It is encoded again, with a new opaque, each time it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KvRequest {
    /// The operation.
    pub opcode: Opcode,
    /// The key, without collection id.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// The extras.
    pub extras: Bytes,
    /// The CAS that the document must have; 0 for any.
    pub cas: u64,
    /// The collection id; 0 is the default collection.
    pub collection: u32,
    /// The collection as `scope.collection`, for a
    /// [`CollectionClient`](crate::kv::CollectionClient) to look up, which clears it. A connection
    /// sends no keyed request that still has it.
    pub collection_path: Option<Arc<str>>,
    /// The vbucket; `None` leaves it to the router (a single node then gets 0): that of the key, or
    /// any node if the operation names no document.
    pub vbucket: Option<u16>,
    /// The datatype bits of the value.
    pub datatype: u8,
    /// The encoded framing extras. A connection whose node did not agree to them (feature 0x10)
    /// sends no request with some.
    pub framing: Bytes,
}

impl KvRequest {
    /// Creates a request with only opcode and key.
    pub fn new(opcode: Opcode, key: impl Into<Bytes>) -> Self {
        Self {
            opcode,
            key: key.into(),
            value: Bytes::new(),
            extras: Bytes::new(),
            cas: 0,
            collection: 0,
            collection_path: None,
            vbucket: None,
            datatype: 0,
            framing: Bytes::new(),
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
        let mut extras = BytesMut::with_capacity(8);
        extras.put_u32(flags);
        extras.put_u32(expiry);
        Self {
            value,
            extras: extras.freeze(),
            ..Self::new(opcode, key)
        }
    }

    /// Removes a document.
    pub fn delete(key: impl Into<Bytes>) -> Self {
        Self::new(Opcode::DELETE, key)
    }

    /// Adds bytes to the end of a document.
    pub fn append(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self {
            value: value.into(),
            ..Self::new(Opcode::APPEND, key)
        }
    }

    /// Adds bytes to the start of a document.
    pub fn prepend(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self {
            value: value.into(),
            ..Self::new(Opcode::PREPEND, key)
        }
    }

    /// Adds to a counter; `initial` is its value when it does not exist.
    pub fn increment(key: impl Into<Bytes>, delta: u64, initial: u64, expiry: u32) -> Self {
        let mut extras = BytesMut::with_capacity(20);
        extras.put_u64(delta);
        extras.put_u64(initial);
        extras.put_u32(expiry);
        Self {
            extras: extras.freeze(),
            ..Self::new(Opcode::INCREMENT, key)
        }
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
        let extras = Bytes::copy_from_slice(&seconds.to_be_bytes());
        Self {
            extras,
            ..Self::new(opcode, key)
        }
    }

    /// Unlocks a document that was locked with this CAS.
    pub fn unlock(key: impl Into<Bytes>, cas: u64) -> Self {
        Self {
            cas,
            ..Self::new(Opcode::UNLOCK, key)
        }
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
        Self {
            value: value.freeze(),
            ..Self::new(Opcode::SUBDOC_MULTI_LOOKUP, key)
        }
    }

    /// Returns how far a key is persisted and replicated.
    pub fn observe(key: impl Into<Bytes>) -> Self {
        Self::new(Opcode::OBSERVE, key)
    }

    /// Looks up the id of `scope.collection`.
    pub fn get_collection_id(path: impl Into<Bytes>) -> Self {
        Self {
            value: path.into(),
            ..Self::new(Opcode::COLLECTIONS_GET_ID, Bytes::new())
        }
    }

    /// Fetches the cluster configuration; with `(epoch, rev)` only a newer one (otherwise the
    /// response is empty). Only for nodes that granted feature 0x1d.
    pub fn get_cluster_config(known: Option<(i64, i64)>) -> Self {
        let mut extras = BytesMut::new();
        if let Some((epoch, rev)) = known {
            extras.put_i64(epoch);
            extras.put_i64(rev);
        }
        Self {
            extras: extras.freeze(),
            ..Self::new(Opcode::GET_CLUSTER_CONFIG, Bytes::new())
        }
    }

    /// Sets the CAS that the document must have.
    pub fn with_cas(mut self, cas: u64) -> Self {
        self.cas = cas;
        self
    }

    /// Sets the collection by id.
    pub fn in_collection(mut self, id: u32) -> Self {
        self.collection = id;
        self
    }

    /// Sets the collection by `scope.collection`. Only for a
    /// [`CollectionClient`](crate::kv::CollectionClient), which looks up its id; without one a
    /// keyed request fails with [`UnresolvedCollection`](super::ClientError::UnresolvedCollection).
    pub fn in_collection_named(mut self, path: impl Into<Arc<str>>) -> Self {
        self.collection_path = Some(path.into());
        self
    }

    /// Whether the key determines the node of the request.
    pub fn is_keyed(&self) -> bool {
        self.opcode.is_keyed()
    }

    /// Encodes the request for one connection.
    pub(super) fn encode(&self, opaque: u32, collections: bool) -> Result<Bytes, FrameError> {
        let vbucket = self.vbucket.unwrap_or(0);
        let key = if collections && self.is_keyed() {
            let mut key = BytesMut::with_capacity(5 + self.key.len());
            put_collection_id(&mut key, self.collection);
            key.put_slice(&self.key);
            key.freeze()
        } else {
            self.key.clone()
        };
        let mut frame = Frame {
            datatype: self.datatype,
            specific: vbucket,
            cas: self.cas,
            framing: self.framing.clone(),
            extras: self.extras.clone(),
            value: self.value.clone(),
            ..Frame::new(Magic::Request, self.opcode, opaque)
        };
        if self.opcode == Opcode::OBSERVE {
            // The only operation with its keys in the body.
            let length = u16::try_from(key.len()).map_err(|_| FrameError::PartTooLong {
                part: "key",
                length: key.len(),
                limit: 0xffff,
            })?;
            let mut value = BytesMut::with_capacity(4 + key.len());
            value.put_u16(vbucket);
            value.put_u16(length);
            value.put_slice(&key);
            frame.value = value.freeze();
        } else {
            frame.key = key;
        }
        let mut bytes = BytesMut::new();
        frame.encode(&mut bytes)?;
        Ok(bytes.freeze())
    }
}

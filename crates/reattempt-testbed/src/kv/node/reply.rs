//! What an operation of the node results in.

use bytes::Bytes;

use reattempt_couchbase::kv::Status;

/// The outcome of an operation, before it is encoded.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: Status,
    pub(super) extras: Bytes,
    pub(super) key: Bytes,
    pub(super) value: Bytes,
    pub(super) cas: u64,
    pub(super) datatype: u8,
}

impl Reply {
    pub(super) fn status(status: Status) -> Self {
        Self {
            status,
            extras: Bytes::new(),
            key: Bytes::new(),
            value: Bytes::new(),
            cas: 0,
            datatype: 0,
        }
    }

    pub(super) fn ok() -> Self {
        Self::status(Status::SUCCESS)
    }

    pub(super) fn value(value: impl Into<Bytes>) -> Self {
        Self {
            value: value.into(),
            ..Self::ok()
        }
    }
}

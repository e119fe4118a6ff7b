//! The messages and fields of etcd's API v3 that the tests use.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Header {
    #[prost(uint64, tag = "2")]
    pub(crate) member_id: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    /// The revision of the store at the last write.
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    /// The number of writes.
    #[prost(int64, tag = "4")]
    pub(crate) version: i64,
    #[prost(string, tag = "5")]
    pub(crate) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    /// The end of the range, exclusive; empty for `key` only.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutRequest {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutResponse {}

/// The key was last written at this revision; the API's default result is "equal".
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Compare {
    /// The compared property, an enumeration of the API.
    #[prost(int32, tag = "2")]
    pub(crate) target: i32,
    #[prost(string, tag = "3")]
    pub(crate) key: String,
    /// Optional, because 0 (the key does not exist) must be on the wire too.
    #[prost(int64, optional, tag = "6")]
    pub(crate) mod_revision: Option<i64>,
}

impl Compare {
    /// The target "mod revision".
    pub(crate) const MOD_REVISION: i32 = 2;
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestOp {
    #[prost(message, optional, tag = "2")]
    pub(crate) put: Option<PutRequest>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) success: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnResponse {
    /// Whether all comparisons held, and so `success` was carried out.
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    /// The id of the leader; 0 for none.
    #[prost(uint64, tag = "4")]
    pub(crate) leader: u64,
}

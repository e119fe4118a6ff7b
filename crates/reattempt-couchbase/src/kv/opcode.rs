//! Operations of the memcached binary protocol as used by Couchbase.

use std::fmt;

/// An operation: byte 1 of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Opcode(pub u8);

macro_rules! opcodes {
    ($($name:ident = $code:literal, $word:literal;)*) => {
        impl Opcode {
            $(#[doc = concat!("`", $word, "` (`", stringify!($code), "`).")]
            pub const $name: Self = Self($code);)*

            /// The name, or `None` for an operation that is not in the table.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some($word),)*
                    _ => None,
                }
            }
        }
    };
}

opcodes! {
    GET = 0x00, "GET";
    SET = 0x01, "SET";
    ADD = 0x02, "ADD";
    REPLACE = 0x03, "REPLACE";
    DELETE = 0x04, "DELETE";
    INCREMENT = 0x05, "INCREMENT";
    DECREMENT = 0x06, "DECREMENT";
    NOOP = 0x0a, "NOOP";
    VERSION = 0x0b, "VERSION";
    APPEND = 0x0e, "APPEND";
    PREPEND = 0x0f, "PREPEND";
    STAT = 0x10, "STAT";
    TOUCH = 0x1c, "TOUCH";
    GET_AND_TOUCH = 0x1d, "GET_AND_TOUCH";
    HELLO = 0x1f, "HELLO";
    SASL_LIST_MECHS = 0x20, "SASL_LIST_MECHS";
    SASL_AUTH = 0x21, "SASL_AUTH";
    SASL_STEP = 0x22, "SASL_STEP";
    GET_ALL_VB_SEQNOS = 0x48, "GET_ALL_VB_SEQNOS";
    GET_EX = 0x49, "GET_EX";
    GET_EX_REPLICA = 0x4a, "GET_EX_REPLICA";
    DCP_OPEN = 0x50, "DCP_OPEN";
    DCP_ADD_STREAM = 0x51, "DCP_ADD_STREAM";
    DCP_CLOSE_STREAM = 0x52, "DCP_CLOSE_STREAM";
    DCP_STREAM_REQUEST = 0x53, "DCP_STREAM_REQUEST";
    DCP_GET_FAILOVER_LOG = 0x54, "DCP_GET_FAILOVER_LOG";
    DCP_STREAM_END = 0x55, "DCP_STREAM_END";
    DCP_SNAPSHOT_MARKER = 0x56, "DCP_SNAPSHOT_MARKER";
    DCP_MUTATION = 0x57, "DCP_MUTATION";
    DCP_DELETION = 0x58, "DCP_DELETION";
    DCP_EXPIRATION = 0x59, "DCP_EXPIRATION";
    DCP_NOOP = 0x5c, "DCP_NOOP";
    DCP_BUFFER_ACKNOWLEDGEMENT = 0x5d, "DCP_BUFFER_ACKNOWLEDGEMENT";
    DCP_CONTROL = 0x5e, "DCP_CONTROL";
    GET_REPLICA = 0x83, "GET_REPLICA";
    SELECT_BUCKET = 0x89, "SELECT_BUCKET";
    OBSERVE_SEQNO = 0x91, "OBSERVE_SEQNO";
    OBSERVE = 0x92, "OBSERVE";
    GET_AND_LOCK = 0x94, "GET_AND_LOCK";
    UNLOCK = 0x95, "UNLOCK";
    FAILOVER_LOG = 0x96, "FAILOVER_LOG";
    GET_META = 0xa0, "GET_META";
    SET_CLUSTER_CONFIG = 0xb4, "SET_CLUSTER_CONFIG";
    GET_CLUSTER_CONFIG = 0xb5, "GET_CLUSTER_CONFIG";
    GET_RANDOM_KEY = 0xb6, "GET_RANDOM_KEY";
    SEQNO_PERSISTENCE = 0xb7, "SEQNO_PERSISTENCE";
    COLLECTIONS_GET_MANIFEST = 0xba, "COLLECTIONS_GET_MANIFEST";
    COLLECTIONS_GET_ID = 0xbb, "COLLECTIONS_GET_ID";
    COLLECTIONS_GET_SCOPE_ID = 0xbc, "COLLECTIONS_GET_SCOPE_ID";
    SUBDOC_GET = 0xc5, "SUBDOC_GET";
    SUBDOC_EXISTS = 0xc6, "SUBDOC_EXISTS";
    SUBDOC_DICT_ADD = 0xc7, "SUBDOC_DICT_ADD";
    SUBDOC_DICT_UPSERT = 0xc8, "SUBDOC_DICT_UPSERT";
    SUBDOC_DELETE = 0xc9, "SUBDOC_DELETE";
    SUBDOC_REPLACE = 0xca, "SUBDOC_REPLACE";
    SUBDOC_ARRAY_PUSH_LAST = 0xcb, "SUBDOC_ARRAY_PUSH_LAST";
    SUBDOC_ARRAY_PUSH_FIRST = 0xcc, "SUBDOC_ARRAY_PUSH_FIRST";
    SUBDOC_ARRAY_INSERT = 0xcd, "SUBDOC_ARRAY_INSERT";
    SUBDOC_ARRAY_ADD_UNIQUE = 0xce, "SUBDOC_ARRAY_ADD_UNIQUE";
    SUBDOC_COUNTER = 0xcf, "SUBDOC_COUNTER";
    SUBDOC_MULTI_LOOKUP = 0xd0, "SUBDOC_MULTI_LOOKUP";
    SUBDOC_MULTI_MUTATION = 0xd1, "SUBDOC_MULTI_MUTATION";
    SUBDOC_GET_COUNT = 0xd2, "SUBDOC_GET_COUNT";
    SUBDOC_REPLACE_BODY_WITH_XATTR = 0xd3, "SUBDOC_REPLACE_BODY_WITH_XATTR";
    RANGE_SCAN_CREATE = 0xda, "RANGE_SCAN_CREATE";
    RANGE_SCAN_CONTINUE = 0xdb, "RANGE_SCAN_CONTINUE";
    RANGE_SCAN_CANCEL = 0xdc, "RANGE_SCAN_CANCEL";
    GET_ERROR_MAP = 0xfe, "GET_ERROR_MAP";
}

impl Opcode {
    /// True for the operations of RFC 0049's idempotent operation list; all others are not
    /// idempotent.
    ///
    /// Get-and-lock and get-and-touch are not in the list.
    #[must_use]
    pub const fn is_idempotent(self) -> bool {
        matches!(
            self,
            Self::GET
                | Self::NOOP
                | Self::GET_REPLICA
                | Self::OBSERVE_SEQNO
                | Self::OBSERVE
                | Self::GET_CLUSTER_CONFIG
                | Self::COLLECTIONS_GET_MANIFEST
                | Self::COLLECTIONS_GET_ID
                | Self::SUBDOC_GET
                | Self::SUBDOC_EXISTS
                | Self::SUBDOC_MULTI_LOOKUP
                | Self::SUBDOC_GET_COUNT
        )
    }

    /// True for the replication protocol (0x50 to 0x67), which RFC 0049 excludes from its response
    /// code list.
    #[must_use]
    pub const fn is_dcp(self) -> bool {
        matches!(self.0, 0x50..=0x67)
    }

    /// True for the operations on parts of a document (0xc5 to 0xd3).
    #[must_use]
    pub const fn is_subdoc(self) -> bool {
        matches!(self.0, 0xc5..=0xd3)
    }

    /// True for the operations that name a document, so that the key carries the collection id and
    /// determines the vbucket.
    #[must_use]
    pub const fn is_keyed(self) -> bool {
        self.is_subdoc()
            || matches!(
                self,
                Self::GET
                    | Self::SET
                    | Self::ADD
                    | Self::REPLACE
                    | Self::DELETE
                    | Self::INCREMENT
                    | Self::DECREMENT
                    | Self::APPEND
                    | Self::PREPEND
                    | Self::TOUCH
                    | Self::GET_AND_TOUCH
                    | Self::GET_EX
                    | Self::GET_EX_REPLICA
                    | Self::GET_REPLICA
                    | Self::OBSERVE
                    | Self::GET_AND_LOCK
                    | Self::UNLOCK
                    | Self::GET_META
                    // GETK, EVICT_KEY; SET, ADD, DELETE and RETURN with metadata.
                    | Self(0x0c | 0x93 | 0xa2 | 0xa4 | 0xa8 | 0xb2)
            )
    }

    /// True for the operations of connection setup. Their responses concern only this connection,
    /// so the bootstrap decides about retries.
    #[must_use]
    pub const fn is_bootstrap(self) -> bool {
        matches!(
            self,
            Self::HELLO
                | Self::SASL_LIST_MECHS
                | Self::SASL_AUTH
                | Self::SASL_STEP
                | Self::SELECT_BUCKET
                | Self::GET_ERROR_MAP
        )
    }
}

impl From<u8> for Opcode {
    fn from(code: u8) -> Self {
        Self(code)
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "0x{:02x}", self.0),
        }
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C34: a named operation is in one of two lists, so that a new one is not forgotten.
    #[test]
    fn every_operation_on_a_document_is_keyed() {
        let others = (0..=0xff)
            .map(Opcode)
            .filter(|opcode| opcode.name().is_some() && !opcode.is_keyed() && !opcode.is_dcp());
        let others: Vec<_> = others.collect();
        assert_eq!(
            others,
            [
                Opcode::NOOP,
                Opcode::VERSION,
                Opcode::STAT,
                Opcode::HELLO,
                Opcode::SASL_LIST_MECHS,
                Opcode::SASL_AUTH,
                Opcode::SASL_STEP,
                Opcode::GET_ALL_VB_SEQNOS,
                Opcode::SELECT_BUCKET,
                Opcode::OBSERVE_SEQNO,
                Opcode::FAILOVER_LOG,
                Opcode::SET_CLUSTER_CONFIG,
                Opcode::GET_CLUSTER_CONFIG,
                Opcode::GET_RANDOM_KEY,
                Opcode::SEQNO_PERSISTENCE,
                Opcode::COLLECTIONS_GET_MANIFEST,
                Opcode::COLLECTIONS_GET_ID,
                Opcode::COLLECTIONS_GET_SCOPE_ID,
                Opcode::RANGE_SCAN_CREATE,
                Opcode::RANGE_SCAN_CONTINUE,
                Opcode::RANGE_SCAN_CANCEL,
                Opcode::GET_ERROR_MAP,
            ]
        );
    }
}

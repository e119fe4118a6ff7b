//! Opcodes of the memcached binary protocol that the node and the client use.

use reattempt_couchbase::kv::Opcode;

/// Reads a document.
pub const GET: u8 = 0x00;
/// Writes a document, whether it exists or not.
pub const SET: u8 = 0x01;
/// Writes a document that must not exist.
pub const ADD: u8 = 0x02;
/// Writes a document that must exist.
pub const REPLACE: u8 = 0x03;
/// Removes a document.
pub const DELETE: u8 = 0x04;
/// Adds to a counter.
pub const INCREMENT: u8 = 0x05;
/// Subtracts from a counter, not below zero.
pub const DECREMENT: u8 = 0x06;
/// Does nothing and answers.
pub const NOOP: u8 = 0x0a;
/// Returns the server's version.
pub const VERSION: u8 = 0x0b;
/// Adds bytes to the end of a document.
pub const APPEND: u8 = 0x0e;
/// Adds bytes to the start of a document.
pub const PREPEND: u8 = 0x0f;
/// Sets the expiry of a document.
pub const TOUCH: u8 = 0x1c;
/// Reads a document and sets its expiry.
pub const GET_AND_TOUCH: u8 = 0x1d;
/// Negotiates features.
pub const HELLO: u8 = 0x1f;
/// Lists the SASL mechanisms.
pub const SASL_LIST_MECHS: u8 = 0x20;
/// Starts authentication.
pub const SASL_AUTH: u8 = 0x21;
/// Continues authentication.
pub const SASL_STEP: u8 = 0x22;
/// Selects the bucket of this connection.
pub const SELECT_BUCKET: u8 = 0x89;
/// Returns how far keys are persisted and replicated.
pub const OBSERVE: u8 = 0x92;
/// Reads a document and locks it.
pub const GET_AND_LOCK: u8 = 0x94;
/// Unlocks a document.
pub const UNLOCK: u8 = 0x95;
/// Fetches the cluster configuration.
pub const GET_CLUSTER_CONFIG: u8 = 0xb5;
/// Looks up the id of `scope.collection`.
pub const GET_COLLECTION_ID: u8 = 0xbb;
/// Reads one path (a path of [`LOOKUP_IN`]).
pub const SUBDOC_GET: u8 = 0xc5;
/// Returns whether one path exists (a path of [`LOOKUP_IN`]).
pub const SUBDOC_EXISTS: u8 = 0xc6;
/// Reads several paths of one document.
pub const LOOKUP_IN: u8 = 0xd0;
/// Counts the members at one path (a path of [`LOOKUP_IN`]).
pub const SUBDOC_COUNT: u8 = 0xd2;
/// Fetches the error map.
pub const GET_ERROR_MAP: u8 = 0xfe;
/// Sent by the server (magic 0x82): the cluster configuration changed.
pub const CLUSTERMAP_CHANGED: u8 = 0x01;

/// Whether this opcode belongs to connection bootstrap.
pub fn is_bootstrap(opcode: u8) -> bool {
    matches!(
        opcode,
        HELLO
            | SASL_LIST_MECHS
            | SASL_AUTH
            | SASL_STEP
            | SELECT_BUCKET
            | GET_CLUSTER_CONFIG
            | GET_ERROR_MAP
    )
}

/// Whether a request with this opcode names a document, so that its key carries the collection id
/// and determines the vbucket.
pub fn is_keyed(opcode: u8) -> bool {
    let opcode = Opcode(opcode);
    opcode.is_subdoc()
        || matches!(
            opcode,
            Opcode::GET
                | Opcode::SET
                | Opcode::ADD
                | Opcode::REPLACE
                | Opcode::DELETE
                | Opcode::INCREMENT
                | Opcode::DECREMENT
                | Opcode::APPEND
                | Opcode::PREPEND
                | Opcode::TOUCH
                | Opcode::GET_AND_TOUCH
                | Opcode::GET_EX
                | Opcode::GET_EX_REPLICA
                | Opcode::GET_REPLICA
                | Opcode::OBSERVE
                | Opcode::GET_AND_LOCK
                | Opcode::UNLOCK
                | Opcode::GET_META
                // GETK, EVICT_KEY; SET, ADD, DELETE and RETURN with metadata.
                | Opcode(0x0c | 0x93 | 0xa2 | 0xa4 | 0xa8 | 0xb2)
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C34: a named operation is in one of two lists, so that a new one is not forgotten.
    #[test]
    fn every_operation_on_a_document_is_keyed() {
        let others = (0..=0xff)
            .map(Opcode)
            .filter(|opcode| opcode.name().is_some() && !is_keyed(opcode.0) && !opcode.is_dcp());
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

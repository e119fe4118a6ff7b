//! The reasons that MongoDB adds to the vocabulary.
//!
//! Reasons group what happened; the server's exact code is in
//! [`Failure::code`](reattempt_core::Failure::code).

reattempt_core::retry_reasons! {
    /// A network exception of the client: connecting, handshake, writing, reading, a socket timeout
    /// (Terms, Retryable Error).
    pub MONGODB_NETWORK_ERROR(false, false);
    /// The connection pool was cleared, so that nothing was sent (Terms, Retryable Error:
    /// PoolClearedError).
    pub MONGODB_POOL_CLEARED(true, false);
    /// The node is no writable primary (10107, 13435).
    pub MONGODB_NOT_WRITABLE_PRIMARY(true, false);
    /// The node is stepping down, recovering or going away (189, 13436, 11602, 11600, 91).
    pub MONGODB_NODE_IS_RECOVERING(false, false);
    /// The server could not reach another server (6, 7, 89, 9001).
    pub MONGODB_SERVER_NETWORK_ERROR(false, false);
    /// The server ran out of time for the operation (262; only where asked for).
    pub MONGODB_EXCEEDED_TIME_LIMIT(false, false);
    /// The server has no majority snapshot yet (134; only where asked for).
    pub MONGODB_READ_CONCERN_NOT_AVAILABLE_YET(true, false);
    /// The server, or the way to it, has more to do than it can (`SystemOverloadedError`; only
    /// where asked for).
    pub MONGODB_SYSTEM_OVERLOADED(false, false);
    /// The server said no, with a code that another attempt does not mend, or with none.
    pub MONGODB_SERVER_ERROR(false, false);
    /// No server could be selected.
    pub MONGODB_SERVER_SELECTION_FAILED(true, false);
    /// No connection came free in time (waitQueueTimeoutMS).
    pub MONGODB_WAIT_QUEUE_TIMEOUT(true, false);
    /// The selected server cannot run an equivalent of the command.
    pub MONGODB_SERVER_NOT_SUPPORTED(true, false);
    /// Anything else that went wrong inside the client.
    pub MONGODB_CLIENT_ERROR(false, false);
}

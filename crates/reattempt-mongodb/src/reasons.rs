//! The retry reasons that MongoDB adds.
//!
//! Reasons group failures; the server's exact code is in
//! [`Failure::code`](reattempt::Failure::code).

reattempt::retry_reasons! {
    /// A network exception of the client: connecting, handshake, writing, reading, a socket timeout
    /// (Terms, Retryable Error).
    pub MONGODB_NETWORK_ERROR(false, false);
    /// The connection pool was cleared, so nothing was sent (Terms, Retryable Error:
    /// PoolClearedError). Health and admission count the failure that cleared it, and not the calls
    /// that waited for a connection.
    pub MONGODB_POOL_CLEARED(true, false, request);
    /// The node is not a writable primary (10107, 13435).
    pub MONGODB_NOT_WRITABLE_PRIMARY(true, false);
    /// The node is stepping down, recovering or going away (189, 13436, 11602, 11600, 91).
    pub MONGODB_NODE_IS_RECOVERING(false, false);
    /// The server could not reach another server (6, 7, 89, 9001).
    pub MONGODB_SERVER_NETWORK_ERROR(false, false);
    /// The server exceeded the time limit of the operation (262; by option).
    pub MONGODB_EXCEEDED_TIME_LIMIT(false, false, overload);
    /// The server has no majority snapshot yet (134; by option).
    pub MONGODB_READ_CONCERN_NOT_AVAILABLE_YET(true, false);
    /// The server, or the network path to it, is overloaded (`SystemOverloadedError`; by option).
    pub MONGODB_SYSTEM_OVERLOADED(false, false, overload);
    /// The server returned an error with a code that is not retryable, or without a code.
    pub MONGODB_SERVER_ERROR(false, false, answer);
    /// No server could be selected.
    pub MONGODB_SERVER_SELECTION_FAILED(true, false, unsent);
    /// No connection became available in time (waitQueueTimeoutMS).
    pub MONGODB_WAIT_QUEUE_TIMEOUT(true, false, unsent);
    /// The selected server does not support an equivalent of the command.
    pub MONGODB_SERVER_NOT_SUPPORTED(true, false);
    /// The client cannot build the command: it says nothing about the server.
    pub MONGODB_INVALID_COMMAND(false, false, request);
    /// Any other failure inside the client, such as a reply that it cannot decode.
    pub MONGODB_CLIENT_ERROR(false, false);
}

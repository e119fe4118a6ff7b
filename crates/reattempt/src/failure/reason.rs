//! Retry reasons: why a retry may be needed (RFC 0049, RetryReason).

use std::fmt;

/// The definition of a reason. Stored in a `static` made by
/// [`retry_reasons!`](crate::retry_reasons).
#[derive(Debug)]
pub struct ReasonDef {
    name: &'static str,
    allows_non_idempotent_retry: bool,
    always_retry: bool,
    server_failed: bool,
    not_accepted: bool,
    item: bool,
    class: ReasonClass,
}

/// What a reason says about the server: the price of a further attempt depends on it
/// ([`Governor`](crate::Governor)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReasonClass {
    /// The server says that it has too much to do (HTTP 429 and 503, gRPC RESOURCE_EXHAUSTED, KV
    /// TMPFAIL), or there was no answer in time: the usual sign of a server that has too much to
    /// do, which may still work on the request. A further attempt adds to the load.
    Overload,
    /// Something failed that the next attempt may not meet: a lost connection, an internal error.
    #[default]
    Transient,
    /// The request never reached the server: no connection, or refused before it was sent.
    Unsent,
    /// This client did not send the request: its own body failed, or a part of the client refused
    /// it. That says nothing about the server.
    Request,
}

impl ReasonClass {
    /// The name in texts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overload => "overload",
            Self::Transient => "transient",
            Self::Unsent => "unsent",
            Self::Request => "request",
        }
    }
}

impl ReasonDef {
    /// A definition: the name and RFC 0049's two flags, of which
    /// [`always`](RetryReason::always_retry) bypasses the other one.
    #[must_use]
    pub const fn new(name: &'static str, allows_non_idempotent: bool, always: bool) -> Self {
        Self {
            name,
            allows_non_idempotent_retry: allows_non_idempotent,
            always_retry: always,
            server_failed: true,
            not_accepted: false,
            item: false,
            class: ReasonClass::Transient,
        }
    }

    /// A reason for which a server says that it is overloaded ([`ReasonClass::Overload`]).
    #[must_use]
    pub const fn overload(mut self) -> Self {
        self.class = ReasonClass::Overload;
        self
    }

    /// A reason of requests that never reached the server ([`ReasonClass::Unsent`]).
    #[must_use]
    pub const fn unsent(mut self) -> Self {
        self.class = ReasonClass::Unsent;
        self
    }

    /// A reason of requests that this client does not send ([`ReasonClass::Request`]).
    #[must_use]
    pub const fn request(mut self) -> Self {
        self.class = ReasonClass::Request;
        self
    }

    /// A reason for which a server, or a proxy before it, says that nothing accepted the request,
    /// without saying why: [`was_accepted`](crate::admission::was_accepted) is false.
    #[must_use]
    pub const fn not_accepted(mut self) -> Self {
        self.not_accepted = true;
        self
    }

    /// A reason for which a server gives its answer to the request (not found, invalid argument)
    /// rather than that it failed. If it is final, the log has such an answer at DEBUG, and
    /// [health](crate::health::Outcome::of) counts a success.
    #[must_use]
    pub const fn answer(mut self) -> Self {
        self.server_failed = false;
        self
    }

    /// An [`answer`](Self::answer) about the item that the request names (a locked document):
    /// health counts a success also if it is retried.
    #[must_use]
    pub const fn item(mut self) -> Self {
        self.item = true;
        self.answer()
    }
}

/// Why an attempt failed in a way that a retry may fix (RFC 0049, RetryReason).
///
/// The set is open: every protocol adds its own with [`retry_reasons!`](crate::retry_reasons), and
/// so can you. A reason is one pointer wide, `Copy`, and compared by the address of its definition:
/// two reasons of the same name from two crates are different.
#[derive(Clone, Copy)]
pub struct RetryReason(&'static ReasonDef);

impl RetryReason {
    /// The reason of a definition; prefer [`retry_reasons!`](crate::retry_reasons), which also
    /// creates the `static`.
    #[must_use]
    pub const fn from_def(def: &'static ReasonDef) -> Self {
        Self(def)
    }

    /// The name, in the specification's spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// True if the failed attempt is known to have had no effect, so that even a non-idempotent
    /// request may be sent again.
    #[must_use]
    pub const fn allows_non_idempotent_retry(self) -> bool {
        self.0.allows_non_idempotent_retry
    }

    /// True if the request is sent again under any strategy, with
    /// [`ControlledBackoff`](crate::strategy::ControlledBackoff), until the deadline, whether or
    /// not it is idempotent: this bypasses [`Failure::safe`](crate::Failure::safe) too. So give
    /// such a reason only to a failure that is known to have had no effect.
    #[must_use]
    pub const fn always_retry(self) -> bool {
        self.0.always_retry
    }

    /// True if a server that gives this reason answers the request (not found, invalid argument)
    /// rather than that it failed ([`ReasonDef::answer`]).
    #[must_use]
    pub const fn is_answer(self) -> bool {
        !self.0.server_failed
    }

    /// True if a server with this reason answers about the item of the request: see
    /// [`ReasonDef::item`].
    pub(crate) const fn is_about_item(self) -> bool {
        self.0.item
    }

    /// True if a server with this reason has not accepted the request: see
    /// [`ReasonDef::not_accepted`].
    pub(crate) const fn is_not_accepted(self) -> bool {
        self.0.not_accepted
    }

    /// What the reason says about the server; [`ReasonClass::Transient`] unless its definition says
    /// otherwise. Of a single failure [`Failure::class`](crate::Failure::class) knows more.
    #[must_use]
    pub const fn class(self) -> ReasonClass {
        self.0.class
    }
}

impl PartialEq for RetryReason {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for RetryReason {}

impl std::hash::Hash for RetryReason {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.0).hash(state);
    }
}

impl fmt::Debug for RetryReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl fmt::Display for RetryReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

retry_reasons! {
    /// Anything that has no reason of its own. Retried only if the request is idempotent. In a
    /// [response](crate::Stage::Response) it counts as the server's answer (not found, for
    /// example): unless it is retried, the log has it at DEBUG, and health, budgets and circuits
    /// count a success. For a status that says that the server failed, and for one that is not
    /// known, set [`Failure::server_failed`](crate::Failure::server_failed).
    pub UNKNOWN(false, false, answer);
    /// The socket for the request is not available.
    pub SOCKET_NOT_AVAILABLE(true, false, unsent);
    /// The service on a node (key-value, query …) is not available.
    pub SERVICE_NOT_AVAILABLE(true, false, unsent);
    /// The target node of the request is not available.
    pub NODE_NOT_AVAILABLE(true, false, unsent);
    /// The node does not own the key's vbucket (KV status 0x07).
    pub KV_NOT_MY_VBUCKET(true, true);
    /// The node does not know the collection: the client's manifest is outdated (KV status 0x88).
    pub KV_COLLECTION_OUTDATED(true, true);
    /// An unknown status that the server's error map marks as retryable: an answer about the
    /// document, or with [`Failure::server_failed`](crate::Failure::server_failed) none.
    pub KV_ERROR_MAP_RETRY_INDICATED(true, false, item);
    /// The document is locked (KV status 0x09).
    pub KV_LOCKED(true, false, item);
    /// The node asks the client to retry later (KV status 0x86).
    pub KV_TEMPORARY_FAILURE(true, false, overload);
    /// Another durable write on the document is in progress (KV status 0xa2).
    pub KV_SYNC_WRITE_IN_PROGRESS(true, false, item);
    /// A durable write on the document is being committed again (KV status 0xa4).
    pub KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS(true, false, item);
    /// The service's response says that the request may be retried.
    pub SERVICE_RESPONSE_CODE_INDICATED(true, false);
    /// The socket was closed while the request was in flight; it is unknown whether it was carried
    /// out.
    pub SOCKET_CLOSED_WHILE_IN_FLIGHT(false, false);
    /// A circuit breaker prevented the request from being sent.
    pub CIRCUIT_BREAKER_OPEN(true, false, unsent);
    /// A prepared statement must be prepared again (query 4040, 4050, 4070).
    pub QUERY_PREPARED_STATEMENT_FAILURE(true, false, item);
    /// An index disappeared during the query (query 5000 with its text).
    pub QUERY_INDEX_NOT_FOUND(true, false, item);
    /// Analytics asks the client to retry later (23000, 23003, 23007).
    pub ANALYTICS_TEMPORARY_FAILURE(true, false, overload);
    /// Search has too many requests (HTTP 429).
    pub SEARCH_TOO_MANY_REQUESTS(true, false, overload);
    /// The view engine asks the client to retry later.
    pub VIEWS_TEMPORARY_FAILURE(true, false, overload);
    /// The node has no active partition for the view (HTTP 302).
    pub VIEWS_NO_ACTIVE_PARTITION(true, true);
    /// An `AdmissionLayer` refused the call, because the server accepts too
    /// few of the latest ones. Not of RFC 0049.
    pub NOT_ADMITTED(true, false, unsent);
}

/// The twenty reasons of RFC 0049, in the order of its table.
pub const RFC_0049: [RetryReason; 20] = [
    UNKNOWN,
    SOCKET_NOT_AVAILABLE,
    SERVICE_NOT_AVAILABLE,
    NODE_NOT_AVAILABLE,
    KV_NOT_MY_VBUCKET,
    KV_COLLECTION_OUTDATED,
    KV_ERROR_MAP_RETRY_INDICATED,
    KV_LOCKED,
    KV_TEMPORARY_FAILURE,
    KV_SYNC_WRITE_IN_PROGRESS,
    KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS,
    SERVICE_RESPONSE_CODE_INDICATED,
    SOCKET_CLOSED_WHILE_IN_FLIGHT,
    CIRCUIT_BREAKER_OPEN,
    QUERY_PREPARED_STATEMENT_FAILURE,
    QUERY_INDEX_NOT_FOUND,
    ANALYTICS_TEMPORARY_FAILURE,
    SEARCH_TOO_MANY_REQUESTS,
    VIEWS_TEMPORARY_FAILURE,
    VIEWS_NO_ACTIVE_PARTITION,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// C1
    #[test]
    fn the_table_of_rfc_0049_holds_to_the_flag() {
        let always: Vec<_> = RFC_0049.iter().filter(|r| r.always_retry()).collect();
        assert_eq!(
            always,
            [
                &KV_NOT_MY_VBUCKET,
                &KV_COLLECTION_OUTDATED,
                &VIEWS_NO_ACTIVE_PARTITION
            ]
        );
        let only_idempotent: Vec<_> = RFC_0049
            .iter()
            .filter(|r| !r.allows_non_idempotent_retry())
            .collect();
        assert_eq!(only_idempotent, [&UNKNOWN, &SOCKET_CLOSED_WHILE_IN_FLIGHT]);
    }

    #[test]
    fn a_reason_is_transient_unless_it_says_otherwise() {
        let of = |class| RFC_0049.into_iter().filter(move |r| r.class() == class);
        assert!(of(ReasonClass::Overload).eq([
            KV_TEMPORARY_FAILURE,
            ANALYTICS_TEMPORARY_FAILURE,
            SEARCH_TOO_MANY_REQUESTS,
            VIEWS_TEMPORARY_FAILURE,
        ]));
        assert!(of(ReasonClass::Unsent).eq([
            SOCKET_NOT_AVAILABLE,
            SERVICE_NOT_AVAILABLE,
            NODE_NOT_AVAILABLE,
            CIRCUIT_BREAKER_OPEN,
        ]));
        assert_eq!(of(ReasonClass::Transient).count(), 12);
    }

    #[test]
    fn some_retried_reasons_are_answers_about_an_item() {
        let about_item = RFC_0049.into_iter().filter(|reason| reason.is_about_item());
        assert!(about_item.eq([
            KV_ERROR_MAP_RETRY_INDICATED,
            KV_LOCKED,
            KV_SYNC_WRITE_IN_PROGRESS,
            KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS,
            QUERY_PREPARED_STATEMENT_FAILURE,
            QUERY_INDEX_NOT_FOUND,
        ]));
    }

    #[test]
    fn reasons_of_one_name_from_two_places_differ() {
        mod other {
            crate::retry_reasons! { pub(super) UNKNOWN(false, false); }
        }
        assert_ne!(UNKNOWN, other::UNKNOWN);
        assert_eq!(UNKNOWN.name(), other::UNKNOWN.name());
        assert_eq!(UNKNOWN, UNKNOWN);
    }
}

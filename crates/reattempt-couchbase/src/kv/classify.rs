//! The verdict on one key-value response (RFC 0049, Response Code Retry List).

use reattempt::reason::{
    CIRCUIT_BREAKER_OPEN, KV_COLLECTION_OUTDATED, KV_ERROR_MAP_RETRY_INDICATED, KV_LOCKED,
    KV_NOT_MY_VBUCKET, KV_SYNC_WRITE_IN_PROGRESS, KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS,
    KV_TEMPORARY_FAILURE, SERVICE_RESPONSE_CODE_INDICATED, SOCKET_CLOSED_WHILE_IN_FLIGHT, UNKNOWN,
};
use reattempt::{CallContext, Classify, Failure, OnDeadline, RetryReason, Stage, Verdict};

use super::{KvAnswer, KvTransportError, Opcode, Status};

/// Classifies a key-value response or transport error.
///
/// By default exactly RFC 0049's list: 0x07, 0x88, 0x09, 0x86, 0xa2 and 0xa4, with its exceptions,
/// and the server's error map for statuses that are not [known](Status::is_known). A status that is
/// not known there either is the node's failure, unless its attributes are those of an answer
/// about the document, the caller or a limit (`item-only`, `auth` or `rate-limit`, for example). An
/// attempt that a circuit breaker refused is retryable: best effort waits for the circuit to close.
#[derive(Clone, Copy, Debug, Default)]
pub struct KvClassifier {
    current_server_codes: bool,
}

impl KvClassifier {
    /// Exactly RFC 0049's list.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            current_server_codes: false,
        }
    }

    /// Also the codes that current clients handle: 0x85 is a temporary failure, 0x8c is treated as
    /// 0x88, and 0x0d and 0x0c are retried as `SERVICE_RESPONSE_CODE_INDICATED`.
    ///
    /// Set the same option on [`StaleKvConfig`](crate::StaleKvConfig) for 0x0d, and add
    /// [`KvPushback`](super::KvPushback) to the stack for 0x0c.
    #[must_use]
    pub const fn with_current_server_codes(mut self) -> Self {
        self.current_server_codes = true;
        self
    }

    /// The reason to retry after this response to this operation, if there is one.
    fn listed(self, status: Status, opcode: Opcode) -> Option<RetryReason> {
        // Connection setup and replication have their own error handling.
        if opcode.is_dcp() || opcode.is_bootstrap() {
            return None;
        }
        let looks_up = matches!(
            opcode,
            Opcode::COLLECTIONS_GET_ID | Opcode::COLLECTIONS_GET_SCOPE_ID
        );
        let current = self.current_server_codes;
        match status {
            Status::NOT_MY_VBUCKET => Some(KV_NOT_MY_VBUCKET),
            // For a lookup of an id this is the result: there is no such collection.
            Status::UNKNOWN_COLLECTION if opcode != Opcode::COLLECTIONS_GET_ID => {
                Some(KV_COLLECTION_OUTDATED)
            }
            Status::UNKNOWN_SCOPE if current && !looks_up => Some(KV_COLLECTION_OUTDATED),
            // An unlock of a document that is locked by another lock has the wrong CAS.
            Status::LOCKED if opcode != Opcode::UNLOCK => Some(KV_LOCKED),
            Status::ETMPFAIL => Some(KV_TEMPORARY_FAILURE),
            Status::EBUSY if current => Some(KV_TEMPORARY_FAILURE),
            Status::SYNC_WRITE_IN_PROGRESS => Some(KV_SYNC_WRITE_IN_PROGRESS),
            Status::SYNC_WRITE_RE_COMMIT_IN_PROGRESS => Some(KV_SYNC_WRITE_RE_COMMIT_IN_PROGRESS),
            Status::EWOULD_THROTTLE | Status::ECONFIG_ONLY if current => {
                Some(SERVICE_RESPONSE_CODE_INDICATED)
            }
            _ => None,
        }
    }

    fn answered<A: KvAnswer + ?Sized>(self, answer: &A) -> Verdict {
        let (status, opcode) = (Status(answer.status()), Opcode(answer.opcode()));
        if status.is_success_of(opcode) {
            return Verdict::Success;
        }
        let (reason, failed) = if status.is_known() {
            (self.listed(status, opcode), status.is_servers_failure())
        } else {
            let attributes = status.attributes(answer.error_map());
            let retry = attributes.retry().then_some(KV_ERROR_MAP_RETRY_INDICATED);
            // Of a status that says nothing it is not known that the node answered the request.
            (retry, !attributes.is_answer())
        };
        let failure = |reason| {
            let failure = Failure::new(reason, Stage::Response).code(status.0.into());
            failure.server_failed(failed)
        };
        match reason {
            Some(reason) => Verdict::Retry(failure(reason)),
            None => Verdict::Fatal(failure(UNKNOWN)),
        }
    }
}

impl<A, E> Classify<A, E> for KvClassifier
where
    A: KvAnswer,
    E: KvTransportError,
{
    fn classify(&self, outcome: Result<&A, &E>, context: &CallContext) -> Verdict {
        let error = match outcome {
            // RFC 0049, Retry Reasons: the strategy may wait for the circuit to close.
            Err(_) if context.report().circuit_open => {
                return Verdict::Retry(Failure::new(CIRCUIT_BREAKER_OPEN, Stage::Dispatch));
            }
            Ok(answer) => return self.answered(answer),
            Err(error) => error,
        };
        let (stage, reason) = (error.stage(), error.reason());
        let failure = match stage {
            // Independent of the client's reason: nothing was sent, so nothing can have happened.
            Stage::Dispatch => Failure::new(reason, stage).safe(true),
            // Independent of the client's reason: a write whose response was lost is not retried.
            Stage::InFlight if reason.allows_non_idempotent_retry() || reason.always_retry() => {
                Failure::new(SOCKET_CLOSED_WHILE_IN_FLIGHT, stage)
            }
            Stage::InFlight | Stage::Response => Failure::new(reason, stage),
        };
        if error.is_fatal() {
            Verdict::Fatal(failure)
        } else {
            Verdict::Retry(failure)
        }
    }

    /// RFC 0049, Capping the Retry Duration: for every strategy that was not told to give up.
    fn on_deadline(&self) -> OnDeadline {
        OnDeadline::Cap
    }
}

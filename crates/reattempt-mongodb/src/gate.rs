//! Where eligibility meets the layers: the policy that a call is stamped with.

use std::sync::Arc;

use reattempt_core::{Call, CallContext, Idempotency, Reporter, Route, RoutePolicy};

use crate::{NotEligible, ReadOperation, RetryableReads, eligible, supports_retry};

/// What the policy of a call says of retrying it. Rides in [`RoutePolicy::data`], where the
/// [`MongoClassifier`](crate::MongoClassifier) reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadGate {
    /// A read that may be sent again, also after an attempt whose fate nobody knows.
    Retry,
    /// Runs once, whatever strategy anybody stamped on the call.
    Once(NotEligible),
}

/// A request that says what it runs, for [`RetryReads`] as a [`Route`].
pub trait ReadCall {
    /// The operation.
    fn operation(&self) -> ReadOperation;

    /// True while the operation's session is in a transaction.
    fn in_transaction(&self) -> bool {
        false
    }
}

impl<T: ReadCall> ReadCall for Call<T> {
    fn operation(&self) -> ReadOperation {
        self.request.operation()
    }

    fn in_transaction(&self) -> bool {
        self.request.in_transaction()
    }
}

/// The client's `retryReads`: built once per client, decides for each operation if it may be retried at all
/// (MongoClient Configuration).
///
/// Use one of two ways: [`RetryReads::stamp`] where the client builds its calls, or the whole value as the table of
/// a route layer. The policies are made once, so that a call allocates nothing for them.
///
/// There is no way to switch it on for one operation: an operation that is gated keeps its gate even where a
/// caller stamps another strategy on the call, because the classifier then calls every failure final.
#[derive(Clone, Debug)]
pub struct RetryReads {
    enabled: bool,
    retry: Arc<RoutePolicy>,
    disabled: Arc<RoutePolicy>,
    operation: Arc<RoutePolicy>,
    in_transaction: Arc<RoutePolicy>,
}

impl RetryReads {
    /// With the specification's own strategy, [`RetryableReads::seed_2022`].
    #[must_use]
    pub fn new(retry_reads: bool) -> Self {
        Self::with_strategy(retry_reads, RetryableReads::seed_2022())
    }

    /// With this strategy for the operations that may be retried.
    #[must_use]
    pub fn with_strategy(retry_reads: bool, strategy: RetryableReads) -> Self {
        let once = |name, why| {
            Arc::new(
                RoutePolicy::new(name)
                    .no_recovery()
                    .data(ReadGate::Once(why)),
            )
        };
        Self {
            enabled: retry_reads,
            retry: Arc::new(
                RoutePolicy::new("mongodb: retryable read")
                    .retry(strategy)
                    .data(ReadGate::Retry),
            ),
            disabled: once("mongodb: retryReads off", NotEligible::Disabled),
            operation: once("mongodb: never retried", NotEligible::Operation),
            in_transaction: once("mongodb: in transaction", NotEligible::InTransaction),
        }
    }

    /// The policy of this operation. The server is not known yet here; see [`report_wire_version`].
    #[must_use]
    pub fn policy_for(&self, operation: ReadOperation, in_transaction: bool) -> &Arc<RoutePolicy> {
        match eligible(operation, in_transaction, None, self.enabled) {
            // No server, so none that could be too old.
            Ok(()) | Err(NotEligible::Server(_)) => &self.retry,
            Err(NotEligible::Disabled) => &self.disabled,
            Err(NotEligible::Operation) => &self.operation,
            Err(NotEligible::InTransaction) => &self.in_transaction,
        }
    }

    /// Stamps a call with its policy and, if it only reads, as idempotent. What the caller stamped before stays.
    pub fn stamp(&self, context: &mut CallContext, operation: ReadOperation, in_transaction: bool) {
        context.stamp_policy(Arc::clone(self.policy_for(operation, in_transaction)));
        if operation.is_retryable() && context.idempotency() == Idempotency::Unknown {
            context.set_idempotency(Idempotency::Idempotent);
        }
    }
}

impl Default for RetryReads {
    /// On, as the specification has it.
    fn default() -> Self {
        Self::new(true)
    }
}

impl<Req: ReadCall> Route<Req> for RetryReads {
    fn route(&self, request: &Req) -> Option<Arc<RoutePolicy>> {
        Some(Arc::clone(
            self.policy_for(request.operation(), request.in_transaction()),
        ))
    }
}

/// For the client: this attempt's connection is to a server of this `maxWireVersion`. Says if the server supports
/// retryable reads.
///
/// On the first attempt an older server gets the command and is not asked again; on a further attempt the client does not
/// send, and fails with [`FailureKind::NotSupported`](crate::FailureKind::NotSupported) so that the first error is raised.
pub fn report_wire_version(reporter: &Reporter, max_wire_version: i32) -> bool {
    let supported = supports_retry(max_wire_version);
    if !supported {
        reporter.forbid();
    }
    supported
}

#[cfg(test)]
mod tests {
    use reattempt_core::{Annotated, AttemptKind, Recovery};

    use super::*;

    fn gate_of(policy: &RoutePolicy) -> Option<&ReadGate> {
        policy.get_data()
    }

    /// M9
    #[test]
    fn reads_are_retried_by_default() {
        let policy = Arc::clone(RetryReads::default().policy_for(ReadOperation::Find, false));
        assert!(matches!(policy.get_recovery(), Recovery::Retry(_)));
        assert_eq!(gate_of(&policy), Some(&ReadGate::Retry));
    }

    /// M14 M19
    #[test]
    fn what_is_not_eligible_has_a_policy_that_never_recovers() {
        let on = RetryReads::new(true);
        let cases = [
            (
                RetryReads::new(false),
                ReadOperation::Find,
                false,
                NotEligible::Disabled,
            ),
            (
                on.clone(),
                ReadOperation::GetMore,
                false,
                NotEligible::Operation,
            ),
            (on, ReadOperation::Find, true, NotEligible::InTransaction),
        ];
        for (gate, operation, in_transaction, why) in cases {
            let policy = gate.policy_for(operation, in_transaction);
            assert!(matches!(policy.get_recovery(), Recovery::None));
            assert_eq!(gate_of(policy), Some(&ReadGate::Once(why)));
        }
    }

    #[test]
    fn a_read_is_stamped_idempotent_and_a_write_is_not() {
        let gate = RetryReads::default();
        let stamped = |operation| {
            let mut call = Call::new(());
            gate.stamp(call.context_mut(), operation, false);
            call.context_mut().idempotency()
        };
        assert_eq!(stamped(ReadOperation::Find), Idempotency::Idempotent);
        assert_eq!(stamped(ReadOperation::Write), Idempotency::Unknown);
        assert_eq!(stamped(ReadOperation::GetMore), Idempotency::Unknown);
    }

    #[test]
    fn a_request_that_says_what_it_runs_is_routed() {
        struct TxnFind;
        impl ReadCall for TxnFind {
            fn operation(&self) -> ReadOperation {
                ReadOperation::Find
            }
            fn in_transaction(&self) -> bool {
                true
            }
        }
        let policy = RetryReads::default().route(&Call::new(TxnFind));
        let gate = policy.as_deref().and_then(gate_of);
        assert_eq!(gate, Some(&ReadGate::Once(NotEligible::InTransaction)));
    }

    /// M12
    #[test]
    fn an_old_server_forbids_another_attempt() {
        let mut context = CallContext::default();
        context.start_attempt(1, AttemptKind::Initial);
        assert!(report_wire_version(&context.reporter(), 6));
        assert!(!context.findings().forbidden);
        assert!(!report_wire_version(&context.reporter(), 5));
        assert!(context.findings().forbidden);
    }
}

//! Connects eligibility with the layers: the policy that a call is attached with.

use std::sync::Arc;

use reattempt::{
    AttemptReporter, Call, CallContext, HasCallContext, Idempotency, Recovery, Route, RoutePolicy,
};

use crate::nested::OnNested;
use crate::{NestedRetries, NotEligible, ReadOperation, RetryableReads, eligible, supports_retry};

/// The name of the option in a connection string (Naming Deviations).
pub const RETRY_READS: &str = "retryReads";

/// Whether a call may be retried. Stored in [`RoutePolicy::data`], where the
/// [`MongoClassifier`](crate::MongoClassifier) reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReadGate {
    /// A read: may be retried, also after an attempt with an unknown outcome.
    Retry,
    /// Any command: retried only when the server is overloaded and did not execute it (client
    /// backpressure, since 2026); on other errors it runs once, for this reason.
    Overload(NotEligible),
    /// Runs once, whatever strategy is set on the call.
    Once(NotEligible),
}

/// A request that reports its operation, for [`RetryReads`] as a [`Route`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which MongoDB operation it is",
    note = "implement `ReadCall` for the client's request type, which a `Call<T>` then carries"
)]
pub trait ReadCall {
    /// The operation.
    fn operation(&self) -> ReadOperation;

    /// True while the operation's session is in a transaction.
    fn in_transaction(&self) -> bool {
        false
    }

    /// The context of the call, if the request carries it: used to detect nested retries.
    fn carried_context(&self) -> Option<&CallContext> {
        None
    }
}

impl<T: ReadCall> ReadCall for Call<T> {
    fn operation(&self) -> ReadOperation {
        self.request.operation()
    }

    fn in_transaction(&self) -> bool {
        self.request.in_transaction()
    }

    fn carried_context(&self) -> Option<&CallContext> {
        self.context()
    }
}

/// The client's `retryReads`: built once per client, decides for each operation whether it may be
/// retried (MongoClient Configuration).
///
/// Use one of two ways: [`RetryReads::attach`] where the client builds its calls, or the value
/// itself as the table of a route layer. The policies are built once, so a call allocates nothing
/// for them.
///
/// Retries cannot be enabled for one operation: a gated operation keeps its gate even if a caller
/// sets another strategy or policy on the call, because the classifier then makes every failure
/// final. A hedge is sent before there is a failure: [`RetryReads::attach`] takes it out of a
/// policy that the caller set, a route layer cannot.
#[derive(Clone, Debug)]
pub struct RetryReads {
    retry_reads: bool,
    retry_writes: bool,
    stand_back: bool,
    on_nested: Option<OnNested>,
    retry: Arc<RoutePolicy>,
    disabled: Arc<RoutePolicy>,
    operation: Arc<RoutePolicy>,
    in_transaction: Arc<RoutePolicy>,
    nested: Arc<RoutePolicy>,
    /// Only with a strategy that retries overload errors.
    overload: Option<Overload>,
}

/// The policies of operations that are retried only when the server is overloaded.
#[derive(Clone, Debug)]
struct Overload {
    operation: Arc<RoutePolicy>,
    in_transaction: Arc<RoutePolicy>,
}

impl RetryReads {
    /// With the specification's strategy, [`RetryableReads::seed_2022`].
    #[must_use]
    pub fn new(retry_reads: bool) -> Self {
        Self::with_strategy(retry_reads, RetryableReads::seed_2022())
    }

    /// The specification of 2026: with [`RetryableReads::current`].
    #[must_use]
    pub fn current(retry_reads: bool) -> Self {
        Self::with_strategy(retry_reads, RetryableReads::current())
    }

    /// With this strategy for the operations that may be retried. With one that
    /// [backs off](RetryableReads::overload_backoff), such as [`RetryableReads::current`], other
    /// operations are retried too, but only when the server is overloaded and did not execute them:
    /// writes, `getMore`, `runCommand`, and operations in a transaction.
    #[must_use]
    pub fn with_strategy(retry_reads: bool, strategy: RetryableReads) -> Self {
        let once = |name, why| {
            Arc::new(
                RoutePolicy::new(name)
                    .no_recovery()
                    .with_data(ReadGate::Once(why)),
            )
        };
        let retried = |name| RoutePolicy::new(name).retry(strategy.clone());
        let overload = |name, why| Arc::new(retried(name).with_data(ReadGate::Overload(why)));
        Self {
            retry_reads,
            retry_writes: true,
            stand_back: false,
            on_nested: None,
            overload: strategy.backs_off().then(|| Overload {
                operation: overload("mongodb: retried under overload", NotEligible::Operation),
                in_transaction: overload(
                    "mongodb: in transaction, retried under overload",
                    NotEligible::InTransaction,
                ),
            }),
            retry: Arc::new(retried("mongodb: retryable read").with_data(ReadGate::Retry)),
            disabled: once("mongodb: retryReads off", NotEligible::Disabled),
            operation: once("mongodb: never retried", NotEligible::Operation),
            in_transaction: once("mongodb: in transaction", NotEligible::InTransaction),
            nested: once("mongodb: another layer retries", NotEligible::Nested),
        }
    }

    /// The same options, for another strategy.
    #[cfg(feature = "tokio")]
    pub(crate) fn for_strategy(self, strategy: RetryableReads) -> Self {
        Self {
            retry_writes: self.retry_writes,
            stand_back: self.stand_back,
            on_nested: self.on_nested,
            ..Self::with_strategy(self.retry_reads, strategy)
        }
    }

    #[cfg(feature = "tokio")]
    pub(crate) const fn set_retry_reads(&mut self, on: bool) {
        self.retry_reads = on;
    }

    /// The client's `retryWrites`: with a strategy that backs off, false disables overload retries
    /// of writes, and of the generic `runCommand`, which needs both options. True by default.
    /// Without such a strategy it has no effect, because Retryable Reads retries no write.
    #[must_use]
    pub fn retry_writes(mut self, on: bool) -> Self {
        self.retry_writes = on;
        self
    }

    /// Runs a call once if another retry layer is [detected](NestedRetries::seen_in) above this
    /// client, so that the retries do not multiply. Off by default: the application's own loop may
    /// be intended. If the other layer is one of reattempt's, the inner one always passes the call
    /// through.
    #[must_use]
    pub fn stand_back_when_nested(mut self, on: bool) -> Self {
        self.stand_back = on;
        self
    }

    /// Calls this function for each call in which another retry layer is
    /// [detected](NestedRetries::seen_in) above this client.
    #[must_use]
    pub fn on_nested(mut self, callback: impl Fn(NestedRetries) + Send + Sync + 'static) -> Self {
        self.on_nested = Some(OnNested::new(callback));
        self
    }

    /// The policy of this operation. The server is not known yet; see [`report_wire_version`].
    #[must_use]
    pub fn policy_for(&self, operation: ReadOperation, in_transaction: bool) -> &Arc<RoutePolicy> {
        let why = match eligible(operation, in_transaction, None, self.retry_reads) {
            // No server is selected yet, so none can be too old.
            Ok(()) | Err(NotEligible::Server(_)) => return &self.retry,
            Err(why) => why,
        };
        match &self.overload {
            Some(overload) if self.retries_under_overload(operation) => {
                if operation.is_retryable() {
                    &overload.in_transaction
                } else {
                    &overload.operation
                }
            }
            _ => match why {
                NotEligible::Disabled => &self.disabled,
                NotEligible::InTransaction => &self.in_transaction,
                _ => &self.operation,
            },
        }
    }

    /// Which of the client's two options applies to this operation (client backpressure).
    fn retries_under_overload(&self, operation: ReadOperation) -> bool {
        match operation {
            ReadOperation::Write | ReadOperation::AggregateThatWrites => self.retry_writes,
            ReadOperation::RunCommand => self.retry_reads && self.retry_writes,
            ReadOperation::SeveralWrites => false,
            _ => self.retry_reads,
        }
    }

    fn policy_of_call(
        &self,
        context: Option<&CallContext>,
        operation: ReadOperation,
        in_transaction: bool,
    ) -> &Arc<RoutePolicy> {
        if self.stand_back || self.on_nested.is_some() {
            if let Some(nested) = context.and_then(NestedRetries::seen_in) {
                if let Some(callback) = &self.on_nested {
                    callback.tell(nested);
                }
                if self.stand_back {
                    return &self.nested;
                }
            }
        }
        self.policy_for(operation, in_transaction)
    }

    /// Stamps a call with its policy, its command's name for the log and, if it only reads, as
    /// idempotent. What the caller or a route layer above has set before is kept. But if this
    /// operation must not be retried, a policy without a [`ReadGate`], or that hedges, is copied,
    /// with the gate's data and, unless it forbids any recovery, the gate's recovery.
    pub fn attach(
        &self,
        context: &mut CallContext,
        operation: ReadOperation,
        in_transaction: bool,
    ) {
        let policy = self.policy_of_call(Some(context), operation, in_transaction);
        context.attach_policy(Arc::clone(policy));
        let gate_of = |policy: &Arc<RoutePolicy>| policy.data::<ReadGate>().copied();
        if let Some(gate) = gate_of(policy).filter(|gate| *gate != ReadGate::Retry) {
            let ungated = context.route_policy().and_then(gate_of).is_none();
            if let Some(own) = context.policy().filter(|own| ungated || hedges(own)) {
                let mut gated = RoutePolicy::clone(own);
                // One that forbids recovery still does.
                if !matches!(own.recovery(), Recovery::None) {
                    gated = gated.with_recovery(policy.recovery().clone());
                }
                if ungated {
                    gated = gated.with_data(gate);
                }
                context.set_policy(Arc::new(gated));
            }
        }
        if operation.is_retryable() && context.idempotency() == Idempotency::Unknown {
            context.set_idempotency(Idempotency::Idempotent);
        }
        if let Some(method) = operation.method() {
            context.set_method(method);
        }
    }
}

fn hedges(policy: &RoutePolicy) -> bool {
    matches!(policy.recovery(), Recovery::Hedge(_))
}

impl Default for RetryReads {
    /// On, the specification's default.
    fn default() -> Self {
        Self::new(true)
    }
}

impl<Req: ReadCall> Route<Req> for RetryReads {
    fn route(&self, request: &Req) -> Option<Arc<RoutePolicy>> {
        Some(Arc::clone(self.policy_of_call(
            request.carried_context(),
            request.operation(),
            request.in_transaction(),
        )))
    }
}

/// Reports the `maxWireVersion` of the server that this attempt's connection belongs to, and
/// returns whether that server supports retryable reads.
///
/// On the first attempt, an older server receives the command and the call is not retried. On a
/// further attempt the client must not send, and fails with
/// [`FailureKind::NotSupported`](crate::FailureKind::NotSupported) so that the first error is
/// raised.
pub fn report_wire_version(reporter: &AttemptReporter, max_wire_version: i32) -> bool {
    let supported = supports_retry(max_wire_version);
    if !supported {
        reporter.forbid();
    }
    supported
}

#[cfg(test)]
mod tests;

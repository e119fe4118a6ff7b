//! Which policy an operation is attached with.

use std::sync::Mutex;

use reattempt::reason::KV_LOCKED;
use reattempt::strategy::RetryOnce;
use reattempt::test_util::FailingCall;
use reattempt::{Failure, Recovery, Stage, Verdict};

use super::*;
use crate::labels::{RETRYABLE_ERROR, SYSTEM_OVERLOADED_ERROR};
use crate::{ErrorLabels, FailureKind, MongoClassifier, MongoFailure, OuterAttempt};

fn gate_of(policy: &RoutePolicy) -> Option<&ReadGate> {
    policy.data()
}

/// M9
#[test]
fn reads_are_retried_by_default() {
    let policy = Arc::clone(RetryReads::default().policy_for(ReadOperation::Find, false));
    assert!(matches!(policy.recovery(), Recovery::Retry(_)));
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
        assert!(matches!(policy.recovery(), Recovery::None));
        assert_eq!(gate_of(policy), Some(&ReadGate::Once(why)));
    }
}

#[test]
fn a_read_is_attached_idempotent_and_a_write_is_not() {
    let gate = RetryReads::default();
    let attached = |operation| {
        let mut call = Call::new(());
        gate.attach(call.context_mut(), operation, false);
        call.context_mut().idempotency()
    };
    assert_eq!(attached(ReadOperation::Find), Idempotency::Idempotent);
    assert_eq!(attached(ReadOperation::Write), Idempotency::Unknown);
    assert_eq!(attached(ReadOperation::GetMore), Idempotency::Unknown);
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

/// M9 M35
#[test]
fn a_request_without_a_transaction_is_routed_as_a_read() {
    struct Find;
    impl ReadCall for Find {
        fn operation(&self) -> ReadOperation {
            ReadOperation::Find
        }
    }
    let gate = |policy: Option<Arc<RoutePolicy>>| *gate_of(&policy.unwrap()).unwrap();
    let routes = RetryReads::default().stand_back_when_nested(true);
    assert_eq!(gate(routes.route(&Find)), ReadGate::Retry);
    let mut call = Call::new(Find);
    assert_eq!(gate(routes.route(&call)), ReadGate::Retry);
    call.context_mut().set_data(OuterAttempt(2));
    let nested = ReadGate::Once(NotEligible::Nested);
    assert_eq!(gate(routes.route(&call)), nested, "seen in the call");
}

#[test]
fn what_the_caller_says_of_idempotency_stays() {
    let mut call = Call::new(());
    call.context_mut()
        .set_idempotency(Idempotency::NotIdempotent);
    RetryReads::default().attach(call.context_mut(), ReadOperation::Find, false);
    let said = call.context_mut().idempotency();
    assert_eq!(said, Idempotency::NotIdempotent);
}

#[test]
fn a_call_has_its_commands_name_for_the_log() {
    let named = |operation| {
        let mut call = Call::new(());
        RetryReads::default().attach(call.context_mut(), operation, false);
        call.context_mut().method().map(reattempt::MethodName::name)
    };
    assert_eq!(named(ReadOperation::FindOne), Some("find"));
    assert_eq!(named(ReadOperation::GetMore), Some("getMore"));
    assert_eq!(named(ReadOperation::Write), None);
}

/// M12
#[test]
fn an_old_server_forbids_another_attempt() {
    let context = FailingCall::default().context;
    assert!(report_wire_version(&context.reporter(), 6));
    assert!(!context.report().forbidden);
    assert!(!report_wire_version(&context.reporter(), 5));
    assert!(context.report().forbidden);
}

/// Whether an error of this kind and labels is retried in a call of this operation.
fn retried(
    gate: &RetryReads,
    operation: ReadOperation,
    in_transaction: bool,
    labels: bool,
) -> bool {
    struct Broken(bool);
    impl MongoFailure for Broken {
        fn kind(&self) -> FailureKind {
            FailureKind::command(Some(189))
        }
        fn labels(&self) -> ErrorLabels {
            if self.0 {
                ErrorLabels::read([SYSTEM_OVERLOADED_ERROR, RETRYABLE_ERROR])
            } else {
                ErrorLabels::NONE
            }
        }
    }
    let policy = gate.policy_for(operation, in_transaction);
    let verdict = MongoClassifier::current().verdict_on(&Broken(labels), gate_of(policy));
    let sent_again = matches!(verdict, Verdict::Retry(_));
    let recovers = matches!(policy.recovery(), Recovery::Retry(_));
    assert!(recovers || !sent_again);
    if let (true, Some(failure)) = (sent_again, verdict.failure()) {
        assert!(failure.safe, "any command may be sent again");
    }
    sent_again
}

/// M14 M19: commands that are never retried as reads are retried under overload, and only then.
#[test]
fn overload_retries_every_command_otherwise_only_reads() {
    use ReadOperation::{
        Aggregate, AggregateThatWrites, Find, GetMore, MapReduce, RunCommand, SeveralWrites, Write,
    };
    let gate = RetryReads::current(true);
    for operation in [Write, AggregateThatWrites, MapReduce, GetMore, RunCommand] {
        assert!(retried(&gate, operation, false, true), "{operation:?}");
        assert!(!retried(&gate, operation, false, false), "{operation:?}");
    }
    assert!(
        !retried(&gate, SeveralWrites, false, true),
        "a part is done"
    );
    assert!(retried(&gate, Find, true, true), "in a transaction too");
    assert!(!retried(&gate, Find, true, false));
    assert!(retried(&gate, Aggregate, false, true) && retried(&gate, Aggregate, false, false));
    let seed = RetryReads::default();
    assert!(!retried(&seed, GetMore, false, true), "not as of 2022");
    assert!(!retried(&seed, Find, true, true));
}

#[test]
fn each_of_the_two_options_switches_off_its_own_commands() {
    use ReadOperation::{AggregateThatWrites, Find, GetMore, RunCommand, Write};
    let with = |reads, writes| {
        RetryReads::with_strategy(reads, RetryableReads::current()).retry_writes(writes)
    };
    let reads_only = with(true, false);
    let writes_only = with(false, true);
    for read in [Find, GetMore] {
        assert!(retried(&reads_only, read, false, true));
        assert!(!retried(&writes_only, read, false, true));
    }
    for write in [Write, AggregateThatWrites] {
        assert!(!retried(&reads_only, write, false, true));
        assert!(retried(&writes_only, write, false, true));
    }
    for gate in [reads_only, writes_only, with(false, false)] {
        assert!(!retried(&gate, RunCommand, false, true), "needs both");
    }
    assert!(
        !retried(&with(false, true), Find, false, false),
        "and a read stays off"
    );
}

/// M35: another retry layer is reported, and on request this one stands back.
#[test]
fn retries_around_this_client_are_seen_and_can_be_left_alone() {
    let told: Arc<Mutex<Vec<u32>>> = Arc::default();
    let ear = Arc::clone(&told);
    let gate = RetryReads::default()
        .stand_back_when_nested(true)
        .on_nested(move |nested| ear.lock().unwrap().push(nested.attempt));
    let gate_after = |attach: &dyn Fn(&mut CallContext)| {
        let mut call = Call::new(());
        attach(call.context_mut());
        gate.attach(call.context_mut(), ReadOperation::Find, false);
        let policy = call.context_mut().policy().cloned().unwrap();
        *gate_of(&policy).unwrap()
    };
    let nested = ReadGate::Once(NotEligible::Nested);
    assert_eq!(gate_after(&|_| {}), ReadGate::Retry);
    assert_eq!(
        gate_after(&|context| {
            context.set_data(OuterAttempt(3));
        }),
        nested
    );
    let first = |context: &mut CallContext| FailingCall::new(std::mem::take(context));
    assert_eq!(
        gate_after(&|context| *context = first(context).context),
        nested
    );
    let second = |context: &mut CallContext| {
        let mut call = first(context);
        let failure = Failure::new(KV_LOCKED, Stage::Response);
        let now = tokio::time::Instant::now().into_std();
        call.fails(now, &Verdict::Retry(failure), &RetryOnce);
        *context = call.context;
    };
    assert_eq!(gate_after(&second), nested);
    assert_eq!(*told.lock().unwrap(), [3, 1, 2]);

    let only_tells = RetryReads::default().on_nested(|_| {});
    let mut call = Call::new(());
    call.context_mut().set_data(OuterAttempt(2));
    only_tells.attach(call.context_mut(), ReadOperation::Find, false);
    let policy = call.context_mut().policy().cloned().unwrap();
    assert_eq!(gate_of(&policy), Some(&ReadGate::Retry));
}

/// The preset sets its strategy last.
#[cfg(feature = "tokio")]
#[test]
fn another_strategy_leaves_the_options_as_they_are() {
    let told: Arc<Mutex<Vec<u32>>> = Arc::default();
    let ear = Arc::clone(&told);
    let gate = RetryReads::new(false)
        .stand_back_when_nested(true)
        .on_nested(move |nested| ear.lock().unwrap().push(nested.attempt))
        .for_strategy(RetryableReads::current());
    let gate_of_call = |gate: &RetryReads| {
        let mut call = Call::new(());
        call.context_mut().set_data(OuterAttempt(2));
        gate.attach(call.context_mut(), ReadOperation::Find, false);
        *gate_of(&call.context_mut().policy().cloned().unwrap()).unwrap()
    };
    assert_eq!(gate_of_call(&gate), ReadGate::Once(NotEligible::Nested));
    assert_eq!(*told.lock().unwrap(), [2]);
    let alone = gate.stand_back_when_nested(false);
    let disabled = ReadGate::Once(NotEligible::Disabled);
    assert_eq!(gate_of_call(&alone), disabled, "retryReads stays off");
}

/// M11
#[test]
fn the_option_has_the_specifications_name() {
    assert_eq!(crate::RETRY_READS, "retryReads");
}

/// E9: by the rules of 2026, too, a cleared pool is not retried in a transaction.
#[test]
fn a_cleared_pool_in_a_transaction_is_not_retried() {
    struct Cleared;
    impl MongoFailure for Cleared {
        fn kind(&self) -> FailureKind {
            FailureKind::PoolCleared
        }
    }
    let seed = RetryReads::default();
    let current = RetryReads::with_strategy(true, RetryableReads::current());
    for gate in [seed, current] {
        let policy = gate.policy_for(ReadOperation::Find, true);
        let verdict = MongoClassifier::current().verdict_on(&Cleared, gate_of(policy));
        assert!(matches!(verdict, Verdict::Fatal(_)));
    }
}

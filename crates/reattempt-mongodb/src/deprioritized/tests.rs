//! Which servers are avoided after which failures.

use reattempt::test_util::FailingCall;
use reattempt::{Failure, Stage, Verdict};

use super::*;
use crate::RetryableReads;
use crate::reasons::{MONGODB_NETWORK_ERROR, MONGODB_NODE_IS_RECOVERING};
use reattempt::RetryReason;

/// A call that failed on these servers for these reasons, just before it selects for the next
/// attempt.
fn after(failures: &[(&'static str, RetryReason)]) -> CallContext {
    #[allow(
        clippy::disallowed_methods,
        reason = "a base for arithmetic; no time passes here"
    )]
    let now = std::time::Instant::now();
    let strategy = RetryableReads::current().overload_backoff(9);
    let mut call = FailingCall::default();
    for (server, reason) in failures {
        call.context.reporter().backend(Backend::new(*server));
        let verdict = Verdict::Retry(Failure::new(*reason, Stage::Response).safe(true));
        call.fails(now, &verdict, &strategy);
    }
    call.context
}

fn names(avoided: &[Backend]) -> Vec<&str> {
    avoided.iter().map(Backend::as_str).collect()
}

const FAILED: [(&str, RetryReason); 3] = [
    ("a", MONGODB_NETWORK_ERROR),
    ("b", MONGODB_SYSTEM_OVERLOADED),
    ("a", MONGODB_NODE_IS_RECOVERING),
];

/// M21, E7: by the rules of 2022, selection is unchanged.
#[test]
fn no_server_is_avoided_by_default() {
    let context = after(&FAILED);
    for sharded in [false, true] {
        assert!(
            Deprioritized::seed_2022()
                .servers(&context, sharded)
                .is_empty()
        );
    }
    assert_eq!(Deprioritized::default(), Deprioritized::seed_2022());
}

/// E7: each failed mongos once; they accumulate.
#[test]
fn in_a_sharded_cluster_each_failed_mongos_is_avoided() {
    let avoided = Deprioritized::current().servers(&after(&FAILED), true);
    assert_eq!(names(&avoided), ["a", "b"]);
    assert!(
        Deprioritized::current()
            .servers(&after(&[]), true)
            .is_empty()
    );
}

/// E7: another failure must not send a `primaryPreferred` read to a secondary.
#[test]
fn a_replica_set_avoids_only_overloaded_servers_by_option() {
    let context = after(&FAILED);
    let current = Deprioritized::current();
    assert!(current.servers(&context, false).is_empty());
    let retargeting = current.overload_retargeting(true);
    assert_eq!(names(&retargeting.servers(&context, false)), ["b"]);
}

/// E11
#[test]
fn where_all_are_avoided_none_is() {
    let avoided = ["a", "b"].map(Backend::new);
    let left = |suitable: &[&'static str]| unless_all(suitable.to_vec(), &avoided, |server| server);
    assert_eq!(left(&["a", "c", "b"]), ["c"]);
    assert_eq!(left(&["a", "b"]), ["a", "b"]);
    assert_eq!(left(&["a"]), ["a"]);
    assert!(left(&[]).is_empty());
}

//! Which operations are eligible.

use super::ReadOperation as Op;
use super::*;

/// M16 M17 M18
#[test]
fn reads_are_retryable() {
    let reads = [
        Op::Find,
        Op::FindOne,
        Op::Aggregate,
        Op::Distinct,
        Op::Count,
        Op::EstimatedDocumentCount,
        Op::CountDocuments,
        Op::Watch,
        Op::ListDatabases,
        Op::ListCollections,
        Op::ListIndexes,
        Op::OtherRead,
        Op::ReadCommandRunner,
    ];
    for read in reads {
        assert_eq!(eligible(read, false, Some(6), true), Ok(()), "{read:?}");
    }
}

/// M19
#[test]
fn these_are_never_retried() {
    for op in [
        Op::AggregateThatWrites,
        Op::MapReduce,
        Op::GetMore,
        Op::RunCommand,
        Op::Write,
        Op::SeveralWrites,
    ] {
        assert_eq!(
            eligible(op, false, Some(25), true),
            Err(NotEligible::Operation),
            "{op:?}"
        );
    }
}

/// M16 M19
#[test]
fn a_stage_that_writes_anywhere_makes_the_aggregate_a_write() {
    assert_eq!(Op::aggregate(["$match"]), Op::Aggregate);
    assert_eq!(Op::aggregate([] as [&str; 0]), Op::Aggregate);
    assert_eq!(Op::aggregate(["$match", "$out"]), Op::AggregateThatWrites);
    assert_eq!(Op::aggregate(["$merge", "$match"]), Op::AggregateThatWrites);
    assert_eq!(Op::aggregate(["$output", "$OUT"]), Op::Aggregate);
}

/// M12
#[test]
fn the_server_has_to_be_of_wire_version_6() {
    assert_eq!(
        eligible(Op::Find, false, Some(5), true),
        Err(NotEligible::Server(5))
    );
    assert_eq!(eligible(Op::Find, false, Some(6), true), Ok(()));
    assert_eq!(eligible(Op::Find, false, None, true), Ok(()));
}

/// M9 M14
#[test]
fn a_switched_off_client_and_a_transaction_run_once() {
    assert_eq!(
        eligible(Op::Find, false, Some(9), false),
        Err(NotEligible::Disabled)
    );
    assert_eq!(
        eligible(Op::Find, true, Some(9), true),
        Err(NotEligible::InTransaction)
    );
}

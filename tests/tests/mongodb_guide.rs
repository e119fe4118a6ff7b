//! The guide lists which operations are retried and which are not (M33, M34), and warns (M35, M36).

use reattempt_mongodb::ReadOperation as Op;

const GUIDE: &str = include_str!("../../docs/mongodb.md");

/// Every operation, with its name in the guide.
const OPERATIONS: [(Op, &str); 19] = [
    (Op::Find, "`find`"),
    (Op::FindOne, "`findOne`"),
    (Op::Aggregate, "`aggregate`"),
    (Op::Distinct, "`distinct`"),
    (Op::Count, "`count`"),
    (Op::EstimatedDocumentCount, "`estimatedDocumentCount`"),
    (Op::CountDocuments, "`countDocuments`"),
    (Op::Watch, "`watch`"),
    (Op::ListDatabases, "`listDatabases`"),
    (Op::ListCollections, "`listCollections`"),
    (Op::ListIndexes, "`listIndexes`"),
    (Op::OtherRead, "`ReadOperation::OtherRead`"),
    (Op::ReadCommandRunner, "`ReadOperation::ReadCommandRunner`"),
    (
        Op::AggregateThatWrites,
        "`aggregate` with `$out` or `$merge`",
    ),
    (Op::MapReduce, "`mapReduce`"),
    (Op::GetMore, "`getMore`"),
    (Op::RunCommand, "`runCommand`"),
    (Op::Write, "every write"),
    (Op::SeveralWrites, "`SeveralWrites`"),
];

/// The text between these two markers.
fn between(from: &str, to: &str) -> &'static str {
    let (_, rest) = GUIDE.split_once(from).expect(from);
    rest.split_once(to).expect(to).0
}

/// M33, M34
#[test]
fn every_operation_stands_in_its_own_table() {
    let retried = between("These reads are retried", "These are **not** retried");
    let not_retried = between("These are **not** retried", "By the rules of 2026");
    for (operation, name) in OPERATIONS {
        let (table, other) = if operation.is_retryable() {
            (retried, not_retried)
        } else {
            (not_retried, retried)
        };
        assert!(table.contains(name), "{name}");
        // `aggregate` is in both tables, with the condition.
        assert!(
            name.contains("aggregate") || !other.contains(name),
            "{name}"
        );
    }
}

/// M35: the release note about nested retries is in the changelog too. M36: `mapReduce` through a
/// runner for read commands.
#[test]
fn the_guide_warns_of_nested_retries_and_of_map_reduce() {
    let nested = between("## Retries around retries", "## Around the official driver");
    assert!(nested.contains("up to 2n times"));
    let warning = between("**Warning, mapReduce.**", "## Retries around retries");
    assert!(warning.contains("Early Failure on Socket Disconnect"));
    let changelog = include_str!("../../CHANGELOG.md");
    assert!(changelog.contains("up to 2n times"));
}

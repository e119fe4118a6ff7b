//! Which operations are retried, and when (Supported and Unsupported Read Operations; Determining
//! whether retry should be allowed).

use std::sync::OnceLock;

use reattempt::MethodName;

/// The lowest `maxWireVersion` whose reads are retried: MongoDB 3.6 (Supported Server Versions).
pub const MIN_WIRE_VERSION: i32 = 6;

/// The operation that a client is about to run, as far as retries depend on it.
///
/// The enumeration helpers cover all their variants (names, objects); `Find` also covers the finds
/// of GridFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReadOperation {
    /// `find`.
    Find,
    /// `findOne`.
    FindOne,
    /// `aggregate` without a stage that writes; [`ReadOperation::aggregate`] checks the stages.
    Aggregate,
    /// `distinct`.
    Distinct,
    /// `count`.
    Count,
    /// `estimatedDocumentCount`.
    EstimatedDocumentCount,
    /// `countDocuments`.
    CountDocuments,
    /// The aggregate that opens a change stream on a collection, a database or the client.
    Watch,
    /// `listDatabases`.
    ListDatabases,
    /// `listCollections`.
    ListCollections,
    /// `listIndexes`.
    ListIndexes,
    /// Any other helper that only reads.
    OtherRead,
    /// A generic runner for read commands, which inherits the client's read concern. Any command it
    /// is given is retried, including `mapReduce`; document that for your users.
    ReadCommandRunner,
    /// `aggregate` with `$out` or `$merge`.
    AggregateThatWrites,
    /// The `mapReduce` helper.
    MapReduce,
    /// `getMore`: it is unknown whether the first attempt moved the cursor.
    GetMore,
    /// A generic `runCommand`, even with a read-only command.
    RunCommand,
    /// Any write that is one command.
    Write,
    /// A write that may be several commands, such as `insert_many` and `bulk_write` of the official
    /// driver: if one of them is refused, those before it have written, and a repetition would
    /// write the same again.
    SeveralWrites,
}

impl ReadOperation {
    /// The command's name, where it is known.
    pub(crate) const fn command(self) -> Option<&'static str> {
        Some(match self {
            Self::Find | Self::FindOne => "find",
            Self::Aggregate | Self::AggregateThatWrites | Self::CountDocuments | Self::Watch => {
                "aggregate"
            }
            Self::Distinct => "distinct",
            Self::Count | Self::EstimatedDocumentCount => "count",
            Self::ListDatabases => "listDatabases",
            Self::ListCollections => "listCollections",
            Self::ListIndexes => "listIndexes",
            Self::MapReduce => "mapReduce",
            Self::GetMore => "getMore",
            Self::OtherRead
            | Self::ReadCommandRunner
            | Self::RunCommand
            | Self::Write
            | Self::SeveralWrites => return None,
        })
    }

    /// The same for the log.
    pub(crate) fn method(self) -> Option<MethodName> {
        static NAMES: [OnceLock<Option<MethodName>>; 18] = [const { OnceLock::new() }; 18];
        let name = NAMES.get(self as usize)?;
        *name.get_or_init(|| MethodName::new(self.command()?))
    }

    /// An `aggregate` with these stages, named as in `$match`.
    ///
    /// ```
    /// use reattempt_mongodb::ReadOperation;
    ///
    /// assert_eq!(
    ///     ReadOperation::aggregate(["$match", "$group"]),
    ///     ReadOperation::Aggregate
    /// );
    /// assert_eq!(
    ///     ReadOperation::aggregate(["$match", "$merge"]),
    ///     ReadOperation::AggregateThatWrites
    /// );
    /// ```
    #[must_use]
    pub fn aggregate<I>(stages: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let writes = |stage: I::Item| matches!(stage.as_ref(), "$out" | "$merge");
        if stages.into_iter().any(writes) {
            Self::AggregateThatWrites
        } else {
            Self::Aggregate
        }
    }

    /// True for the operations that are retried.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::Find
            | Self::FindOne
            | Self::Aggregate
            | Self::Distinct
            | Self::Count
            | Self::EstimatedDocumentCount
            | Self::CountDocuments
            | Self::Watch
            | Self::ListDatabases
            | Self::ListCollections
            | Self::ListIndexes
            | Self::OtherRead
            | Self::ReadCommandRunner => true,
            Self::AggregateThatWrites
            | Self::MapReduce
            | Self::GetMore
            | Self::RunCommand
            | Self::Write
            | Self::SeveralWrites => false,
        }
    }
}

/// Why an operation runs once and its failure is returned to the caller (When not to allow retry).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum NotEligible {
    /// The client was built with `retryReads=false`.
    #[error("retryReads is off for this client")]
    Disabled,
    /// The operation is not retryable.
    #[error("this operation is never retried")]
    Operation,
    /// The session is in a transaction.
    #[error("the session is in a transaction")]
    InTransaction,
    /// Another retry layer was detected above the client, and this one is configured to stand back.
    #[error("another layer retries this call")]
    Nested,
    /// The selected server is older than MongoDB 3.6.
    #[error("the server's maxWireVersion is {0}, retryable reads need 6")]
    Server(i32),
}

/// True if a server of this `maxWireVersion` supports retryable reads.
#[must_use]
pub const fn supports_retry(max_wire_version: i32) -> bool {
    max_wire_version >= MIN_WIRE_VERSION
}

/// Whether this operation may be sent a second time. Pass the wire version of the selected server,
/// or `None` if none is selected (an attempt that fails before it has a connection may be retried).
///
/// # Errors
/// The first reason that forbids it.
pub const fn eligible(
    operation: ReadOperation,
    in_transaction: bool,
    max_wire_version: Option<i32>,
    retry_reads: bool,
) -> Result<(), NotEligible> {
    if !retry_reads {
        return Err(NotEligible::Disabled);
    }
    if !operation.is_retryable() {
        return Err(NotEligible::Operation);
    }
    if in_transaction {
        return Err(NotEligible::InTransaction);
    }
    match max_wire_version {
        Some(version) if !supports_retry(version) => Err(NotEligible::Server(version)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;

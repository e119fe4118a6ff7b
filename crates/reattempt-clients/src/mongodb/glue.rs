//! Implements the traits of `reattempt-mongodb` for this client.

use std::time::Duration;

use reattempt::{AttemptReporter, Backend, Stage};
use reattempt_mongodb::labels::base_backoff_from_ms;
use reattempt_mongodb::{
    ErrorLabels, FailureKind, MongoFailure, ReadCall, ReadOperation, report_wire_version,
};

use super::client::{MongoError, MongoReply, MongoRequest, Operation};
use super::wire::number;

impl MongoFailure for MongoError {
    fn kind(&self) -> FailureKind {
        let stage = if self.was_sent() {
            Stage::InFlight
        } else {
            Stage::Dispatch
        };
        match self {
            Self::Selection { .. } => FailureKind::Selection,
            Self::PoolCleared { .. } => FailureKind::PoolCleared,
            Self::WaitQueueTimeout { .. } => FailureKind::WaitQueueTimeout,
            Self::Connect { .. } | Self::Network { .. } | Self::SocketTimeout { .. } => {
                FailureKind::Network { stage }
            }
            Self::Server(error) if error.stage_handshake => FailureKind::handshake(error.code),
            Self::Server(error) => FailureKind::command(error.code),
            // What cannot be understood has been answered all the same.
            Self::Protocol { .. } if stage == Stage::InFlight => FailureKind::Client {
                stage: Stage::Response,
            },
            Self::Authentication { .. } | Self::Protocol { .. } => FailureKind::Client { stage },
            Self::Rebuild { .. } => FailureKind::NotSupported,
            Self::Invalid { .. } => FailureKind::Invalid,
        }
    }

    fn labels(&self) -> ErrorLabels {
        ErrorLabels::read(self.labels())
    }

    fn base_backoff(&self) -> Option<Duration> {
        match self {
            Self::Server(error) => {
                base_backoff_from_ms(number(error.document.get("baseBackoffMS"))?)
            }
            _ => None,
        }
    }
}

impl ReadCall for MongoRequest {
    fn operation(&self) -> ReadOperation {
        match self.given() {
            Operation::Find | Operation::FindBatch | Operation::TxnFind => ReadOperation::Find,
            Operation::FindOne => ReadOperation::FindOne,
            Operation::Aggregate => ReadOperation::Aggregate,
            Operation::AggregateOut | Operation::AggregateMerge => {
                ReadOperation::AggregateThatWrites
            }
            Operation::Count => ReadOperation::EstimatedDocumentCount,
            Operation::CountDocuments => ReadOperation::CountDocuments,
            Operation::Distinct => ReadOperation::Distinct,
            Operation::ListDatabases => ReadOperation::ListDatabases,
            Operation::ListCollections => ReadOperation::ListCollections,
            Operation::ListIndexes => ReadOperation::ListIndexes,
            Operation::Watch => ReadOperation::Watch,
            Operation::MapReduce => ReadOperation::MapReduce,
            Operation::RunCommandFind | Operation::RunCommand => ReadOperation::RunCommand,
            Operation::InsertOne => ReadOperation::Write,
            Operation::GetMore => ReadOperation::GetMore,
        }
    }

    fn in_transaction(&self) -> bool {
        self.in_transaction
    }
}

/// For a [`ReportLayer`](crate::report::ReportLayer): reports the server that answered or failed,
/// and its wire version.
pub fn report(reporter: &AttemptReporter, outcome: Result<&MongoReply, &MongoError>) {
    let (server, version) = match outcome {
        Ok(reply) => (Some(&*reply.server), Some(reply.max_wire_version)),
        Err(error) => (error.server(), error.max_wire_version()),
    };
    if let Some(server) = server {
        reporter.backend(Backend::new(server));
    }
    if let Some(version) = version {
        report_wire_version(reporter, version);
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    /// M19
    #[test]
    fn an_aggregate_that_writes_is_one_however_it_was_made() {
        let pipeline = vec![doc! { "$match": {} }, doc! { "$merge": "out" }];
        let command = doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {} };
        let request = MongoRequest::new(Operation::Aggregate, "db", command);
        assert_eq!(
            ReadCall::operation(&request),
            ReadOperation::AggregateThatWrites
        );
    }
}

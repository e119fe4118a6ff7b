//! `MongoConvention`: MongoDB's operations in OpenTelemetry's words.

use reattempt::telemetry::{Convention, Operation, System};

use crate::ReadCall;

/// OpenTelemetry's semantic conventions for database clients: `db.client.operation.duration` of
/// each attempt, and its span (see
/// [`Metrics::attempts`](reattempt::telemetry::Metrics::attempts), with a
/// [`MongoClassifier`](crate::MongoClassifier)). The operation is the command's name.
#[derive(Clone, Copy, Debug, Default)]
pub struct MongoConvention;

impl<Req: ReadCall, Res> Convention<Req, Res> for MongoConvention {
    fn system(&self) -> System {
        System::Db("mongodb")
    }

    fn operation<'a>(&self, request: &'a Req) -> Operation<'a> {
        Operation::new(request.operation().command().unwrap_or("_OTHER"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReadOperation;

    struct Read(ReadOperation);

    impl ReadCall for Read {
        fn operation(&self) -> ReadOperation {
            self.0
        }
    }

    #[test]
    fn an_operation_is_named_after_its_command() {
        let of = |operation| {
            let convention: &dyn Convention<Read, ()> = &MongoConvention;
            convention.operation(&Read(operation)).name
        };
        assert_eq!(of(ReadOperation::FindOne), "find");
        assert_eq!(of(ReadOperation::CountDocuments), "aggregate");
        assert_eq!(of(ReadOperation::Write), "_OTHER");
    }
}

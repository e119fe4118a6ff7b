//! What the errors of the official driver (the crate `mongodb`) mean. Feature `mongodb`.
//!
//! Put the retry layer around calls of the driver, and switch the driver's own retry off with
//! `retryReads=false` and `retryWrites=false`, or each of your attempts is up to two of its own.
//!
//! ```
//! use reattempt_core::Verdict;
//! use reattempt_mongodb::{FailureKind, MongoClassifier, MongoFailure};
//!
//! let broken: mongodb::error::Error =
//!     std::io::Error::from(std::io::ErrorKind::ConnectionReset).into();
//! assert_eq!(broken.kind(), FailureKind::network_in_flight());
//! let verdict = MongoClassifier::seed_2022().verdict_on(&broken, None);
//! assert!(matches!(verdict, Verdict::Retry(_)));
//! ```
//!
//! # What the driver does not say
//!
//! An I/O error does not tell whether the command had been written. Where it comes from connecting
//! or from `hello` the driver labels it (since 3.6), and it counts as never sent; any other counts
//! as sent, also one in a login: if a retry fails with that, the second error is raised and not the
//! original. A server's error answer to `hello` counts as one to the command. The driver reads a
//! server's `code` itself, and takes a reply without one for no reply. Which server failed it tells
//! to its event handlers only.

use std::time::Duration;

use mongodb::error::{Error, ErrorKind};
use reattempt_core::Stage;

use crate::labels::base_backoff_from_ms;
use crate::{ErrorLabels, FailureKind, MongoFailure};

impl MongoFailure for Error {
    fn kind(&self) -> FailureKind {
        match &*self.kind {
            ErrorKind::Command(answer) => FailureKind::command(Some(answer.code.into())),
            // The driver gives both labels to what breaks before or in `hello`, and to nothing else
            // of its own.
            ErrorKind::Io(_) if MongoFailure::labels(self).is_retryable_overload() => {
                FailureKind::network_before_sending()
            }
            ErrorKind::Io(_) => FailureKind::network_in_flight(),
            ErrorKind::ConnectionPoolCleared { .. } => FailureKind::PoolCleared,
            ErrorKind::ServerSelection { .. } => FailureKind::Selection,
            ErrorKind::IncompatibleServer { .. } => FailureKind::NotSupported,
            ErrorKind::Authentication { .. } => in_handshake(self),
            // An answer with numbers of its own inside, which are no command's code.
            ErrorKind::Write(_) | ErrorKind::InsertMany(_) | ErrorKind::BulkWrite(_) => {
                FailureKind::command(None)
            }
            ErrorKind::InvalidArgument { .. }
            | ErrorKind::BsonSerialization(_)
            | ErrorKind::DnsResolve { .. }
            | ErrorKind::InvalidTlsConfig { .. }
            | ErrorKind::SessionsNotSupported
            | ErrorKind::Transaction { .. }
            | ErrorKind::Shutdown => FailureKind::Client {
                stage: Stage::Dispatch,
            },
            ErrorKind::BsonDeserialization(_) | ErrorKind::InvalidResponse { .. } => {
                FailureKind::Client {
                    stage: Stage::Response,
                }
            }
            // What it is nobody knows, so it may have been sent.
            _ => FailureKind::Client {
                stage: Stage::InFlight,
            },
        }
    }

    fn labels(&self) -> ErrorLabels {
        let mut labels = ErrorLabels::read(Error::labels(self));
        // As the driver itself: those of the error that it was made of count too.
        if let Some(source) = source(self) {
            labels = labels.and(MongoFailure::labels(source));
        }
        labels
    }

    fn base_backoff(&self) -> Option<Duration> {
        let answer = mongodb::bson::Document::try_from(self.server_response()?.clone()).ok()?;
        let base = answer.get("baseBackoffMS")?;
        let whole = || base.as_i32().map(f64::from);
        let long = || base.as_i64().map(|ms| ms as f64);
        base_backoff_from_ms(whole().or_else(long).or_else(|| base.as_f64())?)
    }
}

fn source(error: &Error) -> Option<&Error> {
    let source = std::error::Error::source(error)?;
    // The driver keeps it in a box, and that is what its `source` gives.
    let boxed = source.downcast_ref::<Box<Error>>().map(|boxed| &**boxed);
    boxed.or_else(|| source.downcast_ref())
}

/// A login that failed: by a server's answer, which may be that it is going away, or in the client.
fn in_handshake(error: &Error) -> FailureKind {
    match source(error).map(MongoFailure::kind) {
        Some(FailureKind::Server { code, .. }) => FailureKind::handshake(code),
        Some(FailureKind::Network { .. }) => FailureKind::network_before_sending(),
        _ => FailureKind::Client {
            stage: Stage::Dispatch,
        },
    }
}

#[cfg(test)]
mod tests;

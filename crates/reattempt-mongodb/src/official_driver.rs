//! Classifies the errors of the official driver (crate `mongodb`). Feature `mongodb`.
//!
//! Put the retry layer around calls of the driver, and disable the driver's own retries with
//! `retryReads=false` and `retryWrites=false`; otherwise the driver may send each attempt twice.
//!
//! ```
//! use reattempt::Verdict;
//! use reattempt_mongodb::{FailureKind, MongoClassifier, MongoFailure};
//!
//! let broken: mongodb::error::Error =
//!     std::io::Error::from(std::io::ErrorKind::ConnectionReset).into();
//! assert_eq!(broken.kind(), FailureKind::network_in_flight());
//! let verdict = MongoClassifier::seed_2022().verdict_on(&broken, None);
//! assert!(matches!(verdict, Verdict::Retry(_)));
//! ```
//!
//! # What the driver does not report
//!
//! An I/O error does not show whether the command was written. The driver labels errors of
//! connecting by TCP and TLS and of `hello` (since 3.6); these count as never sent. Any other I/O
//! error counts as sent, including one during authentication, of a Unix socket, of a name lookup,
//! of a connection through a SOCKS5 proxy, or a connection that was not made within
//! `connectTimeoutMS`: if a retry fails with it, the second error is raised instead of the
//! original. A proxy's refusal is final. So does the error of a cleared pool: a
//! server whose monitor timed out interrupts commands in flight with it. A server's error reply to
//! `hello` counts as one to the command. The driver parses a server's `code` itself, and treats a
//! reply without one as no reply. Only its event handlers learn which server failed.

use std::time::Duration;

use mongodb::error::{Error, ErrorKind};
use reattempt::Stage;

use crate::labels::base_backoff_from_ms;
use crate::{ErrorLabels, FailureKind, MongoFailure};

impl MongoFailure for Error {
    fn kind(&self) -> FailureKind {
        match &*self.kind {
            ErrorKind::Command(answer) => FailureKind::command(Some(answer.code.into())),
            // The driver sets both labels only on errors before or in `hello`, and on no other
            // error of its own.
            ErrorKind::Io(_) | ErrorKind::ConnectionPoolCleared { .. }
                if MongoFailure::labels(self).is_retryable_overload() =>
            {
                FailureKind::network_before_sending()
            }
            // A cleared pool fails commands that wait for a connection, and those in flight.
            ErrorKind::Io(_) | ErrorKind::ConnectionPoolCleared { .. } => {
                FailureKind::network_in_flight()
            }
            ErrorKind::ServerSelection { .. } => FailureKind::Selection,
            ErrorKind::IncompatibleServer { .. } => FailureKind::NotSupported,
            ErrorKind::Authentication { .. } => in_handshake(self),
            // These contain codes of their own, which are not the command's code.
            ErrorKind::Write(_) | ErrorKind::InsertMany(_) | ErrorKind::BulkWrite(_) => {
                FailureKind::command(None)
            }
            ErrorKind::InvalidArgument { .. }
            | ErrorKind::BsonSerialization(_)
            | ErrorKind::Transaction { .. } => FailureKind::Invalid,
            ErrorKind::DnsResolve { .. }
            | ErrorKind::InvalidTlsConfig { .. }
            | ErrorKind::SessionsNotSupported
            | ErrorKind::Shutdown => FailureKind::Client {
                stage: Stage::Dispatch,
            },
            ErrorKind::BsonDeserialization(_) | ErrorKind::InvalidResponse { .. } => {
                FailureKind::Client {
                    stage: Stage::Response,
                }
            }
            // An unknown error: the command may have been sent.
            _ => FailureKind::Client {
                stage: Stage::InFlight,
            },
        }
    }

    fn labels(&self) -> ErrorLabels {
        let has_written = match &*self.kind {
            // The driver makes these of replies with `ok: 1` alone: the command was executed.
            ErrorKind::Write(_) | ErrorKind::InsertMany(_) => true,
            // The labels are those of one command, and commands before it have written.
            ErrorKind::BulkWrite(bulk) => bulk.partial_result.is_some(),
            _ => false,
        };
        if has_written {
            return ErrorLabels::NONE;
        }
        let mut labels = ErrorLabels::read(Error::labels(self));
        // As in the driver, the labels of the source error count too.
        if let Some(source) = source(self) {
            labels = labels.and(MongoFailure::labels(source));
        }
        labels
    }

    fn base_backoff(&self) -> Option<Duration> {
        // Of the reply as it was received: a copy of all of it could take a server's whole message
        // once for each level of its nesting.
        let base = self.server_response()?.get("baseBackoffMS").ok()??;
        let whole = || base.as_i32().map(f64::from);
        let long = || base.as_i64().map(|ms| ms as f64);
        base_backoff_from_ms(whole().or_else(long).or_else(|| base.as_f64())?)
    }
}

fn source(error: &Error) -> Option<&Error> {
    let source = std::error::Error::source(error)?;
    // The driver stores the source in a box, and `source` returns that box.
    let boxed = source.downcast_ref::<Box<Error>>().map(|boxed| &**boxed);
    boxed.or_else(|| source.downcast_ref())
}

/// A failed authentication: by a server's reply, which may report a shutdown, or inside the client.
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

//! The driver's errors that can be constructed outside it; the others are tested on the wire.

use std::io;

use reattempt::Verdict;

use super::*;
use crate::MongoClassifier;

fn kind(error: impl Into<ErrorKind>) -> FailureKind {
    MongoFailure::kind(&Error::from(error.into()))
}

/// M3
#[test]
fn an_io_error_is_a_network_exception() {
    for broken in [
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::UnexpectedEof,
        io::ErrorKind::TimedOut,
    ] {
        assert_eq!(kind(broken), FailureKind::network_in_flight());
    }
}

/// M8
#[test]
fn what_the_client_does_wrong_is_final() {
    for error in [
        Error::custom("the application's own"),
        ErrorKind::Shutdown.into(),
    ] {
        let verdict = MongoClassifier::current().verdict_on(&error, None);
        assert!(matches!(verdict, Verdict::Fatal(_)), "{error}");
    }
    assert_eq!(
        kind(ErrorKind::SessionsNotSupported),
        FailureKind::Client {
            stage: Stage::Dispatch
        }
    );
}

#[test]
fn an_error_without_labels_or_answer_has_neither() {
    let error = Error::custom(());
    assert_eq!(MongoFailure::labels(&error), ErrorLabels::NONE);
    assert_eq!(MongoFailure::base_backoff(&error), None);
}

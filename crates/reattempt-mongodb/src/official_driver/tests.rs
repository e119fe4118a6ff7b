//! The driver's errors that can be constructed outside it; the others are tested on the wire.

use std::io;

use mongodb::bson::{doc, from_document};
use mongodb::error::WriteFailure;
use reattempt::Verdict;

use super::*;
use crate::labels::{NO_WRITES_PERFORMED, RETRYABLE_ERROR, SYSTEM_OVERLOADED_ERROR};
use crate::{MongoClassifier, NotEligible, ReadGate};

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

/// M7: a write whose concern failed was executed, whatever labels its reply has.
#[test]
fn a_write_that_was_executed_is_not_retried() {
    let labels = [
        SYSTEM_OVERLOADED_ERROR,
        RETRYABLE_ERROR,
        NO_WRITES_PERFORMED,
    ];
    let concern = doc! { "code": 462, "errInfo": {}, "errorLabels": labels.to_vec() };
    let many = doc! { "writeErrors": [], "writeConcernError": concern.clone() };
    let one = WriteFailure::WriteConcernError(from_document(concern).unwrap());
    let gate = ReadGate::Overload(NotEligible::Operation);
    for kind in [
        ErrorKind::Write(one),
        ErrorKind::InsertMany(from_document(many).unwrap()),
    ] {
        let error = Error::from(kind);
        assert!(error.contains_label(RETRYABLE_ERROR), "{error}");
        let verdict = MongoClassifier::current().verdict_on(&error, Some(&gate));
        assert!(matches!(verdict, Verdict::Fatal(_)), "{error}: {verdict:?}");
    }
}

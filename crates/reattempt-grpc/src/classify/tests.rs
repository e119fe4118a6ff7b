//! The classification of single responses and errors.

use std::sync::Arc;

use reattempt::health::Outcome;

use super::*;
use crate::reasons::GRPC_UNAVAILABLE;
use crate::service_config::{Options, ServiceConfig};
use crate::{GRPC_STATUS, UnknownCode};

/// A transport error with this fault.
struct Broken(TransportFault);

impl TransportError for Broken {
    fn fault(&self) -> TransportFault {
        self.0
    }
}

fn classify(outcome: Result<&Response<()>, &Broken>) -> Verdict {
    GrpcClassifier::new().classify(outcome, &CallContext::default())
}

#[test]
fn http_statuses_without_a_grpc_status_are_mapped() {
    for (status, code) in [
        (400, Code::Internal),
        (401, Code::Unauthenticated),
        (403, Code::PermissionDenied),
        (404, Code::Unimplemented),
        (429, Code::Unavailable),
        (431, Code::Unknown),
        (502, Code::Unavailable),
        (503, Code::Unavailable),
        (504, Code::Unavailable),
        (500, Code::Unknown),
        (302, Code::Unknown),
    ] {
        let response = Response::builder().status(status).body(()).unwrap();
        let verdict = classify(Ok(&response));
        assert_eq!(
            verdict.failure().unwrap().code,
            Some(code.number()),
            "{status}"
        );
        assert_eq!(
            matches!(verdict, Verdict::Retry(_)),
            code == Code::Unavailable
        );
    }
    let head = Response::builder().status(200).body(()).unwrap();
    assert_eq!(classify(Ok(&head)), Verdict::Committed);
    for (name, value) in [
        (GRPC_STATUS, "banana"),
        (GRPC_STATUS, "+0"),
        (http::header::CONTENT_TYPE, "text/html"),
    ] {
        let junk = Response::builder().header(name, value).body(()).unwrap();
        let verdict = classify(Ok(&junk));
        assert_eq!(verdict.failure().unwrap().code, Some(2), "{value}");
    }
}

#[test]
fn an_ambiguous_refusal_is_for_the_policy_alone() {
    let (unset, doubts) = (None, Some(RefusedStream::Ambiguous));
    let believes = Some(RefusedStream::Unprocessed);
    for (classifier, options, transparent) in [
        (unset, unset, Transparent::Once),
        (doubts, unset, Transparent::No),
        (unset, doubts, Transparent::No),
        (doubts, believes, Transparent::Once),
    ] {
        let mut settings = Options::new();
        settings.refused = options;
        let config = ServiceConfig::parse_with("{}", &settings).unwrap();
        let mut context = CallContext::default();
        context.attach_policy(Arc::clone(&config.method("a.B/C").policy));
        let classifier = classifier.map_or(GrpcClassifier::new(), |refused| {
            GrpcClassifier::new().refused(refused)
        });
        for (fault, transparent) in [
            (TransportFault::StreamRefused, transparent),
            (TransportFault::PastGoaway, Transparent::Unlimited),
        ] {
            let verdict =
                Classify::<Response<()>, _>::classify(&classifier, Err(&Broken(fault)), &context);
            let failure = verdict.failure().unwrap();
            assert_eq!(failure.code, Some(Code::Unavailable.number()));
            assert_eq!(failure.reason, GRPC_UNAVAILABLE);
            assert_eq!(
                (failure.stage, failure.transparent),
                (Stage::InFlight, transparent)
            );
        }
    }
}

#[test]
fn transport_faults_become_codes_with_their_stage() {
    use TransportFault::*;
    for (fault, code, stage, transparent) in [
        (
            ConnectFailed,
            Code::Unavailable,
            Stage::Dispatch,
            Transparent::NextBackend,
        ),
        (Shed, Code::Unavailable, Stage::Dispatch, Transparent::No),
        (
            NeverSent,
            Code::Unavailable,
            Stage::Dispatch,
            Transparent::Unlimited,
        ),
        (
            StreamRefused,
            Code::Unavailable,
            Stage::InFlight,
            Transparent::Once,
        ),
        (
            DispatchGone,
            Code::Unavailable,
            Stage::InFlight,
            Transparent::IfUnread,
        ),
        (
            ConnectionReset,
            Code::Unavailable,
            Stage::InFlight,
            Transparent::No,
        ),
        (
            Protocol,
            Code::Unavailable,
            Stage::InFlight,
            Transparent::No,
        ),
        (
            StreamReset(8),
            Code::Cancelled,
            Stage::InFlight,
            Transparent::No,
        ),
        (
            StreamReset(11),
            Code::ResourceExhausted,
            Stage::InFlight,
            Transparent::No,
        ),
        (
            StreamReset(12),
            Code::PermissionDenied,
            Stage::InFlight,
            Transparent::No,
        ),
        (
            StreamReset(2),
            Code::Internal,
            Stage::InFlight,
            Transparent::No,
        ),
        (
            Timeout,
            Code::DeadlineExceeded,
            Stage::InFlight,
            Transparent::No,
        ),
        (
            Protocol,
            Code::Unavailable,
            Stage::InFlight,
            Transparent::No,
        ),
        (
            RequestFailed,
            Code::Internal,
            Stage::InFlight,
            Transparent::No,
        ),
        (Abandoned, Code::Cancelled, Stage::InFlight, Transparent::No),
        (
            ConnectionClosed,
            Code::Unavailable,
            Stage::InFlight,
            Transparent::No,
        ),
        (Unknown, Code::Unknown, Stage::InFlight, Transparent::No),
    ] {
        let verdict = classify(Err(&Broken(fault)));
        let failure = verdict.failure().unwrap();
        assert_eq!(
            (failure.code, failure.stage, failure.transparent),
            (Some(code.number()), stage, transparent),
            "{fault:?}"
        );
    }
}

#[test]
fn only_an_error_that_cannot_be_read_is_named() {
    let named = |fault, code| {
        let failure = failure_of(code, Stage::InFlight);
        let classifier = GrpcClassifier::new();
        Classify::<Response<()>, _>::unknown_error(&classifier, &Broken(fault), &failure)
    };
    let name = named(TransportFault::Unknown, Code::Unknown).unwrap();
    assert!(name.contains("Broken"), "{name}");
    assert_eq!(named(TransportFault::Unknown, Code::Unavailable), None);
    assert_eq!(named(TransportFault::Protocol, Code::Unknown), None);
}

/// All calls of a connection end so at once: they are one failure in a row of its backend.
#[test]
fn calls_of_a_connection_that_is_lost_are_lost_in_flight() {
    for (fault, expected) in [
        (TransportFault::ConnectionClosed, Outcome::Lost),
        (TransportFault::ConnectionReset, Outcome::Lost),
        (TransportFault::Timeout, Outcome::Failure),
        (TransportFault::ConnectFailed, Outcome::Failure),
    ] {
        let outcome: Result<&Response<()>, _> = Err(&Broken(fault));
        let verdict = GrpcClassifier::new().classify(outcome, &CallContext::default());
        assert_eq!(Outcome::of(&verdict), expected, "{fault:?}");
    }
}

/// R10 and Memory Management: a request whose own body failed would fail again, regardless of the
/// policy; one abandoned for another attempt does not end the call, so that the other can succeed.
#[test]
fn what_the_request_itself_did_is_not_judged_by_its_code() {
    let all = Code::ALL.into_iter().fold(CodeSet::EMPTY, CodeSet::with);
    for codes in [all, CodeSet::EMPTY] {
        let classify = |fault| {
            let outcome: Result<&Response<()>, _> = Err(&Broken(fault));
            GrpcClassifier::new()
                .retryable(codes)
                .classify(outcome, &CallContext::default())
        };
        for fault in [TransportFault::RequestFailed, TransportFault::Abandoned] {
            let verdict = classify(fault);
            assert!(matches!(verdict, Verdict::Fatal(_)), "{codes:?} {fault:?}");
            assert_eq!(Outcome::of(&verdict), Outcome::Nothing, "{fault:?}");
        }
        let verdict = classify(TransportFault::Shed);
        assert_eq!(
            Outcome::of(&verdict),
            Outcome::Nothing,
            "shed by the client"
        );
        let no_token: Response<()> =
            ControlPlaneFailure::new(Code::Unauthenticated, "no token").into_response();
        let outcome: Result<_, &std::io::Error> = Ok(&no_token);
        let verdict = GrpcClassifier::new().classify(outcome, &CallContext::default());
        assert_eq!(Outcome::of(&verdict), Outcome::Nothing, "no credentials");
    }
}

/// R4
#[test]
fn codes_are_known_by_number_and_by_name_in_any_case() {
    for (number, code) in (0..).zip(Code::ALL) {
        assert_eq!(Code::from_number(number), Some(code));
        assert_eq!(i64::from(code.number()), number);
        assert_eq!(code.name().to_lowercase().parse(), Ok(code));
        let reason = code.reason().map(|reason| reason.name());
        let named = (code != Code::Ok).then(|| format!("GRPC_{}", code.name()));
        assert_eq!(reason.map(str::to_owned), named);
    }
    assert_eq!("CANCELED".parse::<Code>(), Err(UnknownCode));
    assert_eq!((Code::from_number(17), Code::from_number(-1)), (None, None));
}

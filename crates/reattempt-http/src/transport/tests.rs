use super::*;

#[derive(Debug, thiserror::Error)]
#[error("outer")]
struct Outer(#[source] Box<dyn Error + Send + Sync>);

fn io(kind: io::ErrorKind) -> io::Error {
    io::Error::from(kind)
}

#[test]
fn refused_is_never_sent_and_broken_is_in_flight() {
    let refused = TransportFault::of(&io(io::ErrorKind::ConnectionRefused)).verdict();
    let failure = *refused.failure().unwrap();
    assert_eq!(failure.stage, Stage::Dispatch);
    assert!(failure.safe && failure.transparent == Transparent::No);
    for kind in [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe] {
        let failure = *TransportFault::of(&io(kind)).verdict().failure().unwrap();
        assert_eq!((failure.stage, failure.safe), (Stage::InFlight, false));
    }
}

#[test]
fn faults_are_found_deep_in_the_chain_also_behind_io_errors() {
    let deep = Outer(Box::new(io::Error::other(Outer(Box::new(io(
        io::ErrorKind::UnexpectedEof,
    ))))));
    assert_eq!(TransportFault::of(&deep), TransportFault::ConnectionClosed);
    let boxed: Box<dyn Error + Send + Sync> = Box::new(deep);
    assert_eq!(boxed.fault(), TransportFault::ConnectionClosed);
}

#[test]
fn what_nothing_is_known_of_is_fatal() {
    let error: Box<dyn Error + Send + Sync> = "unknown".into();
    assert!(matches!(error.fault().verdict(), Verdict::Fatal(_)));
}

#[cfg(feature = "tokio")]
#[test]
fn a_response_body_that_met_its_deadline_is_a_timeout() {
    use reattempt::{DeadlineScope, Elapsed, RetryInfo};

    use crate::body::DeadlineBodyError;

    let elapsed = Elapsed::new(DeadlineScope::Call, None, false, RetryInfo::default());
    let error: DeadlineBodyError<io::Error> = DeadlineBodyError::Elapsed(elapsed);
    let error: Box<dyn Error + Send + Sync> = Box::new(error);
    assert_eq!(error.fault(), TransportFault::Timeout);
}

#[test]
fn an_abandoned_body_inside_another_error_is_found() {
    let error = Outer(Box::new(Outer(Box::new(ReplayBodyError::Abandoned))));
    assert_eq!(TransportFault::of(&error), TransportFault::Abandoned);
}

#[test]
fn what_the_request_did_is_fatal_and_blames_no_server() {
    use reattempt::health::Outcome;

    for fault in [TransportFault::RequestFailed, TransportFault::Abandoned] {
        let verdict = fault.verdict();
        assert!(matches!(verdict, Verdict::Fatal(_)), "{fault:?}");
        assert_eq!(Outcome::of(&verdict), Outcome::Nothing, "{fault:?}");
    }
}

#[test]
fn what_never_left_the_client_blames_no_server() {
    use TransportFault::{ConnectFailed, NeverSent, PastGoaway, Shed};
    use reattempt::health::Outcome;

    assert_eq!(Outcome::of(&Shed.verdict()), Outcome::Nothing);
    for fault in [NeverSent, PastGoaway] {
        let outcome = Outcome::of(&fault.verdict());
        assert_eq!(outcome, Outcome::NeverSent, "{fault:?}");
    }
    assert_eq!(Outcome::of(&ConnectFailed.verdict()), Outcome::Failure);
}

#[cfg(feature = "tonic")]
#[test]
fn what_tonics_connector_says_was_never_sent_whatever_caused_it() {
    for kind in [
        io::ErrorKind::TimedOut,
        io::ErrorKind::HostUnreachable,
        io::ErrorKind::Other,
    ] {
        let connect = tonic::ConnectError(Box::new(io(kind)));
        let fault = TransportFault::of(&Outer(Box::new(connect)));
        assert_eq!(fault, TransportFault::ConnectFailed, "{kind:?}");
    }
    let timeout = Outer(Box::new(tonic::TimeoutExpired(())));
    assert_eq!(TransportFault::of(&timeout), TransportFault::Timeout);
}

#[cfg(feature = "h2")]
#[test]
fn a_refused_stream_is_retried_once_and_other_resets_are_not() {
    let refused = Outer(Box::new(h2::Error::from(h2::Reason::REFUSED_STREAM)));
    let fault = TransportFault::of(&refused);
    assert_eq!(fault, TransportFault::StreamRefused);
    let failure = *fault.verdict().failure().unwrap();
    assert!(failure.safe && failure.transparent == Transparent::Once);
    let reset = h2::Error::from(h2::Reason::CANCEL);
    assert_eq!(reset.fault(), TransportFault::StreamReset(8));
}

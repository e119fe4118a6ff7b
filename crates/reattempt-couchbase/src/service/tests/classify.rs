//! The verdicts on lost attempts, and on responses whose body was not read.

use reattempt::reason::{
    SEARCH_TOO_MANY_REQUESTS, SOCKET_CLOSED_WHILE_IN_FLIGHT, SOCKET_NOT_AVAILABLE, UNKNOWN,
};
use reattempt::{RetryReason, Transparent};

use super::*;

/// The verdict on an error that the client's own classifier classifies like this.
fn lost(of_client: Verdict) -> Verdict {
    let transport = move |_: Result<&Response<()>, &BoxError>, _: &CallContext| of_client;
    let classifier = ServiceClassifier::new(HttpService::query(), transport);
    classifier.classify(Err(&"lost".into()), &CallContext::default())
}

fn failure(reason: RetryReason, stage: Stage) -> Failure {
    Failure::new(reason, stage)
}

/// C12 C13
#[test]
fn how_far_a_lost_attempt_came_decides_on_it() {
    let never_sent = lost(Verdict::Retry(failure(UNKNOWN, Stage::Dispatch)));
    let expected = failure(SOCKET_NOT_AVAILABLE, Stage::Dispatch);
    assert_eq!(never_sent, Verdict::Retry(expected));
    assert!(expected.safe);
    for stage in [Stage::InFlight, Stage::Response] {
        let in_flight = lost(Verdict::Retry(failure(UNKNOWN, stage)));
        assert_eq!(
            in_flight,
            Verdict::Retry(failure(SOCKET_CLOSED_WHILE_IN_FLIGHT, stage))
        );
    }
    let refused = failure(UNKNOWN, Stage::InFlight)
        .safe(true)
        .transparent(Transparent::Once);
    let Verdict::Retry(refused) = lost(Verdict::Retry(refused)) else {
        panic!()
    };
    assert_eq!(
        (refused.reason, refused.transparent),
        (SOCKET_NOT_AVAILABLE, Transparent::Once)
    );
    let fatal = Verdict::Fatal(failure(UNKNOWN, Stage::InFlight));
    assert_eq!(lost(fatal), fatal);
}

/// The HTTP client's classifier says which of its errors it does not know.
#[test]
fn the_transports_classifier_names_an_unknown_error() {
    struct Names;
    impl Classify<Response<()>, BoxError> for Names {
        fn classify(&self, _: Result<&Response<()>, &BoxError>, _: &CallContext) -> Verdict {
            Verdict::Retry(failure(UNKNOWN, Stage::InFlight))
        }
        fn unknown_error(&self, error: &BoxError, _: &Failure) -> Option<String> {
            Some(format!("of type {error}"))
        }
    }
    let classifier = ServiceClassifier::new(HttpService::query(), Names);
    let named = classifier.unknown_error(&"X".into(), &failure(UNKNOWN, Stage::InFlight));
    assert_eq!(named.as_deref(), Some("of type X"));
}

/// Without the layer only the status is known.
#[test]
fn an_answer_that_was_not_inspected_is_judged_by_its_status() {
    let of = |service: HttpService, status: u16| {
        let response = Response::builder().status(status).body(()).unwrap();
        let classifier = ServiceClassifier::new(service, transport);
        classifier.classify(Ok(&response), &CallContext::default())
    };
    assert_eq!(of(HttpService::query(), 200), Verdict::Success);
    assert!(is_final(of(HttpService::query(), 503)));
    assert!(is_final(of(HttpService::views(), 404)));
    assert_eq!(
        retried(of(HttpService::search(), 429)),
        Some(SEARCH_TOO_MANY_REQUESTS)
    );
}

#[test]
fn a_server_error_without_a_reason_is_no_answer() {
    let is_answer = |service: HttpService, status: u16| {
        let response = Response::builder().status(status).body(()).unwrap();
        let classifier = ServiceClassifier::new(service, transport);
        let verdict = classifier.classify(Ok(&response), &CallContext::default());
        verdict.failure().map(Failure::is_answer)
    };
    for service in [HttpService::query(), HttpService::management()] {
        assert_eq!(is_answer(service, 404), Some(true));
        assert_eq!(is_answer(service, 500), Some(false));
        assert_eq!(is_answer(service, 503), Some(false));
    }
}

/// C6: only the view engine has a reason that always retries.
#[test]
fn only_views_can_force_a_retry() {
    let forces = |service| {
        let never = TransportThatNeverForces;
        Classify::<Response<()>, BoxError>::may_force(&ServiceClassifier::new(service, never))
    };
    assert!(forces(HttpService::views()));
    for service in [
        HttpService::query(),
        HttpService::analytics(),
        HttpService::search(),
        HttpService::management(),
    ] {
        assert!(!forces(service));
    }
}

struct TransportThatNeverForces;

impl<R, E> Classify<R, E> for TransportThatNeverForces {
    fn classify(&self, _: Result<&R, &E>, _: &CallContext) -> Verdict {
        Verdict::Success
    }

    fn may_force(&self) -> bool {
        false
    }
}

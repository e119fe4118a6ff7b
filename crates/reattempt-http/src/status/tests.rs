use std::sync::Arc;

use reattempt::reason::UNKNOWN;
use reattempt::{CallContext, Classify, Failure, RoutePolicy, Stage};

use super::*;
use crate::HttpRoute;
use crate::reasons::*;

fn verdict(classifier: HttpClassifier, status: u16) -> Verdict {
    let response = http::Response::builder().status(status).body(()).unwrap();
    let context = CallContext::default();
    Classify::<_, std::io::Error>::classify(&classifier, Ok(&response), &context)
}

#[test]
fn statuses_mean_what_http_says() {
    let http = HttpClassifier::new();
    for status in [200, 204, 301, 304] {
        assert_eq!(verdict(http, status), Verdict::Success);
    }
    for (status, reason, safe) in [
        (408, HTTP_REQUEST_TIMEOUT, false),
        (425, HTTP_TOO_EARLY, true),
        (429, HTTP_TOO_MANY_REQUESTS, true),
        (500, HTTP_INTERNAL_SERVER_ERROR, false),
        (502, HTTP_BAD_GATEWAY, false),
        (503, HTTP_SERVICE_UNAVAILABLE, false),
        (504, HTTP_GATEWAY_TIMEOUT, false),
    ] {
        let Verdict::Retry(failure) = verdict(http, status) else {
            panic!("{status}")
        };
        assert_eq!(
            (failure.reason, failure.safe, failure.code),
            (reason, safe, Some(i32::from(status)))
        );
    }
    for status in [400, 404, 501, 505, 599] {
        assert!(
            matches!(verdict(http, status), Verdict::Fatal(_)),
            "{status}"
        );
    }
}

#[test]
fn what_is_safe_and_what_is_retried_can_be_said() {
    let http = HttpClassifier::new()
        .also_retryable(520)
        .safe(StatusSet::of(&[520]));
    let Verdict::Retry(failure) = verdict(http, 520) else {
        panic!()
    };
    assert!(failure.safe);
    let Verdict::Retry(failure) = verdict(http, 429) else {
        panic!()
    };
    assert!(!failure.safe, "the set replaces the default");
}

#[test]
fn the_routes_settings_beat_the_layers() {
    let mut context = CallContext::default();
    let data = HttpClassifier::new()
        .retryable(StatusSet::of(&[404]))
        .transport_errors(false);
    context.attach_policy(Arc::new(
        RoutePolicy::new("r").with_data(HttpRoute::new().with_classifier(data)),
    ));
    let response = http::Response::builder().status(404).body(()).unwrap();
    let http = HttpClassifier::new().judge_bodies();
    let on_404 = Classify::<_, std::io::Error>::classify(&http, Ok(&response), &context);
    assert!(matches!(on_404, Verdict::Retry(_)));
    let good = http::Response::new(());
    let on_200 = Classify::<_, std::io::Error>::classify(&http, Ok(&good), &context);
    assert_eq!(on_200, Verdict::Committed, "bodies are judged nevertheless");
    let error = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    let on_error = Classify::<http::Response<()>, _>::classify(&http, Err(&error), &context);
    let Verdict::Fatal(failure) = on_error else {
        panic!()
    };
    assert_eq!(
        (failure.reason, failure.stage),
        (HTTP_CONNECT_FAILED, Stage::Dispatch)
    );
    assert_ne!(failure.reason, UNKNOWN);
}

#[test]
fn what_a_route_leaves_unset_is_as_the_layer_was_built() {
    let layer = HttpClassifier::new()
        .retryable(StatusSet::of(&[418, 429]))
        .safe(StatusSet::of(&[418, 429]))
        .limited_403();
    let on = |route: HttpClassifier, status: u16| {
        let mut context = CallContext::default();
        let data = HttpRoute::new().with_classifier(route);
        context.attach_policy(Arc::new(RoutePolicy::new("r").with_data(data)));
        let response = http::Response::builder()
            .status(status)
            .header("retry-after", "1");
        let response = response.body(()).unwrap();
        let verdict = Classify::<_, std::io::Error>::classify(&layer, Ok(&response), &context);
        let safe = verdict.failure().is_some_and(|failure| failure.safe);
        (matches!(verdict, Verdict::Retry(_)), safe)
    };
    let unset = HttpClassifier::new();
    assert_eq!(
        [418, 503, 403].map(|status| on(unset, status)),
        [(true, true), (false, false), (true, true),]
    );
    let listed = unset.retryable(StatusSet::of(&[503]));
    assert_eq!(
        [418, 503, 403].map(|status| on(listed, status)),
        [(false, true), (true, false), (false, true)]
    );
    let unsafe_ones = unset.safe(StatusSet::EMPTY);
    assert_eq!(on(unsafe_ones, 418), (true, false));
}

#[cfg(feature = "h2")]
#[test]
fn an_ambiguous_refusal_was_in_flight() {
    use reattempt::Transparent;

    let refused = h2::Error::from(h2::Reason::REFUSED_STREAM);
    let of = |layer: HttpClassifier, route: HttpClassifier| {
        let mut context = CallContext::default();
        let data = HttpRoute::new().with_classifier(route);
        context.attach_policy(Arc::new(RoutePolicy::new("r").with_data(data)));
        let verdict = Classify::<http::Response<()>, _>::classify(&layer, Err(&refused), &context);
        let failure = *verdict.failure().unwrap();
        assert_eq!(failure.stage, Stage::InFlight);
        (failure.reason, failure.safe, failure.transparent)
    };
    let unprocessed = (HTTP_STREAM_REFUSED, true, Transparent::Once);
    let ambiguous = (HTTP_STREAM_RESET, false, Transparent::No);
    let unset = HttpClassifier::new();
    let believes = unset.refused(RefusedStream::Unprocessed);
    let doubts = unset.refused(RefusedStream::Ambiguous);
    for (layer, route, expected) in [
        (unset, unset, unprocessed),
        (unset, doubts, ambiguous),
        (doubts, unset, ambiguous),
        (doubts, believes, unprocessed),
    ] {
        assert_eq!(of(layer, route), expected);
    }
}

#[test]
fn a_good_status_can_be_left_open_until_its_body_ends() {
    let http = HttpClassifier::new().judge_bodies();
    assert_eq!(verdict(http, 200), Verdict::Committed);
    assert!(matches!(verdict(http, 503), Verdict::Retry(_)));
}

fn starting(status: http::StatusCode, headers: &http::HeaderMap) -> Option<Verdict> {
    match (status.as_u16(), headers.contains_key("x-starting")) {
        (200 | 429, true) => Some(Verdict::Retry(Failure::new(UNKNOWN, Stage::Response))),
        (503, true) => Some(Verdict::Fatal(
            Failure::new(UNKNOWN, Stage::Response).code(7),
        )),
        (404, _) => Some(Verdict::Success),
        _ => None,
    }
}

#[test]
fn a_function_judges_heads_before_status_and_headers() {
    let judged = HttpClassifier::new()
        .should_retry_header()
        .judge_heads(starting);
    let of = |status: u16, headers: &[&str]| {
        let mut response = http::Response::builder().status(status);
        for name in headers {
            response = response.header(*name, "true");
        }
        let response = response.body(()).unwrap();
        judged.verdict::<_, std::io::Error>(Ok(&response), None)
    };
    let code = |verdict: Verdict| verdict.failure().and_then(|failure| failure.code);
    let starts = of(200, &["x-starting"]);
    assert!(matches!(starts, Verdict::Retry(_)));
    assert_eq!(code(starts), Some(200));
    let ended = of(503, &["x-starting", "x-should-retry"]);
    assert!(matches!(ended, Verdict::Fatal(_)));
    assert_eq!(code(ended), Some(7), "its own code stays");
    assert_eq!(of(404, &[]), Verdict::Success);
    let later = judged.judge_bodies();
    let missing = http::Response::builder().status(404).body(()).unwrap();
    let left_open = later.verdict::<_, std::io::Error>(Ok(&missing), None);
    assert_eq!(left_open, Verdict::Committed, "until its body ends");
    assert_eq!(of(200, &[]), Verdict::Success);
    assert!(matches!(of(501, &["x-should-retry"]), Verdict::Retry(_)));
    // A route's function replaces the layer's.
    let route = HttpClassifier::new().judge_heads(|_, _| None);
    let response = http::Response::builder().status(404).body(()).unwrap();
    let verdict = judged.verdict::<_, std::io::Error>(Ok(&response), Some(&route));
    assert!(matches!(verdict, Verdict::Fatal(_)));
}

#[cfg(feature = "tokio")]
#[test]
fn a_function_leaves_rate_limits_apart() {
    let backends = HttpClassifier::new().judge_heads(starting).limits_apart();
    let limited = http::Response::builder()
        .status(429)
        .header("x-starting", "true");
    let limited = limited.body(()).unwrap();
    let verdict = backends.verdict::<_, std::io::Error>(Ok(&limited), None);
    assert_eq!(verdict, Verdict::Success);
    let quota = HttpClassifier::new().judge_heads(|status, _| {
        let failure = Failure::new(HTTP_TOO_MANY_REQUESTS, Stage::Response);
        (status == 400).then_some(Verdict::Retry(failure))
    });
    let answer = http::Response::builder().status(400).body(()).unwrap();
    for (classifier, apart) in [(quota, false), (quota.limits_apart(), true)] {
        let verdict = classifier.verdict::<_, std::io::Error>(Ok(&answer), None);
        assert_eq!(verdict == Verdict::Success, apart, "its own reason");
    }
}

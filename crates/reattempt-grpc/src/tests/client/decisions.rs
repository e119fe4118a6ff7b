//! The preset decides as the single layers do: outcomes, times, records, tokens, and what the
//! server receives.

use reattempt::{RoutePolicy, TokenBucket};
use tower::BoxError;

use super::case::Case;
use super::*;

const BUSY: Step = Status(Code::Unavailable);
const DOWN: Code = Code::Unavailable;
const BUG: Code = Code::Internal;
const RESET: TransportFault = TransportFault::ConnectionReset;

fn within_300_ms() -> Request<TonicBody> {
    let mut request = message(5);
    let headers = request.headers_mut();
    headers.insert(GRPC_TIMEOUT, "300m".parse().unwrap());
    request
}

/// Delays are 50 ms, then 100 ms: half of their bounds.
#[tokio::test(start_paused = true)]
async fn retries_and_pushback_are_those_of_the_single_layers() {
    let four: fn() -> ServiceConfig = || retrying(4, "14");
    for (name, script, code, attempts, at_ms) in [
        ("success", vec![Late(Code::Ok)], Code::Ok, 1, 0),
        (
            "retries",
            vec![BUSY, BUSY, Late(Code::Ok)],
            Code::Ok,
            3,
            150,
        ),
        ("maximum", vec![BUSY], DOWN, 4, 350),
        ("fatal", vec![Status(BUG)], BUG, 1, 0),
        ("committed", vec![Late(DOWN)], DOWN, 1, 0),
        ("message", vec![Message(BUG)], BUG, 1, 0),
        (
            "pushback",
            vec![Pushback(DOWN, "700"), Late(Code::Ok)],
            Code::Ok,
            2,
            700,
        ),
        ("stop", vec![Pushback(DOWN, "-1")], DOWN, 1, 0),
        ("junk", vec![Pushback(DOWN, "soon")], DOWN, 1, 0),
        (
            "lost in flight",
            vec![Fault(RESET), Late(Code::Ok)],
            Code::Ok,
            2,
            50,
        ),
        ("breaks off", vec![Breaks(Some(RESET))], Code::Unknown, 1, 0),
    ] {
        let case = Case::new(four, script);
        case.ends(name, code, &[attempts], at_ms).await;
    }
}

#[tokio::test(start_paused = true)]
async fn deadlines_are_those_of_the_single_layers() {
    let half_second: fn() -> ServiceConfig = || config(r#""timeout":"0.5s""#);
    let none: fn() -> ServiceConfig = || retrying(4, "14");
    let late = Code::DeadlineExceeded;
    let hangs = || vec![Hangs];
    let case = Case::new(half_second, hangs());
    case.ends("the config's", late, &[1], 500).await;
    let case = Case::new(half_second, hangs()).request(within_300_ms);
    case.ends("the caller's", late, &[1], 300).await;
    let case = Case::new(half_second, vec![HangsInBody]);
    case.ends("in the stream", late, &[1], 500).await;
    let case = Case::new(none, vec![BUSY, Hangs]).request(within_300_ms);
    case.ends("after a retry", late, &[2], 300).await;
    let case = Case::new(none, hangs());
    let case = case.settings(|s| s.timeout = Some(Duration::from_millis(200)));
    case.ends("the layer's", late, &[1], 200).await;
    let pushed = vec![Pushback(Code::Unavailable, "5000")];
    let case = Case::new(none, pushed).request(within_300_ms);
    case.ends("no time for the delay", late, &[1], 300).await;
}

#[tokio::test(start_paused = true)]
async fn below_a_deadline_of_ones_own_the_callers_applies_silently() {
    let listener = reattempt::test_util::listen();
    let wire = Wire::new(&[Hangs]);
    let client = ServiceBuilder::new()
        .layer(DeadlineLayer::new(Duration::from_secs(9)))
        .map_err(BoxError::from)
        .layer(GrpcClientLayer::new(retrying(4, "14")))
        .service(wire.channel());
    let began = Instant::now();
    let response = client.oneshot(within_300_ms()).await.unwrap();
    let code = Code::from_header(&response.headers()[GRPC_STATUS]);
    assert_eq!(code, Code::DeadlineExceeded);
    assert_eq!(began.elapsed(), Duration::from_millis(300));
    assert_eq!(listener.warnings(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn hedges_are_those_of_the_single_layers() {
    let three: fn() -> ServiceConfig = || hedging(3, "0.2s", "14");
    let after = |ms, step| After(ms, Box::new(step));
    for (name, script, code, attempts, at_ms) in [
        (
            "wins",
            vec![Hangs, after(50, Late(Code::Ok))],
            Code::Ok,
            2,
            250,
        ),
        (
            "not needed",
            vec![after(150, Late(Code::Ok))],
            Code::Ok,
            1,
            150,
        ),
        (
            "at once",
            vec![BUSY, Hangs, Late(Code::Ok)],
            Code::Ok,
            3,
            200,
        ),
        (
            "fatal",
            vec![Hangs, Status(Code::Internal)],
            Code::Internal,
            2,
            200,
        ),
        ("all fail", vec![BUSY], Code::Unavailable, 3, 0),
        (
            "pushed back",
            vec![Pushback(Code::Unavailable, "1000"), Late(Code::Ok)],
            Code::Ok,
            2,
            1000,
        ),
        (
            "stopped",
            vec![
                after(350, Late(Code::Ok)),
                Pushback(Code::Unavailable, "-1"),
            ],
            Code::Ok,
            2,
            350,
        ),
    ] {
        let case = Case::new(three, script);
        case.ends(name, code, &[attempts], at_ms).await;
    }
}

#[tokio::test(start_paused = true)]
async fn limits_of_messages_are_those_of_the_single_layers() {
    let config: fn() -> ServiceConfig =
        || config(r#""maxRequestMessageBytes":5,"maxResponseMessageBytes":100"#);
    let fine = || vec![Late(Code::Ok)];
    Case::new(config, fine())
        .ends("fits", Code::Ok, &[1], 0)
        .await;
    let long = Case::new(config, fine()).request(|| message(6));
    long.ends("too long", Code::ResourceExhausted, &[1], 0)
        .await;
    let case = Case::new(config, fine()).settings(|s| s.messages = s.messages.request(4));
    case.ends("the layer's", Code::ResourceExhausted, &[1], 0)
        .await;
    let retrying: fn() -> ServiceConfig = || retrying(3, "14");
    let case = Case::new(retrying, vec![BUSY])
        .settings(|s| s.bodies = ReplayBodyLayer::new().bytes_per_call(4));
    case.ends("too long to keep", Code::Unavailable, &[1], 0)
        .await;
}

#[tokio::test(start_paused = true)]
async fn what_was_never_sent_is_as_with_the_single_layers() {
    let none: fn() -> ServiceConfig = || config(r#""timeout":"9s""#);
    let waits: fn() -> ServiceConfig = || config(r#""waitForReady":true"#);
    let fault = |fault| Fault(fault);
    let refused = || vec![fault(TransportFault::StreamRefused), Late(Code::Ok)];
    let down = || {
        let mut script = vec![fault(TransportFault::ConnectFailed); 3];
        script.push(Late(Code::Ok));
        script
    };
    let case = Case::new(none, refused());
    case.ends("refused once", Code::Ok, &[2], 0).await;
    let case = Case::new(none, refused()).settings(|s| s.intransparent = true);
    case.ends("switched off", Code::Unavailable, &[1], 0).await;
    let ambiguous = GrpcClassifier::new().refused(reattempt_http::RefusedStream::Ambiguous);
    let case = Case::new(none, refused()).settings(|s| s.classifier = ambiguous);
    case.ends("ambiguous", Code::Unavailable, &[1], 0).await;
    let hedged: fn() -> ServiceConfig = || hedging(3, "0.2s", "14");
    let case = Case::new(hedged, refused()).settings(|s| s.intransparent = true);
    case.ends("hedged", Code::Ok, &[2], 0).await;
    let case = Case::new(hedged, refused()).settings(|s| s.classifier = ambiguous);
    case.ends("hedged and ambiguous", Code::Ok, &[2], 0).await;
    let case = Case::new(none, vec![fault(TransportFault::NeverSent), Late(Code::Ok)]);
    case.ends("never sent", Code::Ok, &[2], 0).await;
    let case = Case::new(none, down());
    case.ends("fails fast", Code::Unavailable, &[1], 0).await;
    let case = Case::new(waits, down());
    case.ends("waits", Code::Ok, &[1], 300).await;
    let case = Case::new(waits, down()).request(|| {
        let mut request = message(5);
        request.extensions_mut().insert(WaitForReady(false));
        request
    });
    case.ends("does not wait", Code::Unavailable, &[1], 0).await;
}

/// The bucket has ten tokens: five failures later it refuses, and successes fill it again.
#[tokio::test(start_paused = true)]
async fn the_throttle_is_that_of_the_single_layers() {
    let config: fn() -> ServiceConfig = || retrying(4, "14");
    let case = Case::new(config, vec![BUSY]).calls(4);
    case.ends("refuses", Code::Unavailable, &[4, 1, 1, 1], 350)
        .await;
    let mut script = vec![BUSY; 5];
    script.extend(vec![Late(Code::Ok); 8]);
    script.extend([BUSY, Late(Code::Ok)]);
    let case = Case::new(config, script).calls(11);
    let attempts = [4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2];
    case.ends("recovers", Code::Ok, &attempts, 400).await;
}

/// Of a call whose policy names no codes, those of the classifier count in trailers too.
#[tokio::test(start_paused = true)]
async fn a_failure_in_trailers_counts_by_the_classifiers_codes() {
    for (code, left) in [(Code::ResourceExhausted, 9000), (Code::Unavailable, 10_000)] {
        let bucket: Arc<dyn RetryThrottle> = Arc::new(TokenBucket::new(10, 100).unwrap());
        let policy = Arc::new(RoutePolicy::new("own").with_throttle(Arc::clone(&bucket)));
        let route = move |_: &Request<TonicBody>| Some(Arc::clone(&policy));
        let codes = CodeSet::of(&[Code::ResourceExhausted]);
        let layer = GrpcClientLayer::new(route).classifier(GrpcClassifier::new().retryable(codes));
        let client = layer.layer(Wire::new(&[Late(code)]).channel());
        let answer = client.oneshot(message(5)).await.unwrap();
        drop(answer.into_body().collect().await);
        assert_eq!(bucket.milli_tokens(), Some(left), "{code:?}");
    }
}

/// The server gets the time that is left when the request is sent.
#[tokio::test(start_paused = true)]
async fn slow_credentials_leave_less_time_to_the_server() {
    let wire = Wire::new(&[Status(Code::Ok)]);
    let slow = |_: &http::request::Parts| async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok::<_, ControlPlaneFailure>(HeaderMap::new())
    };
    let client = ServiceBuilder::new()
        .layer(GrpcClientLayer::new(config(r#""timeout":"5s""#)))
        .layer(CallCredentialsLayer::new(slow))
        .service(wire.channel());
    drop(client.oneshot(message(5)).await.unwrap());
    let seen = wire.server.seen.lock().unwrap();
    assert_eq!(seen[0].timeout.as_deref(), Some("2000000u"));
}

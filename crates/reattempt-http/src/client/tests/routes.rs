//! What a route says overrides the client's settings; what it leaves unset does not.

use http::HeaderValue;
use reattempt::{
    AttemptKind, CallContext, CallDeadline, Elapsed, HasCallContext, HedgePolicy, Observer,
    RoutePolicy,
};

use super::*;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn table(text: &str) -> LiveHttpPolicies {
    LiveHttpPolicies::new(HttpPolicies::parse(text).unwrap().policies)
}

/// The limit at which a call that is never answered ends, and when.
async fn ends<R>(layer: &HttpClientLayer<R>, request: Request<Full<Bytes>>) -> (Elapsed, Duration)
where
    R: Route<Request<Full<Bytes>>> + Clone,
{
    let began = Instant::now();
    let client = layer.layer(transport(&[Step::Hangs; 3]));
    let outcome = client.oneshot(request).await;
    let elapsed = outcome.err().and_then(|error| error.elapsed().cloned());
    (elapsed.expect("a timeout"), began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_routes_timeout_replaces_the_presets() {
    let of_route = |timeout| {
        let policy = Arc::new(RoutePolicy::new("r").with_timeout(secs(timeout)));
        HttpClientLayer::standard().route(policy)
    };
    for limit in [300, 5] {
        let from_table = format!(r#"{{"default": {{"timeout": "{limit}s"}}}}"#);
        let from_table = HttpClientLayer::policies(table(&from_table));
        let (elapsed, took) = ends(&from_table, request("GET")).await;
        assert_eq!((elapsed.timeout, took), (Some(secs(limit)), secs(limit)));
        for layer in [of_route(limit), of_route(limit).timeout(secs(10))] {
            let (elapsed, took) = ends(&layer, request("GET")).await;
            assert_eq!((elapsed.timeout, took), (Some(secs(limit)), secs(limit)));
        }
    }
    let unset = HttpClientLayer::standard().route(Arc::new(RoutePolicy::new("r")));
    let (elapsed, _) = ends(&unset, request("GET")).await;
    assert_eq!(elapsed.timeout, Some(secs(30)));
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_the_caller_only_shortens_a_routes() {
    let policy = Arc::new(RoutePolicy::new("r").with_timeout(secs(60)));
    let layer = HttpClientLayer::standard().route(policy);
    for (own, expected) in [(45, 45), (90, 60)] {
        let mut limited = request("GET");
        let at = (Instant::now() + secs(own)).into_std();
        let context = limited.context_mut();
        context.attach_deadline(CallDeadline::attached(at));
        let (_, took) = ends(&layer, limited).await;
        assert_eq!(took, secs(expected), "the caller's {own} s");
    }
    let listener = reattempt::test_util::listen();
    let below = layer.layer(transport(&[Step::Hangs]));
    let began = Instant::now();
    let outcome = DeadlineLayer::new(secs(40)).layer(below);
    assert!(outcome.oneshot(request("GET")).await.is_err());
    assert_eq!(began.elapsed(), secs(40), "the limit of a layer above");
    assert!(listener.warnings().is_empty());
}

/// The guide's "For a single call".
#[tokio::test(start_paused = true)]
async fn a_callers_policy_replaces_the_routes_with_its_hedging() {
    let hedges = RoutePolicy::new("r").hedge(HedgePolicy::new(2, secs(1)));
    let layer = HttpClientLayer::standard().route(Arc::new(hedges.with_timeout(secs(5))));
    let mut longer = request("GET");
    let own = RoutePolicy::new("own").with_timeout(secs(60));
    longer.context_mut().set_policy(Arc::new(own));
    let mut retried = request("GET");
    let strategy = Arc::new(MaxAttempts::standard());
    retried.context_mut().set_strategy(strategy);
    for (own, limit, attempts) in [(request("GET"), 5, 2), (longer, 60, 1), (retried, 5, 1)] {
        let (elapsed, took) = ends(&layer, own).await;
        assert_eq!((took, elapsed.info.attempts()), (secs(limit), attempts));
    }
}

#[tokio::test(start_paused = true)]
async fn a_routes_attempt_timeout_replaces_the_presets() {
    // The preset's: 30 s for each attempt, 10 minutes for all.
    let layer = HttpClientLayer::github();
    for limit in [50, 3] {
        let policy = RoutePolicy::new("r").with_attempt_timeout(secs(limit));
        let client = layer.clone().route(Arc::new(policy.no_recovery()));
        let (elapsed, took) = ends(&client, request("GET")).await;
        assert_eq!((elapsed.timeout, took), (Some(secs(limit)), secs(limit)));
    }
}

/// The outcome for a caller, and the number of attempts.
async fn seen<R>(layer: &HttpClientLayer<R>, method: &str, first: Step) -> (Seen, u32)
where
    R: Route<Request<Full<Bytes>>> + Clone,
{
    let (seen, info, _) = send(layer.layer(transport(&[first])), request(method)).await;
    (seen, info.attempts())
}

#[tokio::test(start_paused = true)]
async fn a_table_keeps_the_presets_statuses() {
    let google = |settings: &str| {
        let text = format!(r#"{{"default": {{{settings}}}}}"#);
        HttpClientLayer::google().route(table(&text))
    };
    // 501 is one of Google's, 425 is not.
    for kept in [
        r#""retry": {"maxAttempts": 2}"#,
        r#""hedge": {"delay": "9s", "maxAttempts": 2}"#,
        r#""retry": {"transportErrors": false}"#,
    ] {
        let google = google(kept);
        let status = async |status| seen(&google, "GET", Step::Status(status)).await;
        assert_eq!(status(501).await, (Ok(200), 2), "{kept}");
        assert_eq!(status(425).await, (Ok(425), 1), "{kept}");
        let reset = seen(&google, "GET", Step::Reset).await.1;
        assert_eq!(reset == 1, kept.contains("false"), "{kept}");
    }
    let own = google(r#""retry": {"statuses": [425]}"#);
    assert_eq!(seen(&own, "GET", Step::Status(501)).await, (Ok(501), 1));
    assert_eq!(seen(&own, "GET", Step::Status(425)).await, (Ok(200), 2));
}

#[tokio::test(start_paused = true)]
async fn a_table_keeps_what_an_idempotency_key_means() {
    let attempts = async |preset: HttpClientLayer, rest: &str| {
        let text = format!(r#"{{"default": {{"retry": {{}} {rest}}}}}"#);
        let client = preset.route(table(&text));
        let mut keyed = request("POST");
        let key = HeaderValue::from_static("8e03978e");
        keyed.headers_mut().insert("idempotency-key", key);
        let client = client.layer(transport(&[Step::Reset]));
        send(client, keyed).await.1.attempts()
    };
    assert_eq!(attempts(HttpClientLayer::llm(), "").await, 2);
    assert_eq!(attempts(HttpClientLayer::standard(), "").await, 1);
    let (on, off) = (
        r#", "idempotencyKey": true"#,
        r#", "idempotencyKey": false"#,
    );
    assert_eq!(attempts(HttpClientLayer::standard(), on).await, 2);
    assert_eq!(attempts(HttpClientLayer::llm(), off).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_table_keeps_how_the_preset_reads_headers() {
    let layer = |settings: &str| {
        let text = format!(r#"{{"default": {{"retry": {{}}, "retryAfter": {settings}}}}}"#);
        HttpClientLayer::llm().route(table(&text))
    };
    // The preset's cap is two minutes.
    let beyond = Step::RetryAfter(429, "121");
    let within = Step::RetryAfter(429, "119");
    let capped = layer(r#"{"spread": "0s"}"#);
    assert_eq!(seen(&capped, "POST", beyond).await, (Ok(429), 1));
    let (answer, _, took) = send(capped.layer(transport(&[within])), request("POST")).await;
    assert_eq!((answer, took), (Ok(200), secs(119)), "without its spread");
    let wider = layer(r#"{"cap": "180s"}"#);
    let (answer, _, took) = send(wider.layer(transport(&[beyond])), request("POST")).await;
    let spread = Duration::from_millis(250);
    assert_eq!(answer, Ok(200));
    assert!((secs(121)..=secs(121) + spread).contains(&took), "{took:?}");

    let sent = Arc::new(Mutex::new(0));
    let told = service_fn(move |_: Sent| {
        let mut sent = sent.lock().unwrap();
        *sent += 1;
        let mut response = Response::builder();
        if *sent == 1 {
            response = response.status(418).header("x-should-retry", "true");
        }
        let response = response.body(Full::<Bytes>::default()).unwrap();
        std::future::ready(Ok::<_, io::Error>(response))
    });
    let (answer, info, _) = send(capped.layer(told), request("POST")).await;
    assert_eq!((answer, info.attempts()), (Ok(200), 2), "`x-should-retry`");
}

/// Keeps why attempts were sent.
#[derive(Debug, Default)]
struct Kinds(Mutex<Vec<AttemptKind>>);

impl Observer for Kinds {
    fn attempt_sent(&self, context: &CallContext) {
        self.0.lock().unwrap().push(context.kind());
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_retries_and_hedges() {
    use AttemptKind::{Hedge, Initial, Retry};
    let kinds = Arc::new(Kinds::default());
    let layer = HttpClientLayer::standard().observer(kinds.clone());
    assert_eq!(seen(&layer, "GET", Step::Status(503)).await, (Ok(200), 2));
    let mut hedged = request("GET");
    let policy = RoutePolicy::new("hedged").hedge(HedgePolicy::new(2, Duration::from_millis(20)));
    hedged.context_mut().set_policy(Arc::new(policy));
    let (answer, ..) = send(layer.layer(transport(&[Step::Hangs])), hedged).await;
    assert_eq!(answer, Ok(200));
    assert_eq!(*kinds.0.lock().unwrap(), [Initial, Retry, Initial, Hedge]);
}

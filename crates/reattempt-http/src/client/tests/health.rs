//! The preset with circuit breakers, and over backends with health.

use std::sync::atomic::{AtomicU32, Ordering};

use reattempt::backoff::Randomness;
use reattempt::health::{HealthEvent, HealthPolicy};
use reattempt::{Idempotency, Observer};

use super::*;

#[derive(Debug, Default)]
struct Events(Mutex<Vec<String>>);

impl Observer for Events {
    fn health_changed(&self, event: &HealthEvent) {
        let name = event.name.as_deref().unwrap_or_default();
        let seen = format!("{name} {}", event.change.name());
        self.0.lock().unwrap().push(seen);
    }
}

fn get(host: &str) -> Request<Full<Bytes>> {
    let request = Request::get(format!("http://{host}/"));
    request.body(Full::default()).unwrap()
}

/// The shop fails until it is repaired; all others answer. Counts what arrives.
fn shop(
    works: &Arc<AtomicU32>,
    got: &Arc<AtomicU32>,
) -> impl Service<Sent, Response = Response<Full<Bytes>>, Error = io::Error, Future: Send> + Clone + Send
{
    let (works, got) = (Arc::clone(works), Arc::clone(got));
    service_fn(move |sent: Sent| {
        got.fetch_add(1, Ordering::Relaxed);
        let fails = sent
            .uri()
            .host()
            .is_some_and(|host| host.eq_ignore_ascii_case("shop.example"))
            && works.load(Ordering::Relaxed) == 0;
        async move {
            if fails {
                return Err(io::Error::from(io::ErrorKind::ConnectionReset));
            }
            Ok(Response::new(Full::<Bytes>::default()))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn the_circuit_of_an_origin_opens_and_closes_alone() {
    let (works, got) = (Arc::default(), Arc::default());
    let events = Arc::new(Events::default());
    let client = HttpClientLayer::standard()
        .no_throttle()
        .observer(Arc::clone(&events) as Arc<dyn Observer>)
        .circuit_breakers(HealthPolicy::standard())
        .layer(shop(&works, &got));
    let call = |host: &str| client.clone().oneshot(get(host));
    // Three attempts a call; the fifth opens it.
    for _ in 0..2 {
        assert!(call("SHOP.example").await.is_err());
    }
    assert_eq!(got.load(Ordering::Relaxed), 5);
    let began = Instant::now();
    let mut request = get("shop.example");
    let watch = RetryInfo::track(&mut request);
    let refused = client.clone().oneshot(request).await;
    assert!(matches!(refused, Err(ClientError::CircuitOpen(_))));
    assert_eq!(began.elapsed(), Duration::ZERO, "at once");
    let info = watch.info();
    let failure = info.records().next().and_then(|record| record.failure);
    assert_eq!(failure.unwrap().reason.name(), "CIRCUIT_BREAKER_OPEN");
    assert_eq!((info.attempts(), got.load(Ordering::Relaxed)), (1, 5));
    assert!(call("other.example").await.is_ok(), "it has its own");

    works.store(1, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(call("shop.example").await.is_ok());
    let events = events.0.lock().unwrap();
    assert_eq!(
        *events,
        ["shop.example:80 opened", "shop.example:80 closed"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_classifier_that_is_set_later_is_the_breakers_too() {
    let answers = [Step::Status(418); 6];
    let layer = HttpClientLayer::standard()
        .strategy(reattempt::strategy::NeverRetry)
        .circuit_breakers(HealthPolicy::standard())
        .classifier(HttpClassifier::new().retryable([418].into_iter().collect()));
    let client = layer.layer(transport(&answers));
    for _ in 0..5 {
        let answer = client.clone().oneshot(get("shop.example")).await;
        assert_eq!(answer.unwrap().status(), 418);
    }
    let refused = client.oneshot(get("shop.example")).await;
    assert!(matches!(refused, Err(ClientError::CircuitOpen(_))));
}

/// Whether it refuses a sixth call after five that were answered so.
async fn opens_after<const N: usize>(
    layer: HttpClientLayer,
    status: u16,
    headers: [(&'static str, &'static str); N],
) -> bool {
    let layer = layer.strategy(reattempt::strategy::NeverRetry);
    let layer = layer.circuit_breakers(HealthPolicy::standard());
    let client = layer.layer(service_fn(move |_: Sent| {
        let answer = Response::builder().status(status);
        let answer = headers
            .iter()
            .fold(answer, |answer, (name, value)| answer.header(*name, *value));
        let answer = answer.body(Full::<Bytes>::default()).unwrap();
        async move { Ok::<_, io::Error>(answer) }
    }));
    for _ in 0..5 {
        let answer = client.clone().oneshot(get("shop.example")).await;
        assert_eq!(answer.unwrap().status(), status);
    }
    let sixth = client.oneshot(get("shop.example")).await;
    matches!(sixth, Err(ClientError::CircuitOpen(_)))
}

/// Else the circuit would refuse the calls that wait for `Retry-After`, too.
#[tokio::test(start_paused = true)]
async fn a_limit_of_the_callers_key_opens_no_circuit() {
    let (llm, github) = (HttpClientLayer::llm, HttpClientLayer::github);
    let limited = ("retry-after", "60");
    assert!(opens_after(HttpClientLayer::standard(), 429, [limited]).await);
    assert!(!opens_after(llm(), 429, [limited]).await);
    for repeat in ["true", "false"] {
        assert!(!opens_after(llm(), 429, [("x-should-retry", repeat)]).await);
    }
    assert!(!opens_after(github(), 429, []).await);
    assert!(!opens_after(github(), 403, [limited]).await);
    for layer in [llm(), github()] {
        assert!(opens_after(layer, 503, []).await, "an outage is one");
    }
}

/// Whether one of three replicas, which always answers so, is ejected.
async fn ejects(layer: HttpClientLayer, status: u16, header: (&'static str, &str)) -> bool {
    let replica = |(name, status): (&'static str, u16)| {
        let answer = Response::builder().status(status);
        let answer = answer.header(header.0, header.1);
        let answer = answer.body(Full::<Bytes>::default()).unwrap();
        let answer = move |_: Sent| std::future::ready(Ok::<_, io::Error>(answer.clone()));
        (name, service_fn(answer))
    };
    let replicas = [("a", status), ("b", 200), ("c", 200)].map(replica);
    let layer = layer.strategy(reattempt::strategy::NeverRetry);
    let backends = layer.backends(replicas, HealthPolicy::standard());
    let client = ServiceBuilder::new().layer(layer).service(backends.clone());
    for _ in 0..100 {
        assert!(client.clone().oneshot(get("shop.example")).await.is_ok());
    }
    let ejected = backends.status();
    ejected.iter().any(|(_, status)| status.is_ejected())
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_the_callers_key_ejects_no_backend() {
    let (llm, github) = (HttpClientLayer::llm, HttpClientLayer::github);
    let limited = ("x-ratelimit-remaining", "0");
    assert!(ejects(HttpClientLayer::standard(), 429, limited).await);
    assert!(!ejects(llm(), 429, limited).await);
    assert!(!ejects(github(), 429, limited).await);
    assert!(!ejects(github(), 403, limited).await);
    for layer in [llm(), github()] {
        assert!(ejects(layer, 503, limited).await, "an outage is one");
    }
}

#[tokio::test(start_paused = true)]
async fn backends_have_the_presets_classifier_and_observers() {
    let events = Arc::new(Events::default());
    let layer = HttpClientLayer::standard()
        .strategy(every_10_ms())
        .classifier(HttpClassifier::new().retryable([418].into_iter().collect()))
        .observer(Arc::clone(&events) as Arc<dyn Observer>);
    let replica = |name: &'static str, status: u16| {
        let answer = move |_: Sent| async move {
            let answer = Response::builder().status(status);
            Ok::<_, io::Error>(answer.body(Full::<Bytes>::default()).unwrap())
        };
        (name, service_fn(answer))
    };
    let replicas = [("a", 418), ("b", 200), ("c", 200)].map(|(name, status)| replica(name, status));
    let backends = layer.backends(replicas, HealthPolicy::standard());
    let client = ServiceBuilder::new().layer(layer).service(backends.clone());
    for _ in 0..100 {
        let answer = client.clone().oneshot(get("shop.example")).await;
        assert_eq!(answer.unwrap().status(), 200);
    }
    let ejected = |(name, status): (reattempt::Backend, reattempt::health::Status)| {
        status.is_ejected().then(|| name.to_string())
    };
    let ejected: Vec<_> = backends.status().into_iter().filter_map(ejected).collect();
    assert_eq!(ejected, ["a"]);
    assert_eq!(*events.0.lock().unwrap(), ["a ejected"]);
}

/// Longer than a call waits: the cap of the preset or of a route ends the call, or its wait, and
/// the balancer still heeds it.
#[tokio::test(start_paused = true)]
async fn backends_rest_for_as_long_as_they_ask() {
    assert_eq!(
        asked_of_one_that_rests(HttpClientLayer::standard()).await,
        1
    );
    for of_route in [r#""cap": "10s""#, r#""cap": "1s", "beyondCap": "wait""#] {
        let text = format!(r#"{{"default": {{"retry": {{}}, "retryAfter": {{{of_route}}}}}}}"#);
        let parsed = HttpPolicies::parse(&text).unwrap();
        assert!(parsed.warnings.is_empty(), "{:?}", parsed.warnings);
        let layer = HttpClientLayer::policies(LiveHttpPolicies::new(parsed.policies));
        assert_eq!(asked_of_one_that_rests(layer).await, 1, "{of_route}");
    }
}

/// How often one of two backends gets a request in 50 seconds that asks for a minute of rest.
async fn asked_of_one_that_rests<R: Route<Request<Full<Bytes>>> + Clone>(
    layer: HttpClientLayer<R>,
) -> u32 {
    let asked = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let replica = |name: &'static str| {
        let asked = Arc::clone(&asked);
        let answer = move |_: Sent| {
            let mut answer = Response::builder();
            if name == "busy" {
                asked.fetch_add(1, Ordering::Relaxed);
                answer = answer.status(503).header("retry-after", "60");
            }
            let answer = answer.body(Full::<Bytes>::default()).unwrap();
            async move { Ok::<_, io::Error>(answer) }
        };
        (name, service_fn(answer))
    };
    let replicas = ["busy", "idle"].map(replica);
    let backends = layer.backends(replicas, HealthPolicy::standard());
    let client = ServiceBuilder::new().layer(layer).service(backends);
    for _ in 0..50 {
        let _ = client.clone().oneshot(get("shop.example")).await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    asked.load(Ordering::Relaxed)
}

/// What was never sent may go anywhere, and a POST that was sent may not.
#[tokio::test(start_paused = true)]
async fn a_post_moves_on_from_a_backend_that_refuses_connections() {
    let layer = HttpClientLayer::standard().strategy(every_10_ms());
    let replica = |name: &'static str| {
        let answer = move |_: Sent| async move {
            match name {
                "down" => Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
                _ => Ok(Response::new(Full::<Bytes>::default())),
            }
        };
        (name, service_fn(answer))
    };
    let backends = layer.backends(["down", "up"].map(replica), HealthPolicy::standard());
    let client = ServiceBuilder::new().layer(layer).service(backends);
    for _ in 0..20 {
        let mut post = request("POST");
        let context = reattempt::HasCallContext::context_mut(&mut post);
        context.set_idempotency(Idempotency::NotIdempotent);
        assert!(client.clone().oneshot(post).await.is_ok());
    }
}

/// The circuit keeps what it knows; `reattempt::health` has the rest.
#[tokio::test(start_paused = true)]
async fn a_document_that_is_replaced_changes_the_policy() {
    let text = |failures| format!(r#"{{"health": {{"consecutiveFailures": {failures}}}}}"#);
    let live = LiveHttpPolicies::new(HttpPolicies::parse(&text(10)).unwrap().policies);
    let health = live.load().health().clone();
    let layer = HttpClientLayer::policies(live.clone())
        .strategy(reattempt::strategy::NeverRetry)
        .circuit_breakers(&health);
    let (works, got) = (Arc::default(), Arc::default());
    let client = layer.layer(shop(&works, &got));
    for _ in 0..4 {
        let failed = client.clone().oneshot(get("shop.example")).await;
        assert!(matches!(failed, Err(ClientError::Transport(_))));
    }
    live.update(&text(5)).unwrap();
    for _ in 0..2 {
        assert!(client.clone().oneshot(get("shop.example")).await.is_err());
    }
    assert_eq!(
        got.load(Ordering::Relaxed),
        5,
        "the fifth in a row opens it"
    );
    live.update("{}").unwrap();
    assert_eq!(*health.load(), HealthPolicy::standard());
}

/// Whether the document's health opens the circuit of a failing origin, half of the times, with
/// this source of randomness.
async fn opens_by_chance(roll: f64) -> bool {
    let text = r#"{"health": {"consecutiveFailures": 0, "failurePercentageEjection":
        {"enforcementPercentage": 50, "minimumHosts": 1, "requestVolume": 5}}}"#;
    let options = crate::policy::Options::new().randomness(Randomness::Fixed(roll));
    let live = LiveHttpPolicies::new(HttpPolicies::parse_with(text, &options).unwrap().policies);
    let layer = HttpClientLayer::policies(live.clone())
        .strategy(reattempt::strategy::NeverRetry)
        .circuit_breakers(live.load().health());
    let (works, got) = (Arc::default(), Arc::default());
    let client = layer.layer(shop(&works, &got));
    for _ in 0..9 {
        let failed = client.clone().oneshot(get("shop.example")).await;
        assert!(matches!(failed, Err(ClientError::Transport(_))));
    }
    tokio::time::sleep(Duration::from_secs(11)).await;
    // The interval ends with a call.
    let _ = client.clone().oneshot(get("shop.example")).await;
    let last = client.oneshot(get("shop.example")).await;
    matches!(last, Err(ClientError::CircuitOpen(_)))
}

#[tokio::test(start_paused = true)]
async fn the_health_of_a_document_draws_from_the_options() {
    for _ in 0..10 {
        assert!(opens_by_chance(0.1).await);
        assert!(!opens_by_chance(0.9).await);
    }
}

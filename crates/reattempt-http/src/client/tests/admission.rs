//! The preset below an `AdmissionLayer`, and what the hop being served reports of a refused call.

use reattempt::admission::{Admission, Criticality, OnRefused, Refused};
use reattempt::backoff::Randomness;
use reattempt::{HasCallContext, RetryThrottle, Route};

use super::*;
use crate::hop::{self, GaveUpLayer, Hop, ServerHopLayer};

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_nothing_receives_almost_nothing() {
    let bucket = Arc::new(TokenBucket::default());
    let preset = HttpClientLayer::standard()
        .strategy(reattempt::strategy::NeverRetry)
        .throttle(bucket.clone());
    let mut client = ServiceBuilder::new()
        .layer(preset.admission(Arc::new(Admission::default())))
        .service(transport(&[Step::Status(503); 1000]));
    let (mut sent, mut refused) = (0, 0);
    for _ in 0..1000 {
        let request = Request::get("http://shop.example/").body(Full::<Bytes>::default());
        let client = client.ready().await.unwrap();
        match client.call(request.unwrap()).await {
            Ok(response) => sent += u32::from(response.status() == 503),
            Err(ClientError::Refused(_)) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(sent + refused, 1000);
    assert!(sent < 100, "{sent}");
    let failures = u64::from(sent.min(100)) * 1000;
    assert_eq!(
        bucket.milli_tokens(),
        Some(100_000 - failures),
        "not for refused ones"
    );
}

/// Refuses whenever the formula allows it.
fn strict() -> Arc<Admission> {
    Arc::new(Admission::default().randomness(Randomness::Fixed(0.0)))
}

/// How many of these calls to a host are refused; the shop answers with 503, all others with 200.
async fn refused(
    layer: &HttpClientLayer<impl Route<Request<Full<Bytes>>> + Clone>,
    host: &str,
) -> u32 {
    let client = layer.layer(service_fn(|sent: Sent| async move {
        let busy = sent.uri().host() == Some("shop.example");
        let answer = Response::builder().status(if busy { 503 } else { 200 });
        Ok::<_, io::Error>(answer.body(Full::<Bytes>::default()).unwrap())
    }));
    let mut refused = 0;
    for _ in 0..20 {
        let request = Request::get(format!("http://{host}/")).body(Full::<Bytes>::default());
        match client.clone().oneshot(request.unwrap()).await {
            Err(ClientError::Refused(_)) => refused += 1,
            other => assert!(other.is_ok()),
        }
    }
    refused
}

/// As the guide says: `map_request` above the preset.
#[tokio::test(start_paused = true)]
async fn a_layer_above_can_read_the_criticality_from_a_header() {
    let preset = HttpClientLayer::standard().strategy(reattempt::strategy::NeverRetry);
    let mut client = ServiceBuilder::new()
        .map_request(|mut request: Request<Full<Bytes>>| {
            let stated = request.headers().get("x-criticality");
            if let Some(number) = stated.and_then(|value| value.to_str().ok()?.parse().ok()) {
                request
                    .context_mut()
                    .set_criticality(Criticality::new(number));
            }
            request
        })
        .layer(preset.admission(strict()))
        .service(transport(&[Step::Status(503); 20]));
    let mut refused = Vec::new();
    for number in [2, 2, 2, 2, 2, 2, 0, 0, 1, 1] {
        let request = Request::get("http://shop.example/").header("x-criticality", number);
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let client = client.ready().await.unwrap();
        if let Err(ClientError::Refused(seen)) = client.call(request).await {
            refused.push(seen.criticality);
        }
    }
    // The first one of each in a second is sent.
    assert_eq!(refused, [2, 0, 1].map(Criticality::new));
}

#[tokio::test(start_paused = true)]
async fn each_origin_counts_by_itself() {
    let layer = HttpClientLayer::standard()
        .strategy(reattempt::strategy::NeverRetry)
        .admission(strict());
    assert_eq!(refused(&layer, "shop.example").await, 15);
    assert_eq!(refused(&layer, "other.example").await, 0);
}

#[tokio::test(start_paused = true)]
async fn the_admission_of_the_document_needs_no_code() {
    let options = crate::policy::Options::new().randomness(Randomness::Fixed(0.0));
    let table = HttpPolicies::parse_with(r#"{"admission": true}"#, &options).unwrap();
    let live = LiveHttpPolicies::new(table.policies);
    let layer = HttpClientLayer::policies(live.clone()).strategy(reattempt::strategy::NeverRetry);
    assert_eq!(refused(&layer, "shop.example").await, 15);
    live.update("{}").unwrap();
    assert_eq!(refused(&layer, "shop.example").await, 0);
    live.update(r#"{"admission": true}"#).unwrap();
    assert!(refused(&layer, "shop.example").await > 18);
}

/// Keeps why calls ended.
#[derive(Debug, Default)]
struct Ends(Mutex<Vec<Option<StopReason>>>);

impl reattempt::Observer for Ends {
    fn call_ended(&self, _: &reattempt::CallContext, info: &RetryInfo) {
        self.0.lock().unwrap().push(info.stopped());
    }
}

#[tokio::test(start_paused = true)]
async fn the_observer_gets_the_end_of_a_refused_call() {
    let ends = Arc::new(Ends::default());
    let layer = HttpClientLayer::standard()
        .strategy(reattempt::strategy::NeverRetry)
        .admission(strict())
        .observer(ends.clone());
    assert_eq!(refused(&layer, "shop.example").await, 15);
    let ends = ends.0.lock().unwrap();
    let refused = ends
        .iter()
        .filter(|end| **end == Some(StopReason::Admission));
    assert_eq!((ends.len(), refused.count()), (20, 15));
}

/// Answers a refused call with 503.
#[derive(Clone, Copy)]
struct Unavailable;

impl<E> OnRefused<Response<()>, E> for Unavailable {
    fn on_refused(&self, _: Refused) -> Result<Response<()>, E> {
        let mut response = Response::new(());
        *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
        Ok(response)
    }
}

#[tokio::test(start_paused = true)]
async fn the_hop_before_learns_that_a_call_was_not_admitted() {
    let admission = Arc::new(Admission::default());
    let server = ServiceBuilder::new()
        .layer(ServerHopLayer::new())
        .service(service_fn(move |request: Request<()>| {
            let client = ServiceBuilder::new()
                .layer(GaveUpLayer)
                .layer(reattempt::AdmissionLayer::new(admission.clone()).on_refused(Unavailable))
                .layer(RetryLayer::new(
                    HttpClassifier::new(),
                    reattempt::strategy::NeverRetry,
                ))
                .service(service_fn(|_: Request<()>| async {
                    Ok::<_, Infallible>(Response::builder().status(503).body(()).unwrap())
                }));
            let mut call = Request::new(());
            Hop::of(&request).unwrap().pass_on(&mut call);
            client.oneshot(call)
        }));
    let mut told = Vec::new();
    for _ in 0..1000 {
        let answer = server.clone().oneshot(Request::new(())).await.unwrap();
        assert_eq!(answer.status(), 503);
        told.extend(hop::do_not_retry(answer.headers()).map(str::to_owned));
    }
    // A failure that was not retried is left to the hop before; a refused call is not.
    assert!(told.len() > 900, "{}", told.len());
    assert!(told.iter().all(|why| why == "admission"), "{told:?}");
}

/// How many of twenty calls are refused while the server limits the key with this status.
async fn refused_under_a_limit(layer: HttpClientLayer, status: u16) -> usize {
    let steps = [Step::RetryAfter(status, "60"); 20];
    let client = layer
        .strategy(reattempt::strategy::NeverRetry)
        .admission(strict())
        .layer(transport(&steps));
    let mut refused = 0;
    for _ in 0..20 {
        match client.clone().oneshot(request("GET")).await {
            Err(ClientError::Refused(_)) => refused += 1,
            other => assert_eq!(other.unwrap().status(), status),
        }
    }
    refused
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_the_callers_key_refuses_no_call() {
    let (llm, github) = (HttpClientLayer::llm, HttpClientLayer::github);
    assert_eq!(
        refused_under_a_limit(HttpClientLayer::standard(), 429).await,
        15
    );
    assert_eq!(refused_under_a_limit(llm(), 429).await, 0);
    assert_eq!(refused_under_a_limit(github(), 429).await, 0);
    assert_eq!(refused_under_a_limit(github(), 403).await, 0);
    for layer in [llm(), github()] {
        assert_eq!(refused_under_a_limit(layer, 503).await, 15, "an overload");
    }
}

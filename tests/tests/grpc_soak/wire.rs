//! The same on loopback sockets: 5 000 calls through hyper against the raw HTTP/2 server, on two
//! threads.
//!
//! Times and order depend on the machine, so there is no model. The test checks that nothing is
//! left on either side.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use reattempt::{
    DeadlineLayer, HasCallContext, HedgeLayer, HedgePolicy, PushbackLayer, RetryLayer, RouteLayer,
    Routes,
};
use reattempt_clients::grpc::Messages;
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_grpc::{
    AsGrpcStatus, GrpcClassifier, GrpcOutcomeLayer, GrpcPushback, GrpcTimeoutLayer,
    PreviousAttemptsLayer,
};
use reattempt_http::body::{BufferBudget, DeadlineBodyLayer, ReplayBody, ReplayBodyLayer};
use reattempt_testbed::grpc::{ErrorCode, Script, SeenCall, Server, Step};
use reattempt_tests::alive::{Live, count};
use tokio::task::JoinSet;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use super::upload::{Upload, UploadPlan};
use super::world::Alive;

const CALLS: u32 = 5_000;
const CALLERS: u32 = 100;
/// The time after which a test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(60);

const METHODS: [&str; 3] = ["Retry", "Hedge", "Burst"];

fn config() -> ServiceConfig {
    let text = r#"{
        "methodConfig": [
            {"name": [{"service": "soak.S", "method": "Retry"}], "timeout": "3s",
             "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.002s", "maxBackoff": "0.01s", "backoffMultiplier": 2,
                             "retryableStatusCodes": [14, 4, 13]}},
            {"name": [{"service": "soak.S", "method": "Hedge"}], "timeout": "3s",
             "hedgingPolicy": {"maxAttempts": 4, "hedgingDelay": "0.004s", "nonFatalStatusCodes": [14, 4, 13]}},
            {"name": [{"service": "soak.S", "method": "Burst"}], "timeout": "1.5s",
             "hedgingPolicy": {"maxAttempts": 3, "nonFatalStatusCodes": [14]}}
        ],
        "retryThrottling": {"maxTokens": 100, "tokenRatio": 1}
    }"#;
    ServiceConfig::parse(text).expect("a service config")
}

/// What the server did, and what must be observed afterwards.
#[derive(Debug, Default)]
struct Deeds {
    /// Calls that the server never ends.
    hang: HashSet<usize>,
    /// Connections that the server broke, with all calls on them.
    broken: HashSet<u64>,
}

fn step(rng: &mut SmallRng, deeds: &mut Deeds, call: &SeenCall) -> Step {
    let wait = Duration::from_millis(rng.random_range(0..8));
    let busy = Step::trailers_only(14, "busy").after(wait);
    let answer = || Step::ok(call.header("x-call").unwrap_or_default().to_owned());
    let step = match rng.random_range(0..100) {
        0..=34 => answer().after(wait),
        35..=44 => answer().end_after(wait),
        45..=59 => busy,
        60..=64 => {
            let word = *["0", "2", "9", "-1", "junk"].choose(rng).expect("some");
            busy.pushback(word)
        }
        65..=69 => Step::headers_then_status(14),
        70..=74 => answer().end_reset(ErrorCode::INTERNAL_ERROR),
        75..=79 => Step::refuse_stream(),
        80..=84 => Step::reset(ErrorCode::INTERNAL_ERROR),
        85 => Step::trailers_only(3, "no"),
        // All calls share one connection.
        86 if rng.random_ratio(1, 10) => [Step::go_away(), Step::close(), Step::half_frame()]
            .choose(rng)
            .expect("some")
            .clone(),
        86..=91 => answer().end_hang(),
        _ => Step::hang(),
    };
    match rng.random_range(0..4) {
        0 => step.at_once(),
        1 => step.after_messages(2),
        _ => step,
    }
    .noted(deeds, call)
}

/// Logs each step of the script when it is used.
trait Noted {
    fn noted(self, deeds: &mut Deeds, call: &SeenCall) -> Self;
}

impl Noted for Step {
    fn noted(self, deeds: &mut Deeds, call: &SeenCall) -> Self {
        let text = format!("{self:?}");
        if text.contains("Hang") {
            deeds.hang.insert(call.number);
        }
        if ["GoAway", "Close", "HalfFrame"]
            .iter()
            .any(|kind| text.contains(&format!("kind: {kind}")))
        {
            deeds.broken.insert(call.connection);
        }
        self
    }
}

type Http = Client<HttpConnector, ReplayBody<Upload>>;

fn stack(
    http: &Http,
    budget: &BufferBudget,
    config: &Routes<ServiceConfig>,
) -> impl Service<
    Request<Upload>,
    Response = Response<
        impl http_body::Body<Data = Bytes, Error = BoxError> + Send + Unpin + use<>,
    >,
    Error = BoxError,
    Future: Send,
> + Clone
+ Send
+ use<> {
    ServiceBuilder::new()
        .layer(RouteLayer::new(config.clone()))
        .layer(GrpcTimeoutLayer)
        .layer(DeadlineLayer::no_timeout().on_elapsed(AsGrpcStatus))
        .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
        .layer(
            ReplayBodyLayer::new()
                .bytes_per_call(64)
                .budget(budget.clone()),
        )
        .layer(RetryLayer::by_policy(GrpcClassifier::new()))
        .layer(HedgeLayer::new(
            GrpcClassifier::new(),
            HedgePolicy::new(1, Duration::ZERO),
        ))
        .layer(DeadlineLayer::new(Duration::from_secs(1)).on_elapsed(AsGrpcStatus))
        .layer(PreviousAttemptsLayer)
        .layer(PushbackLayer::new(GrpcPushback))
        .layer(GrpcOutcomeLayer::new())
        .map_response(|answer: Response<Incoming>| {
            answer.map(|body| body.map_err(BoxError::from).boxed_unsync())
        })
        .map_err(BoxError::from)
        .service(http.clone())
}

/// Checks that the response of a call that succeeded is its own.
async fn read<B>(id: u32, answer: Response<B>) -> bool
where
    B: http_body::Body<Data = Bytes, Error = BoxError>,
{
    let Ok(collected) = answer.into_body().collect().await else {
        return false;
    };
    let ok = collected
        .trailers()
        .is_some_and(|trailers| trailers["grpc-status"] == "0");
    if ok {
        let mut messages = Messages::default();
        messages.push(&collected.to_bytes());
        let message = messages.next_message().expect("whole").expect("one");
        assert_eq!(message, id.to_string());
    }
    ok
}

/// R15 R41 R42 R48 R51
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_calls_on_the_wire_leave_nothing_on_either_side() {
    let deeds = Arc::new(Mutex::new(Deeds::default()));
    let noted = Arc::clone(&deeds);
    let rng = Mutex::new(SmallRng::seed_from_u64(6));
    let script = Script::handler(move |call| {
        let mut deeds = noted.lock().expect("whole");
        step(&mut rng.lock().expect("whole"), &mut deeds, call)
    });
    let server = Arc::new(Server::start(script).await.expect("a server"));
    let http: Http = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .retry_canceled_requests(false)
        .build_http();
    let (alive, budget) = (Arc::new(Alive::default()), BufferBudget::default());
    let routes = Routes::new(config());
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        let service = stack(&http, &budget, &routes);
        let (alive, uri) = (Arc::clone(&alive), server.uri());
        let mut rng = SmallRng::seed_from_u64(u64::from(number));
        callers.spawn(async move {
            let mut worked = 0;
            for call in 0..CALLS / CALLERS {
                let id = call * CALLERS + number;
                let method = METHODS.choose(&mut rng).expect("some");
                let mut plan = UploadPlan::draw(&mut rng);
                plan.frames += 1;
                let mut request = Request::post(format!("{uri}/soak.S/{method}"))
                    .header("content-type", "application/grpc")
                    .header("te", "trailers")
                    .header("x-call", id)
                    .body(plan.begin(&alive.uploads))
                    .expect("a request");
                let context = request.context_mut();
                context.set_data(Live::one_of(&alive.contexts));
                let service = service.clone();
                let work = async move {
                    match service.oneshot(request).await {
                        Ok(answer) => read(id, answer).await,
                        Err(_) => false,
                    }
                };
                worked += u32::from(if rng.random_ratio(1, 8) {
                    let leaves = Duration::from_millis(rng.random_range(0..20));
                    tokio::time::timeout(leaves, work).await.unwrap_or(false)
                } else {
                    work.await
                });
            }
            worked
        });
    }
    let mut worked = 0;
    let all = async {
        while let Some(ended) = callers.join_next().await {
            worked += ended.expect("no caller panics");
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("it hangs");
    assert!(worked > CALLS / 20, "only {worked} calls worked");

    // The last drops still have to reach the server.
    let nothing_left = || {
        server.streams_open() == 0
            && budget.used() == 0
            && [&alive.uploads, &alive.contexts].map(count) == [0, 0]
    };
    let settled = async {
        while !nothing_left() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let settled = tokio::time::timeout(PATIENCE, settled).await;
    assert!(
        settled.is_ok(),
        "streams {}, bytes {}, {alive:?}",
        server.streams_open(),
        budget.used()
    );
    let deeds = deeds.lock().expect("whole");
    let seen = server.seen();
    let mut reset = 0;
    for call in seen.iter().filter(|call| deeds.hang.contains(&call.number)) {
        match call.cancelled.and_then(|cancelled| cancelled.code) {
            Some(ErrorCode::CANCEL) => reset += 1,
            // hyper's code for a request body that failed, or that was abandoned for another
            // attempt.
            Some(ErrorCode::INTERNAL_ERROR) => assert!(!call.half_closed, "{call:?}"),
            // Its connection was broken.
            _ => assert!(deeds.broken.contains(&call.connection), "{call:?}"),
        }
    }
    println!("{worked} worked, {} attempts, {reset} reset", seen.len());
    assert!(reset > 100, "only {reset} losers");
}

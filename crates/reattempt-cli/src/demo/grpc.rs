//! gRPC: hyper's client over one HTTP/2 connection, with policies from a service config.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use indicatif::ProgressBar;
use reattempt::backoff::Randomness;
use reattempt::{DeadlineLayer, HedgeLayer, PushbackLayer, RetryLayer, RouteLayer};
use reattempt_clients::grpc::frame_message;
use reattempt_grpc::service_config::{self, ServiceConfig};
use reattempt_grpc::{
    AsGrpcStatus, Code, GRPC_STATUS, GrpcClassifier, GrpcOutcomeLayer, GrpcPushback,
    PreviousAttemptsLayer,
};
use reattempt_http::TransportFault;
use reattempt_http::body::{DeadlineBodyLayer, ReplayBodyLayer};
use reattempt_testbed::grpc::{Grpc, SeenCall, Step};
use serde_json::json;
use tower::ServiceBuilder;

use super::DemoError;
use super::exchange::{Exchange, Through, client, named, without};
use super::load::{CallRecord, Plan, Seen, drive};
use super::one_server::OneServer;
use super::policies::{
    FIRST_BACKOFF, HEDGE_DELAY, LONGEST_BACKOFF, MILLI_RATIO, MOST_ATTEMPTS, MOST_HEDGED, Policies,
};
use super::trouble::{Script, Trouble, is_search};
use super::way::Way;
use crate::call::attempts::{JournalLayer, JournalObserver};

const SERVICE: &str = "demo.Catalog";

/// Runs the load once, against a new server.
pub(crate) async fn run(
    plan: &Plan,
    way: Way,
    progress: &ProgressBar,
) -> Result<Vec<CallRecord>, DemoError> {
    let mut scene = OneServer::<Grpc>::start(plan, step).await?;
    let exchange = GrpcExchange(scene.addr());
    if way != Way::Stack {
        return without(way, plan, exchange, &mut scene, progress).await;
    }
    let mut options = service_config::Options::new();
    options.randomness = Randomness::seeded(plan.seed);
    let config = ServiceConfig::parse_with(&config(plan), &options)?;
    let classifier = GrpcClassifier::new();
    let stack = ServiceBuilder::new()
        // The service config also provides the throttle.
        .layer(RouteLayer::new(config))
        .layer(DeadlineLayer::no_timeout().on_elapsed(AsGrpcStatus))
        .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
        .layer(ReplayBodyLayer::new())
        .layer(
            RetryLayer::new(classifier, Policies::new(plan).strategy())
                .observer(Arc::new(JournalObserver)),
        )
        .layer(HedgeLayer::by_policy(classifier).observer(Arc::new(JournalObserver)))
        .layer(PreviousAttemptsLayer)
        .layer(JournalLayer)
        .layer(PushbackLayer::new(GrpcPushback))
        .layer(GrpcOutcomeLayer::new())
        .map_response(|response: Response<Incoming>| response.map(BodyExt::boxed))
        .service(client(GrpcExchange::HTTP2));
    drive(plan, Through::new(stack, exchange), &mut scene, progress).await
}

/// The policies of both methods, as a service config.
fn config(plan: &Plan) -> String {
    let seconds = |time: Duration| format!("{:.3}s", time.as_secs_f64());
    let name = |method: &str| json!([{ "service": SERVICE, "method": method }]);
    let codes = json!(["UNAVAILABLE", "RESOURCE_EXHAUSTED"]);
    json!({
        "methodConfig": [
            {
                "name": name("Get"),
                "timeout": seconds(plan.limit),
                "retryPolicy": {
                    "maxAttempts": MOST_ATTEMPTS,
                    "initialBackoff": seconds(FIRST_BACKOFF),
                    "maxBackoff": seconds(LONGEST_BACKOFF),
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": codes,
                },
            },
            {
                "name": name("Search"),
                "timeout": seconds(plan.limit),
                "hedgingPolicy": {
                    "maxAttempts": MOST_HEDGED,
                    "hedgingDelay": seconds(HEDGE_DELAY),
                    "nonFatalStatusCodes": codes,
                },
            },
        ],
        "retryThrottling": {
            "maxTokens": plan.tokens(),
            "tokenRatio": f64::from(MILLI_RATIO) / 1000.0,
        },
    })
    .to_string()
}

/// The server's step for one call.
fn step(script: &Script, seen: &SeenCall) -> Step {
    let text = seen.messages.first().map(|message| &message[..]);
    let number = text
        .and_then(|text| std::str::from_utf8(text).ok())
        .and_then(|text| text.parse().ok());
    let refused = |code: Code, why| Step::trailers_only(code.number(), why);
    match number.map_or(Trouble::None, |number| script.next(number)) {
        Trouble::None => Step::ok("price 1"),
        Trouble::Temporary(kind) => match kind % 5 {
            0 => Step::refuse_stream(),
            _ => refused(Code::Unavailable, "try again"),
        },
        Trouble::Slow(delay) => Step::ok("price 1").after(delay),
        Trouble::Hang => Step::hang(),
        Trouble::Pushback(delay) => {
            refused(Code::Unavailable, "not now").pushback(delay.as_millis().to_string())
        }
        Trouble::Overloaded => refused(Code::ResourceExhausted, "too much to do"),
    }
}

/// Calls of the server at this address; the message carries the number of the call.
#[derive(Clone, Copy, Debug)]
struct GrpcExchange(SocketAddr);

impl Exchange for GrpcExchange {
    const HTTP2: bool = true;

    fn request(self, number: usize) -> Request<Full<Bytes>> {
        let method = if is_search(number) { "Search" } else { "Get" };
        let mut request = Request::new(Full::new(frame_message(number.to_string().as_bytes())));
        *request.method_mut() = Method::POST;
        // An address and these names always form a valid URI.
        *request.uri_mut() = format!("http://{}/{SERVICE}/{method}", self.0)
            .parse()
            .unwrap_or(Uri::from_static("/"));
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(TE, HeaderValue::from_static("trailers"));
        request
    }

    async fn seen<B>(outcome: Result<Response<B>, TransportFault>) -> Seen
    where
        B: Body<Data: Send, Error: std::error::Error + Send + Sync + 'static> + Send + 'static,
    {
        let response = outcome.map_err(named)?;
        let of_head = status(response.headers());
        let body = response.into_body().collect().await;
        let body = body.map_err(|error| named(TransportFault::of(&error)))?;
        match of_head.or_else(|| body.trailers().and_then(status)) {
            Some(Code::Ok) => Ok(()),
            Some(Code::DeadlineExceeded) => Err("timeout".into()),
            Some(code) => Err(code.name().into()),
            None => Err("no status".into()),
        }
    }

    /// It sees heads, not trailers.
    fn is_failure(response: &Response<Incoming>) -> bool {
        let status = status(response.headers());
        matches!(status, Some(Code::Unavailable | Code::ResourceExhausted))
    }
}

fn status(headers: &HeaderMap) -> Option<Code> {
    headers.get(GRPC_STATUS).map(Code::from_header)
}

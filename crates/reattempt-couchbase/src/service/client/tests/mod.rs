//! The preset against the single layers, with the same script, on paused time.

mod settings;

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use reattempt::strategy::BestEffort;
use reattempt::{ClientErrorLayer, DeadlineLayer, RetryInfo, RetryLayer};
use reattempt_http::body::{DeadlineBodyLayer, ReplayBodyLayer};
use tokio::time::Instant;
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};

use super::*;
use crate::service::tests::{Piece, Pieces, data, errors, ms, response};
use crate::service::{HttpService, ReadOnly, ServiceErrorLayer, ServiceIdempotencyLayer};

type Sent = Request<ReplayBody<Full<Bytes>>>;

/// What one attempt meets.
#[derive(Clone, Copy, Debug)]
enum Step {
    Status(u16),
    /// An error of query or analytics.
    Error(i32),
    Refused,
    Reset,
    Hangs,
    BreaksOff,
    /// After its first row.
    BodyHangs,
}

fn answer(step: Step) -> io::Result<Response<Pieces>> {
    let body = match step {
        Step::Refused => return Err(io::ErrorKind::ConnectionRefused.into()),
        Step::Reset | Step::Hangs => return Err(io::ErrorKind::ConnectionReset.into()),
        Step::Status(status) => return Ok(response(status, Pieces::text(r#"{"results": [1]}"#))),
        Step::Error(code) => {
            let errors = errors(&format!(r#"{{"code": {code}, "msg": "m"}}"#));
            Pieces::text(&errors)
        }
        Step::BreaksOff => Pieces::of([data(r#"{"results": [1"#), Piece::Breaks]),
        Step::BodyHangs => Pieces::of([data(r#"{"results": [1"#), Piece::Hangs]),
    };
    Ok(response(200, body))
}

/// An HTTP client that meets these steps, and then succeeds. It reads each request.
fn client(
    steps: &[Step],
) -> impl Service<Sent, Response = Response<Pieces>, Error = io::Error, Future: Send>
+ Clone
+ Send
+ use<> {
    let steps = Arc::new(Mutex::new(steps.iter().copied().collect::<VecDeque<_>>()));
    service_fn(move |request: Sent| {
        let step = steps.lock().unwrap().pop_front();
        async move {
            let body = request.into_body().collect().await;
            let body = body.map_err(io::Error::other)?.to_bytes();
            assert_eq!(body, "select 1", "the whole body, each time");
            if matches!(step, Some(Step::Hangs)) {
                std::future::pending::<()>().await;
            }
            answer(step.unwrap_or(Step::Status(200)))
        }
    })
}

fn request(method: &str) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri("http://node/service");
    request.body(Full::from("select 1")).unwrap()
}

fn read_only() -> Request<Full<Bytes>> {
    let mut request = request("POST");
    request.extensions_mut().insert(ReadOnly);
    request
}

/// The status of a call and its body or the body's end, or its error; its records, and its
/// duration.
async fn send<S, B>(service: S, mut request: Request<Full<Bytes>>) -> (Seen, RetryInfo, Duration)
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = ClientError<io::Error>>,
    B: Body<Error: fmt::Display>,
{
    let handle = RetryInfo::track(&mut request);
    let began = Instant::now();
    let seen = match service.oneshot(request).await {
        Ok(response) => {
            let status = response.status().as_u16();
            let body = response.into_body().collect().await;
            let body = body.map(|body| String::from_utf8(body.to_bytes().to_vec()).unwrap());
            Ok((status, body.unwrap_or_else(|error| error.to_string())))
        }
        Err(error) => Err(format!(
            "{error}; ambiguous: {:?}",
            error.elapsed().map(|elapsed| elapsed.ambiguous)
        )),
    };
    (seen, handle.info(), began.elapsed())
}

type Seen = Result<(u16, String), String>;

/// All that a call's records say, except for the clock's time.
fn story(info: &RetryInfo) -> String {
    let records = info.records().map(|record| {
        let what = (record.number, record.kind, record.outcome);
        format!(
            "{what:?} {:?} {:?} {:?}",
            record.failure, record.delay, record.stopped
        )
    });
    format!("{info}\n{}", records.collect::<Vec<_>>().join("\n"))
}

const SERVICES: [HttpService; 5] = [
    HttpService::query(),
    HttpService::analytics(),
    HttpService::search(),
    HttpService::views(),
    HttpService::management(),
];

#[tokio::test(start_paused = true)]
async fn the_preset_decides_as_the_single_layers_do() {
    use Step::*;
    for service in SERVICES {
        for steps in [
            &[][..],
            &[Error(4040), Error(4050)],
            &[Error(23007); 20],
            &[Error(3000)],
            &[Status(429), Status(503), Status(302)],
            &[Status(302); 9],
            &[Refused, Reset],
            &[BreaksOff],
            &[BodyHangs],
            &[Status(503), Hangs],
        ] {
            for make in [|| request("POST"), || request("GET"), read_only] {
                let preset = ServiceClientLayer::new(service).layer(client(steps));
                let classifier = ServiceClassifier::new(service, HttpClassifier::new());
                let singles = ServiceBuilder::new()
                    .layer(ServiceIdempotencyLayer::new(service))
                    .layer(DeadlineLayer::new(Duration::from_secs(75)))
                    .layer(DeadlineBodyLayer::new())
                    .layer(ReplayBodyLayer::new())
                    .layer(RetryLayer::new(classifier, BestEffort::new()))
                    .layer(ServiceErrorLayer::new(service))
                    .layer(ClientErrorLayer)
                    .service(client(steps));
                let (seen, info, took) = send(preset, make()).await;
                let (expected, of_singles, expected_time) = send(singles, make()).await;
                let found = (seen, took, story(&info));
                let expected = (expected, expected_time, story(&of_singles));
                assert_eq!(found, expected, "{service:?} {steps:?}");
            }
        }
    }
}

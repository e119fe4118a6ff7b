mod arbitrary;
mod classify;
mod errors;
mod lists;
mod odd;
mod reading;
mod stack;

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use reattempt::{CallContext, Classify, Failure, Stage, Verdict, reason};
use tokio::time::{Instant, Sleep};
use tower::{BoxError, ServiceBuilder, ServiceExt};

use super::*;

pub(super) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// What a body does next.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
    Pause(Duration),
    Breaks,
    Hangs,
}

/// A body of pieces; it ends after the last.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    left: VecDeque<Piece>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Pieces {
    pub(super) fn of(pieces: impl IntoIterator<Item = Piece>) -> Self {
        Self {
            left: pieces.into_iter().collect(),
            pause: None,
        }
    }

    pub(super) fn text(text: &str) -> Self {
        Self::of([data(text)])
    }

    /// In frames of this many bytes.
    fn split(bytes: &[u8], size: usize) -> Self {
        Self::of(
            bytes
                .chunks(size)
                .map(|piece| Piece::Data(Bytes::copy_from_slice(piece))),
        )
    }
}

pub(super) fn data(text: &str) -> Piece {
    Piece::Data(Bytes::copy_from_slice(text.as_bytes()))
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Some(pause) = &mut self.pause {
                std::task::ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            return Poll::Ready(match self.left.pop_front() {
                None => None,
                Some(Piece::Data(data)) => Some(Ok(Frame::data(data))),
                Some(Piece::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
                Some(Piece::Breaks) => Some(Err("it broke off".into())),
                Some(Piece::Pause(time)) => {
                    self.pause = Some(Box::pin(tokio::time::sleep(time)));
                    continue;
                }
                Some(Piece::Hangs) => {
                    self.left.push_front(Piece::Hangs);
                    return Poll::Pending;
                }
            });
        }
    }
}

type Answer = Response<ServiceBody<Pieces>>;

pub(super) fn response(status: u16, body: Pieces) -> Response<Pieces> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

/// The response that leaves the layer, and how long it took.
async fn through(layer: ServiceErrorLayer, status: u16, body: Pieces) -> (Answer, Duration) {
    let mut once = Some(response(status, body));
    let service = ServiceBuilder::new()
        .layer(layer)
        .service_fn(move |_: Request<()>| {
            let response = once.take().unwrap();
            async move { Ok::<_, BoxError>(response) }
        });
    let began = Instant::now();
    let answer = service.oneshot(Request::new(())).await.unwrap();
    (answer, began.elapsed())
}

/// Like reattempt-http's own classifier: only the stage and the safety count.
fn transport<B>(_: Result<&Response<B>, &BoxError>, _: &CallContext) -> Verdict {
    Verdict::Retry(Failure::new(reason::UNKNOWN, Stage::InFlight))
}

fn verdict(service: HttpService, answer: &Answer) -> Verdict {
    ServiceClassifier::new(service, transport).classify(Ok(answer), &CallContext::default())
}

/// The verdict on a response with this status and body. Checks that it does not depend on the
/// frames, and that the body reaches the caller unchanged.
async fn judged(service: HttpService, status: u16, body: &str) -> Verdict {
    let mut verdicts = Vec::new();
    for size in [1, 2, 7, body.len().max(1)] {
        let pieces = Pieces::split(body.as_bytes(), size);
        let (answer, took) = through(ServiceErrorLayer::new(service), status, pieces).await;
        assert_eq!(took, Duration::ZERO);
        verdicts.push(verdict(service, &answer));
        let came = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(came, body, "the caller's copy");
    }
    verdicts.dedup();
    assert_eq!(verdicts.len(), 1, "{status} {body}: {verdicts:?}");
    verdicts[0]
}

/// The reason of a retryable verdict.
fn retried(verdict: Verdict) -> Option<reattempt::RetryReason> {
    match verdict {
        Verdict::Retry(failure) => Some(failure.reason),
        _ => None,
    }
}

fn is_final(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Fatal(failure) if failure.reason == reason::UNKNOWN)
}

/// An error response of the query service.
pub(super) fn errors(list: &str) -> String {
    format!(
        r#"{{"requestID": "7", "signature": {{"*": "*"}}, "results": [
], "errors": [{list}], "status": "fatal", "metrics": {{"errorCount": 1}}}}"#
    )
}

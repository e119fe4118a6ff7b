//! The response body of a Couchbase service over HTTP, in pieces of any size: no input panics, the
//! split does not change the result, and the caller gets all of it.
#![no_main]

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use libfuzzer_sys::fuzz_target;
use reattempt::Verdict;
use reattempt_couchbase::service::{HttpService, ServiceAnswer, ServiceErrorLayer};
use tower_layer::Layer;
use tower_service::Service;

/// The remaining bytes, and the size of a piece.
#[derive(Clone)]
struct Pieces(Bytes, usize);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let size = self.1.min(self.0.len());
        let piece = self.0.split_to(size);
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }
}

struct Node(StatusCode, Pieces);

impl Service<Request<()>> for Node {
    type Response = Response<Pieces>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Pieces>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        let mut response = Response::new(self.1.clone());
        *response.status_mut() = self.0;
        ready(Ok(response))
    }
}

/// Every future here is ready, but may yield.
fn finish<F: Future>(future: F) -> F::Output {
    let mut cx = Context::from_waker(Waker::noop());
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
    }
}

fn verdict(service: HttpService, status: StatusCode, body: &[u8], size: usize) -> Verdict {
    let pieces = Pieces(Bytes::copy_from_slice(body), size);
    let mut layered = ServiceErrorLayer::new(service).layer(Node(status, pieces));
    let Ok(mut answer) = finish(layered.call(Request::new(())));
    let mut came = Vec::new();
    let found = answer.extensions_mut().remove::<ServiceAnswer>();
    let mut rest = answer.into_body();
    loop {
        let next = std::future::poll_fn(|cx| Pin::new(&mut rest).poll_frame(cx));
        let Some(Ok(frame)) = finish(next) else {
            break;
        };
        came.extend_from_slice(frame.data_ref().expect("data"));
    }
    assert_eq!(came, body);
    service.verdict(status, &found.expect("the body was inspected"))
}

fuzz_target!(|data: &[u8]| {
    let [service, status, size, body @ ..] = data else {
        return;
    };
    let service = match service % 8 {
        0 | 1 => HttpService::query(),
        2 => HttpService::query().with_current_server_codes(),
        3 => HttpService::analytics(),
        4 => HttpService::search().with_current_server_codes(),
        5 | 6 => HttpService::views(),
        _ => HttpService::management(),
    };
    let statuses = [200, 302, 400, 404, 429, 500, 503];
    let status = statuses[usize::from(*status) % statuses.len()];
    let status = StatusCode::from_u16(status).expect("a status");
    let in_pieces = verdict(service, status, body, usize::from(*size).max(1));
    let at_once = verdict(service, status, body, body.len().max(1));
    // Longer bodies than the bounds may be cut at another position.
    if body.len() < 8 * 1024 {
        assert_eq!(in_pieces, at_once);
        assert_eq!(service.verdict_on(status, body), at_once);
    }
    if let Some(error) = service.read_error(status, body) {
        assert!(
            error
                .message()
                .is_none_or(|text| text.len() <= 4 * body.len() + 16)
        );
    }
});

//! The outcome layer passes everything through unchanged (R23: it only observes).

use super::*;
use http_body::Body as _;
use tower::Service;

/// A service that is ready if the flag is set.
#[derive(Clone)]
struct Gate(bool);

impl Service<Request<()>> for Gate {
    type Response = Response<Full<Bytes>>;
    type Error = Broken;
    type Future = std::future::Ready<Result<Self::Response, Broken>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Broken>> {
        if self.0 {
            std::task::Poll::Ready(Ok(()))
        } else {
            std::task::Poll::Pending
        }
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        std::future::ready(Ok(Response::new(Full::from("frame"))))
    }
}

fn layered(gate: Gate) -> impl Service<Request<()>, Response = Response<impl http_body::Body>> {
    ServiceBuilder::new()
        .layer(GrpcOutcomeLayer::new().body_error(|_: &Infallible| Code::Unknown))
        .service(gate)
}

#[test]
fn readiness_is_the_inner_services_own() {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(layered(Gate(false)).poll_ready(&mut cx).is_pending());
    assert!(layered(Gate(true)).poll_ready(&mut cx).is_ready());
}

#[tokio::test]
async fn length_and_end_of_the_answer_are_passed_on() {
    let answer = layered(Gate(true)).oneshot(Request::new(())).await;
    let Ok(answer) = answer else {
        panic!("it answers")
    };
    let mut body = Box::pin(answer.into_body());
    assert_eq!(
        (body.size_hint().exact(), body.is_end_stream()),
        (Some(5), false)
    );
    body.frame().await;
    assert_eq!(
        (body.size_hint().exact(), body.is_end_stream()),
        (Some(0), true)
    );
}

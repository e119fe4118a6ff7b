//! `grpc-retry-pushback-ms`, `grpc-status` and `grpc-timeout` of any value.
#![no_main]

use std::future::{Ready, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Request, Response};
use libfuzzer_sys::fuzz_target;
use reattempt::{CallContext, Classify, ReadPushback, ServerPushback};
use reattempt_grpc::{GrpcClassifier, GrpcPushback, GrpcTimeoutLayer};
use tower_layer::Layer;
use tower_service::Service;

struct Nothing;

impl Service<Request<()>> for Nothing {
    type Response = ();
    type Error = ();
    type Future = Ready<Result<(), ()>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(()))
    }
}

fuzz_target!(|data: &[u8]| {
    if let ServerPushback::After(delay) = GrpcPushback::parse(data) {
        assert!(delay <= Duration::from_millis(i32::MAX as u64));
    }
    let Ok(value) = HeaderValue::from_bytes(data) else {
        return;
    };
    let mut response = Response::new(());
    response.headers_mut().insert("grpc-status", value.clone());
    response
        .headers_mut()
        .insert("grpc-retry-pushback-ms", value.clone());
    let context = CallContext::default();
    let _ = ReadPushback::<_, ()>::read(&GrpcPushback, Ok(&response), &context);
    let _ =
        Classify::<_, std::io::Error>::classify(&GrpcClassifier::new(), Ok(&response), &context);
    let mut request = Request::new(());
    request.headers_mut().insert("grpc-timeout", value);
    let _ = GrpcTimeoutLayer.layer(Nothing).call(request);
});

//! Which types are `Send` and `Sync`, pinned at compile time: a field that changes this breaks
//! users.

use std::convert::Infallible;
use std::future::Ready;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use reattempt_grpc::service_config::{LiveServiceConfig, ServiceConfig};
use reattempt_grpc::spans::{
    AttemptSpan, AttemptSpanBody, AttemptSpanFuture, CallSpan, CallSpanBody, CallSpanFuture,
};
use reattempt_grpc::stats::{
    AttemptStats, AttemptStatsBody, AttemptStatsFuture, CallStats, CallStatsBody, CallStatsFuture,
    GrpcStats, SentBody,
};
use reattempt_grpc::{
    AsGrpcStatus, CallCredentialsFuture, GrpcClassifier, GrpcOutcome, GrpcOutcomeBody,
    GrpcOutcomeFuture, GrpcPushback, GrpcTimeout, HeldBody, HoldHeaders, HoldHeadersFuture,
    LimitedRequestBody, LimitedResponseBody, MessageLimit, MessageLimitFuture, PreviousAttempts,
    PreviousAttemptsFuture, WaitForReadyFuture, WaitsForReady, WithCallCredentials,
};
#[cfg(feature = "tonic")]
use reattempt_grpc::{TonicStatus, TonicStatusBody, TonicStatusFuture};
use reattempt_http::body::{DeadlineBody, DeadlineBodyService};
use tower::util::ServiceFn;

type Body = Full<Bytes>;

/// Any service.
type Inner = ServiceFn<fn(Request<Body>) -> Ready<Result<Response<Body>, Infallible>>>;

const fn service<T: Clone + Send + Sync + Unpin + std::fmt::Debug>() {}
const fn future<T: Send + Sync + Unpin + std::fmt::Debug>() {}

const _: () = {
    service::<GrpcOutcome<()>>();
    service::<GrpcTimeout<()>>();
    service::<PreviousAttempts<()>>();
    service::<HoldHeaders<()>>();
    service::<MessageLimit<()>>();
    service::<WaitsForReady<()>>();
    service::<WithCallCredentials<(), ()>>();
    service::<DeadlineBodyService<(), AsGrpcStatus>>();
    service::<CallStats<()>>();
    service::<AttemptStats<()>>();
    service::<GrpcStats>();
    service::<CallSpan<()>>();
    service::<AttemptSpan<()>>();
    service::<GrpcClassifier>();
    service::<GrpcPushback>();
    service::<ServiceConfig>();
    service::<LiveServiceConfig>();
    #[cfg(feature = "tonic")]
    service::<TonicStatus<()>>();
};

/// The assertions are checked at compile time; the calls make them a test.
#[test]
fn services_can_be_shared_and_futures_and_bodies_moved() {
    future::<GrpcOutcomeFuture<Ready<()>, ()>>();
    future::<PreviousAttemptsFuture<Ready<()>>>();
    future::<HoldHeadersFuture<Ready<()>, Body>>();
    future::<MessageLimitFuture<Ready<()>>>();
    future::<WaitForReadyFuture<Inner, Body>>();
    future::<CallCredentialsFuture<Ready<()>, Inner, Body>>();
    future::<HeldBody<Body>>();
    future::<LimitedRequestBody<Body>>();
    future::<LimitedResponseBody<Body>>();
    future::<CallStatsFuture<Ready<()>>>();
    future::<AttemptStatsFuture<Ready<()>>>();
    future::<CallSpanFuture<Ready<()>>>();
    future::<AttemptSpanFuture<Ready<()>>>();
    future::<GrpcOutcomeBody<Body>>();
    future::<CallStatsBody<Body>>();
    future::<AttemptStatsBody<Body>>();
    future::<CallSpanBody<Body>>();
    future::<AttemptSpanBody<Body>>();
    future::<SentBody<Body>>();
    future::<DeadlineBody<Body, AsGrpcStatus>>();
    #[cfg(feature = "tonic")]
    {
        future::<TonicStatusFuture<Ready<()>>>();
        future::<TonicStatusBody<Body>>();
    }
}

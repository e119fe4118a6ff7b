//! What moves between threads and what can be shared, pinned at compile time: a field that changes it breaks users.

use std::future::Ready;

use bytes::Bytes;
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
    AsGrpcStatus, GrpcClassifier, GrpcOutcome, GrpcOutcomeBody, GrpcOutcomeFuture, GrpcPushback,
    GrpcTimeout, PreviousAttempts, PreviousAttemptsFuture,
};
use reattempt_http::body::{DeadlineBody, DeadlineBodyService};

type Body = Full<Bytes>;

const fn service<T: Clone + Send + Sync + Unpin + std::fmt::Debug>() {}
const fn future<T: Send + Sync + Unpin + std::fmt::Debug>() {}

const _: () = {
    service::<GrpcOutcome<()>>();
    service::<GrpcTimeout<()>>();
    service::<PreviousAttempts<()>>();
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
};

/// The assertions are the test; the calls make the file one.
#[test]
fn services_can_be_shared_and_futures_and_bodies_moved() {
    future::<GrpcOutcomeFuture<Ready<()>, ()>>();
    future::<PreviousAttemptsFuture<Ready<()>>>();
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
}

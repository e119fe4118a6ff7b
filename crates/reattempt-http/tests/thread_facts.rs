//! Which types are `Send` and `Sync`, pinned at compile time: a field that changes it breaks users.

use std::future::Ready;

use bytes::Bytes;
use http_body_util::Full;
use reattempt_http::body::{
    DeadlineBody, DeadlineBodyFuture, DeadlineBodyService, DrainBody, DrainBodyFuture,
    DrainBodyService, OutcomeBody, OutcomeBodyFuture, OutcomeBodyService, ReplayBody,
    ReplayBodyService,
};
use reattempt_http::{
    ExposeInfo, ExposeInfoFuture, HttpClassifier, HttpPolicies, HttpPushback, HttpRoute,
    IdempotencyKey, LiveHttpPolicies,
};

type Body = Full<Bytes>;

const fn service<T: Clone + Send + Sync + Unpin + std::fmt::Debug>() {}
const fn future<T: Send + Sync + Unpin + std::fmt::Debug>() {}

const _: () = {
    service::<DeadlineBodyService<()>>();
    service::<OutcomeBodyService<()>>();
    service::<DrainBodyService<()>>();
    service::<ReplayBodyService<()>>();
    service::<IdempotencyKey<()>>();
    service::<ExposeInfo<()>>();
    service::<HttpClassifier>();
    service::<HttpRoute>();
    service::<HttpPolicies>();
    service::<LiveHttpPolicies>();
    service::<HttpPushback>();
};

/// The assertions are compile-time checks; this test instantiates them.
#[test]
fn services_can_be_shared_and_futures_and_bodies_moved() {
    future::<DeadlineBodyFuture<Ready<()>, ()>>();
    future::<OutcomeBodyFuture<Ready<()>>>();
    future::<ExposeInfoFuture<Ready<()>>>();
    future::<DeadlineBody<Body>>();
    future::<OutcomeBody<Body>>();
    future::<DrainBody<Body>>();
    future::<DrainBodyFuture<Ready<()>>>();
    future::<ReplayBody<Body>>();
}

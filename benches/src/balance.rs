//! Backends: in turn, and with health.

use std::future::{Ready, ready};
use std::hint::black_box;
use std::task::{Context, Poll};
use std::time::Instant;

use reattempt::backends::{Backends, RoundRobin};
use reattempt::health::{Attempted, HealthPolicy, Outcome, Pool};
use reattempt::strategy::MaxAttempts;
use reattempt::{
    AttemptReporter, Call, CallContext, Classify, HasCallContext, RetryLayer, Verdict,
};
use tower::{BoxError, Service, ServiceBuilder};

use crate::cases::{AnyAnswer, Case, future_of};
use crate::{Bare, drive};

const NAMES: [&str; 3] = ["one", "two", "three"];

fn in_turn() -> RoundRobin<Bare> {
    RoundRobin::new(NAMES.map(|name| (name, Bare))).expect("three backends")
}

fn healthy() -> Backends<Bare, AnyAnswer> {
    let backends = NAMES.map(|name| (name, Bare));
    Backends::new(backends, HealthPolicy::standard(), AnyAnswer)
}

/// Its response is committed, and followed to its end.
#[derive(Clone, Copy, Debug)]
struct Stream;

impl Service<Call<u64>> for Stream {
    type Response = AttemptReporter;
    type Error = BoxError;
    type Future = Ready<Result<AttemptReporter, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call<u64>) -> Self::Future {
        let context = call.context();
        let reporter = context.map(CallContext::reporter).unwrap_or_default();
        ready(Ok(black_box(reporter.follow())))
    }
}

#[derive(Clone, Copy, Debug)]
struct Begins;

impl Classify<AttemptReporter, BoxError> for Begins {
    fn classify(&self, _: Result<&AttemptReporter, &BoxError>, _: &CallContext) -> Verdict {
        Verdict::Committed
    }
}

/// Calls whose responses begin and then end well.
fn streams() -> impl Service<Call<u64>, Response = u64, Error = BoxError> {
    let backends = NAMES.map(|name| (name, Stream));
    ServiceBuilder::new()
        .map_response(|reporter: AttemptReporter| {
            reporter.finish(&Verdict::Success);
            0
        })
        .layer(RetryLayer::new(Begins, MaxAttempts::standard()))
        .service(Backends::new(backends, HealthPolicy::standard(), Begins))
}

fn pool() -> (Pool, Instant) {
    let now = tokio::time::Instant::now().into_std();
    (Pool::new(HealthPolicy::standard(), NAMES.len(), now), now)
}

/// What each choice begins with, beside the reading of the clock: an instant as nanoseconds.
fn instants(calls: u64) -> u64 {
    let now = tokio::time::Instant::now().into_std();
    let nanos = |_| {
        let passed = black_box(now).saturating_duration_since(black_box(now));
        u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX)
    };
    black_box((0..calls).map(nanos).sum())
}

/// Choices of a backend, without their ends.
fn picks(calls: u64) -> u64 {
    let (pool, now) = pool();
    let pick = |_| {
        let sent = black_box(&pool).send(black_box(now), Attempted::default());
        sent.map_or(0, |sent| sent.at() as u64)
    };
    black_box((0..calls).map(pick).sum())
}

/// Choices, and what an answer teaches.
fn picks_and_ends(calls: u64) -> u64 {
    let (pool, now) = pool();
    for _ in 0..calls {
        if let Some(sent) = black_box(&pool).send(black_box(now), Attempted::default()) {
            black_box(&pool).ended(sent, black_box(now), Outcome::Success, None);
        }
    }
    calls
}

/// Every case, the machine's own first.
#[must_use]
pub fn all() -> Vec<Case> {
    vec![
        Case {
            name: "instant",
            run: instants,
            future: 0,
        },
        Case {
            name: "pick",
            run: picks,
            future: 0,
        },
        Case {
            name: "pick+end",
            run: picks_and_ends,
            future: 0,
        },
        Case {
            name: "round-robin",
            run: |calls| drive(&mut in_turn(), calls, Call::new),
            future: future_of(in_turn, Call::new),
        },
        Case {
            name: "backends",
            run: |calls| drive(&mut healthy(), calls, Call::new),
            future: future_of(healthy, Call::new),
        },
        Case {
            name: "backends-streams",
            run: |calls| drive(&mut streams(), calls, Call::new),
            future: future_of(streams, Call::new),
        },
    ]
}

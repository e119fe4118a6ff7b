//! Backends: in turn, and with health.

use std::hint::black_box;
use std::time::Instant;

use reattempt::Call;
use reattempt::backends::{Backends, Balanced};
use reattempt::health::{Attempted, HealthPolicy, Outcome, Pool};

use crate::cases::{AnyAnswer, Case, future_of};
use crate::{Bare, drive};

const NAMES: [&str; 3] = ["one", "two", "three"];

fn in_turn() -> Backends<Bare> {
    Backends::new(NAMES.map(|name| (name, Bare))).expect("three backends")
}

fn balanced() -> Balanced<Bare, AnyAnswer> {
    let backends = NAMES.map(|name| (name, Bare));
    Balanced::new(backends, HealthPolicy::standard(), AnyAnswer)
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
            name: "backends",
            run: |calls| drive(&mut in_turn(), calls, Call::new),
            future: future_of(in_turn, Call::new),
        },
        Case {
            name: "balanced",
            run: |calls| drive(&mut balanced(), calls, Call::new),
            future: future_of(balanced, Call::new),
        },
    ]
}

//! The simulation of "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015): clients that
//! contend for one row with optimistic concurrency control, on the crate's own machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use reattempt::backoff::{Backoff, Jitter, Randomness};
use reattempt::driver::RetryDriver;
use reattempt::machine::{Action, Facts, FailedAttempt};
use reattempt::strategy::BestEffort;
use reattempt::{AttemptKind, Decision, Failure, RetryStrategy, RetryView, Stage, Verdict, reason};

const BASE: Duration = Duration::from_millis(5);
const CAP: Duration = Duration::from_millis(2000);

/// The article's "equal" jitter, which the crate does not have: half of the delay, and up to the
/// other half more.
#[derive(Debug)]
struct Equal(Randomness);

impl RetryStrategy for Equal {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        let half = Backoff::exponential(BASE, CAP).plain(view.retries) / 2;
        Decision::After(half + half.mul_f64(self.0.roll()))
    }
}

struct Client {
    driver: RetryDriver,
    attempts: u32,
    /// The version of the row that it has read.
    read: Option<u64>,
}

/// The number of writes, and when the last client was done, in milliseconds.
fn contend(clients: usize, strategy: &dyn RetryStrategy, seed: u64) -> (u32, f64) {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let mut uniform = || (generator.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    // The article's network: normal, 10 ms and a standard deviation of 2.
    let mut network = || {
        let sum: f64 = (0..12).map(|_| uniform()).sum();
        ((10.0 + 2.0 * (sum - 6.0)).max(0.0) * 1e6) as u64
    };
    #[allow(clippy::disallowed_methods, reason = "a base for arithmetic")]
    let start = Instant::now();
    let mut all: Vec<Client> = (0..clients)
        .map(|_| Client {
            driver: RetryDriver::default(),
            attempts: 0,
            read: None,
        })
        .collect();
    let mut events: BinaryHeap<_> = (0..clients).map(|c| Reverse((network(), c))).collect();
    let (mut version, mut writes, mut last) = (0, 0, 0);
    // Each event is a request that arrives at the database.
    while let Some(Reverse((now, client))) = events.pop() {
        let one = &mut all[client];
        let Some(read) = one.read.take() else {
            one.read = Some(version);
            events.push(Reverse((now + network() + network(), client)));
            continue;
        };
        writes += 1;
        if read == version {
            version += 1;
            last = now;
            continue;
        }
        one.attempts += 1;
        let back = now + network();
        let at = start + Duration::from_nanos(back);
        let facts = Facts::new(at, one.attempts, AttemptKind::Retry);
        let verdict = Verdict::Retry(Failure::new(reason::UNKNOWN, Stage::Response));
        let mut failed = FailedAttempt::new(&facts, &verdict).expect("it is a failure");
        let Action::Wait(wait) = one.driver.failed(&mut failed, strategy, None, &()) else {
            panic!("there is neither a maximum nor a deadline")
        };
        let delay = wait.until.map_or(0, |until| (until - at).as_nanos() as u64);
        events.push(Reverse((back + delay + network(), client)));
    }
    (writes, last as f64 / 1e6)
}

fn drawn(seed: u64) -> Randomness {
    let generator = Arc::new(Mutex::new(ChaCha8Rng::seed_from_u64(seed)));
    Randomness::drawn(move || {
        (generator.lock().unwrap().next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    })
}

/// Means over some runs.
fn mean(strategy: &dyn RetryStrategy) -> (f64, f64) {
    const RUNS: u64 = 20;
    let all = (0..RUNS).map(|seed| contend(100, strategy, seed));
    let (writes, time) = all.fold((0.0, 0.0), |(writes, time), (w, t)| {
        (writes + f64::from(w), time + t)
    });
    (writes / RUNS as f64, time / RUNS as f64)
}

#[test]
fn jitter_cuts_the_work_of_a_hundred_clients_by_more_than_half() {
    let backoff = |jitter| {
        let backoff = Backoff::exponential(BASE, CAP)
            .jitter(jitter)
            .randomness(drawn(9));
        BestEffort::with_backoff(backoff)
    };
    let none = mean(&backoff(Jitter::None));
    let full = mean(&backoff(Jitter::Full));
    let decorrelated = mean(&backoff(Jitter::Decorrelated));
    let equal = mean(&Equal(drawn(9)));
    let seen =
        format!("none {none:?}, full {full:?}, equal {equal:?}, decorrelated {decorrelated:?}");
    assert!(full.0 * 2.0 < none.0, "less than half of the calls: {seen}");
    assert!(
        decorrelated.0 * 1.5 < none.0 && equal.0 * 2.0 < none.0,
        "{seen}"
    );
    assert!(
        full.1 < none.1 && full.1 < equal.1,
        "full jitter is done before equal: {seen}"
    );
    assert!(full.0 < equal.0 * 1.1, "and does no more work: {seen}");
}

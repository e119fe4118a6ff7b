//! 100 000 gRPC calls, retried and hedged, under random faults and cancellations: nothing leaks, no
//! rule of A6 is violated, and the token count matches a model to the thousandth at every step.
//!
//! The documented stack runs on an in-memory transport and paused time. Two sides are compared. One
//! is the stack with its own `TokenBucket`, behind a throttle that logs its calls. The other is the
//! model (`ledger.rs`), which knows A6 and what the transport did and when; from the stack it
//! learns only that an attempt was sent, and when the throttle was asked.

mod answer;
mod call;
mod caller;
mod fate;
mod ledger;
mod stack;
mod tally;
mod transport;
mod upload;
mod wire;
mod witness;
mod words;
mod world;

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reattempt::{RetryThrottle, Routes};
use reattempt_http::body::BufferBudget;
use tokio::task::JoinSet;

use caller::Caller;
use ledger::Ledger;
use reattempt_tests::alive::count;
use stack::{MAX_TOKENS, MILLI_RATIO, config};
use tally::Tally;
use world::World;

/// The buffer limit of one call's request; many requests exceed it.
const BYTES_PER_CALL: usize = 64;

/// The number of callers; each makes one call at a time.
const CALLERS: u32 = 500;

/// Runs this many calls and checks for leaks.
async fn soak(calls: u32, seed: u64) -> Tally {
    let world = World::new(Ledger::new(MAX_TOKENS, MILLI_RATIO));
    let budget = BufferBudget::default();
    let config = config(seed);
    let bucket = Arc::clone(config.throttle().expect("a throttle"));
    let config = Routes::new(config);
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        let mut rng = SmallRng::seed_from_u64(seed ^ u64::from(number) << 32);
        let caller = Caller::new(&world, &budget, &config);
        callers.spawn(async move {
            tokio::time::sleep(Duration::from_millis(rng.random_range(0..500))).await;
            for call in 0..calls / CALLERS {
                caller.call(call * CALLERS + number, &mut rng).await;
            }
        });
    }
    while let Some(ended) = callers.join_next().await {
        if let Err(error) = ended {
            std::panic::resume_unwind(error.into_panic());
        }
    }
    assert_eq!(budget.used(), 0, "buffered bytes");
    assert_eq!(count(&world.alive.attempts), 0, "attempts");
    assert_eq!(count(&world.alive.answers), 0, "answers");
    assert_eq!(count(&world.alive.uploads), 0, "requests");
    assert_eq!(count(&world.alive.contexts), 0, "contexts");
    let blocks = world.backends.lock().expect("whole");
    assert!(
        blocks.iter().all(|name| name.strong_count() == 0),
        "blocks of calls that left a log"
    );
    assert_eq!(
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks(),
        0
    );
    let ledger = world.ledger();
    ledger.assert_all_reported();
    assert_eq!(bucket.milli_tokens(), Some(ledger.fill));
    ledger.tally
}

/// A number from the environment, for longer or different runs.
fn number<N: std::str::FromStr<Err: std::fmt::Debug>>(name: &str, otherwise: N) -> N {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Runs half of the calls, from this seed.
async fn soak_half(seed: u64) {
    let calls = number("REATTEMPT_SOAK_CALLS", 100_000_u32) / 2;
    let seed = number("REATTEMPT_SOAK_SEED", 0) ^ seed;
    let tally = soak(calls, seed).await;
    println!("{tally:#?}");
    tally.assert_everything_happened();
}

/// R10 R11 R13 R14 R15 R20 to R24, R26, R30 to R36, R40 to R48, R51 to R53, R60 to R63, R70, R80.
#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_calls_leak_nothing_and_match_the_model() {
    soak_half(6).await;
}

/// The other half, on a second thread.
#[tokio::test(start_paused = true)]
async fn a_second_half_of_the_calls_matches_the_model() {
    soak_half(0xA6).await;
}

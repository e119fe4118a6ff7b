//! A random adversary: seeded scenarios drive the real layers on paused time, and simple counts on
//! the side of the server, the caller and the observer define what must hold.
//!
//! The short form is part of the ordinary test run. The long form runs any number of scenarios:
//!
//! ```text
//! REATTEMPT_ADVERSARY_SCENARIOS=100000 \
//!     cargo test -p reattempt-tests --test adversary -- --nocapture
//! ```
//!
//! It starts with the seed `REATTEMPT_ADVERSARY_SEED` (0). A scenario that fails prints itself, the
//! violated properties, and the command that runs it alone.
//!
//! A scenario ([`scenario`]) is a stack of layers in some order, tables of policies that are
//! swapped during calls, and a few calls with the results of their attempts. The server, the caller
//! and the user code inside the layers (observer, classifier, strategies, throttles) write one log.
//! The judges ([`judge`]) use only the scenario and the log, not the decisions of the layers.

mod caller;
mod carrier;
mod dice;
mod facts;
mod fate;
mod judge;
mod log;
mod observer;
mod policies;
mod print;
mod reply;
mod run;
mod scenario;
mod server;
mod stack;
mod strategy;
mod tally;
mod throttle;
mod world;

use tally::Tally;

/// The number of scenarios in the short form.
const QUICK: u64 = 3000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

/// R10 R13 R14 R15 R20 to R26, R31, R33, R35, R36, R40 to R48, R60 to R63
#[test]
fn random_scenarios_stay_within_every_bound() {
    let scenarios = number("REATTEMPT_ADVERSARY_SCENARIOS");
    let first = number("REATTEMPT_ADVERSARY_SEED").unwrap_or(0);
    let mut tally = Tally::default();
    for seed in first..first + scenarios.unwrap_or(QUICK) {
        run::scenario(seed, &mut tally);
    }
    println!("{tally:#?}");
    if scenarios.is_none() {
        tally.assert_everything_happened();
    }
}

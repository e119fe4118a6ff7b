//! One script, run twice: by the tower futures on paused time, and by a small simulator over the
//! same machines with a virtual clock. Times, kinds, records, throttle and outcome must be
//! identical.

mod future;
mod hedge;
mod retry;
mod script;
mod simulation;

use reattempt::test_util::Told;
use reattempt::{AttemptKind, RetryInfo};

use script::{Mode, Script};

/// Everything visible from outside a call. Times are in milliseconds since its start.
#[derive(Debug, PartialEq)]
pub(crate) struct Trace {
    pub(crate) sent: Vec<(u64, AttemptKind)>,
    pub(crate) told: Told,
    pub(crate) over: u64,
    /// Set for a call that reached its deadline.
    pub(crate) ambiguous: Option<bool>,
    pub(crate) info: RetryInfo,
    pub(crate) milli_tokens: Option<u64>,
}

/// Runs this many scripts both ways, and counts them by outcome.
async fn compare(scripts: impl Iterator<Item = Script>) -> [u32; 5] {
    let mut ends = [0; 5];
    for script in scripts {
        let base = tokio::time::Instant::now().into_std();
        let simulated = match &script.mode {
            Mode::Retry(_) => retry::simulate(&script, base),
            Mode::Hedge { .. } => hedge::simulate(&script, base),
        };
        // The few that need more attempts than were scripted are skipped.
        let Some(simulated) = simulated else {
            ends[4] += 1;
            continue;
        };
        let real = future::drive(&script).await;
        assert_eq!(
            real, simulated,
            "left: the future, right: the simulator, of\n{script:#?}"
        );
        ends[match real.told {
            Told::Answer(_) => 0,
            Told::Error(_) => 1,
            Told::Broken => 2,
            Told::Elapsed => 3,
        }] += 1;
    }
    ends
}

/// Checks that every outcome occurs, and that hardly any script is skipped.
fn assert_covered([answers, errors, broken, elapsed, left_out]: [u32; 5], may_break: bool) {
    assert!(answers > 200 && errors > 200 && elapsed > 200);
    assert_eq!(broken > 0, may_break);
    assert!(left_out < 20);
}

const SCRIPTS: u64 = 5000;

#[tokio::test(start_paused = true)]
async fn the_retry_future_does_what_its_machine_says() {
    let ends = compare((0..SCRIPTS).map(Script::retry)).await;
    assert_covered(ends, true);
}

#[tokio::test(start_paused = true)]
async fn the_hedge_future_does_what_its_machine_says() {
    let ends = compare((0..SCRIPTS).map(Script::hedge)).await;
    // A hedge whose service fails never replaces a failure of the server.
    assert_covered(ends, false);
}

//! One script, run twice: by the tower futures on paused time, and by a small simulator over the
//! same machines with a virtual clock. Times, kinds, records, throttle and outcome must be
//! identical.

mod future;
mod hedge;
mod retry;
mod script;
mod simulation;

use reattempt::test_util::CallResult;
use std::time::Instant;

use reattempt::{AttemptKind, AttemptRecord, RetryInfo, StopReason};

use script::{Mode, Script};

/// Everything visible from outside a call. Times are in milliseconds since its start.
#[derive(Debug, PartialEq)]
pub(crate) struct Trace {
    pub(crate) sent: Vec<(u64, AttemptKind)>,
    pub(crate) call_result: CallResult,
    pub(crate) over: u64,
    /// Set for a call that reached its deadline.
    pub(crate) ambiguous: Option<bool>,
    pub(crate) log: Log,
    pub(crate) milli_tokens: Option<u64>,
}

/// What the call recorded.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Log {
    pub(crate) attempts: u32,
    pub(crate) records: Vec<AttemptRecord>,
    /// Why hedges were refused.
    pub(crate) refused: Vec<StopReason>,
    pub(crate) stopped: Option<StopReason>,
}

impl Log {
    fn of(info: &RetryInfo) -> Self {
        let refusals = info.refusals();
        let times = |by| std::iter::repeat_n(by, info.refused(by) as usize);
        Self {
            attempts: info.attempts(),
            records: info.records().cloned().collect(),
            refused: refusals.flat_map(times).collect(),
            stopped: info.stopped(),
        }
    }

    /// The log as a call keeps it: its newest records, and refusals by reason.
    fn kept(mut self) -> Self {
        let most = reattempt::MOST_RECORDS;
        self.records
            .drain(..self.records.len().saturating_sub(most));
        let mut reasons: Vec<StopReason> = Vec::new();
        for by in &self.refused {
            if !reasons.contains(by) {
                reasons.push(*by);
            }
        }
        self.refused
            .sort_by_key(|by| reasons.iter().position(|reason| reason == by));
        self
    }

    fn newest(&mut self, attempt: u32) -> Option<&mut AttemptRecord> {
        let mut records = self.records.iter_mut().rev();
        records.find(|record| record.number == attempt)
    }

    /// The failure of this attempt ends the call after all.
    pub(crate) fn amend(&mut self, attempt: u32, stopped: StopReason) {
        if let Some(record) = self.newest(attempt) {
            record.stopped = Some(stopped);
        }
        self.stopped = Some(stopped);
    }

    pub(crate) fn without_delay(&mut self, attempt: u32) {
        if let Some(record) = self.newest(attempt) {
            record.delay = None;
        }
    }

    /// The delay after this attempt ended now.
    pub(crate) fn waited(&mut self, attempt: u32, now: Instant) {
        if let Some(record) = self.newest(attempt) {
            if let (Some(_), Some(ended)) = (record.delay, record.ended) {
                record.delay = Some(now.saturating_duration_since(ended));
            }
        }
    }
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
        let simulated = Trace {
            log: simulated.log.kept(),
            ..simulated
        };
        let real = future::drive(&script).await;
        assert_eq!(
            real, simulated,
            "left: the future, right: the simulator, of\n{script:#?}"
        );
        ends[match real.call_result {
            CallResult::Answer(_) => 0,
            CallResult::Error(_) => 1,
            CallResult::Broken => 2,
            CallResult::Elapsed => 3,
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

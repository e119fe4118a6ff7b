//! The common part of both simulators: a virtual clock and a log, and no state of a call.

use std::sync::Arc;
use std::time::Instant;

use reattempt::machine::{Facts, FailedAttempt};
use reattempt::test_util::{CallResult, ms};
use reattempt::throttle::Settled;
use reattempt::{
    AttemptKind, AttemptOutcome, AttemptRecord, CallDeadline, Failure, RetryThrottle, Stage,
    StopReason, TokenBucket,
};

use crate::script::{Attempt, Script};
use crate::{Log, Trace};

pub(crate) struct Simulation<'a> {
    pub(crate) script: &'a Script,
    /// Milliseconds since the call began.
    pub(crate) now: u64,
    pub(crate) log: Log,
    base: Instant,
    throttle: Option<Arc<TokenBucket>>,
    sent: Vec<(u64, AttemptKind)>,
    readied: usize,
}

/// An attempt in flight.
#[derive(Clone, Copy)]
pub(crate) struct Flight<'a> {
    pub(crate) number: u32,
    pub(crate) kind: AttemptKind,
    pub(crate) step: &'a Attempt,
    pub(crate) ends: u64,
}

impl Flight<'_> {
    /// What the caller would get.
    pub(crate) const fn call_result(&self) -> CallResult {
        if self.step.as_answer {
            CallResult::Answer(self.number)
        } else {
            CallResult::Error(self.number)
        }
    }

    /// It may have left the client.
    pub(crate) fn may_have_left(&self) -> bool {
        self.step.stage != Some(Stage::Dispatch)
    }
}

impl<'a> Simulation<'a> {
    pub(crate) fn new(script: &'a Script, base: Instant) -> Self {
        Self {
            script,
            now: 0,
            log: Log::default(),
            base,
            throttle: script.throttle(),
            sent: Vec::new(),
            readied: 0,
        }
    }

    pub(crate) fn instant(&self) -> Instant {
        self.base + ms(self.now)
    }

    /// The millisecond at which a timer for this instant fires.
    pub(crate) fn fires(&self, at: Instant) -> u64 {
        let nanos = at.saturating_duration_since(self.base).as_nanos();
        u64::try_from(nanos.div_ceil(1_000_000)).expect("no such delay here")
    }

    pub(crate) fn deadline(&self) -> Option<CallDeadline> {
        let (after, enforced) = self.script.limit?;
        let at = self.base + ms(after);
        Some(CallDeadline { at, enforced })
    }

    /// When a layer ends the call.
    pub(crate) fn ends_by(&self) -> Option<u64> {
        self.script
            .limit
            .filter(|(_, enforced)| *enforced)
            .map(|(at, _)| at)
    }

    /// True if the deadline ends the call before this time.
    pub(crate) fn too_late(&self, at: u64) -> bool {
        self.ends_by().is_some_and(|deadline| at > deadline)
    }

    /// Sends an attempt, or `None` at the end of the script.
    pub(crate) fn send(&mut self, number: u32, kind: AttemptKind) -> Option<Flight<'a>> {
        let step = self.script.steps.get(number as usize - 1)?;
        self.sent.push((self.now, kind));
        self.log.attempts = number;
        Some(Flight {
            number,
            kind,
            step,
            ends: self.now + step.after,
        })
    }

    /// What is known of an attempt that ends now.
    pub(crate) fn facts(&self, flight: &Flight<'_>) -> Facts {
        let step = flight.step;
        let mut facts = Facts::new(self.instant(), flight.number, flight.kind);
        facts.report.pushback = step.pushback;
        facts.report.forbidden = step.forbids;
        facts.report.stage = step.stage;
        facts.report.config_coming = step.waiter.is_some();
        facts.cut_off = step.cut_off && !step.as_answer;
        facts.transparent = self.script.transparent;
        facts.idempotent = self.script.idempotent;
        facts.deadline = self.deadline();
        facts
    }

    pub(crate) fn allows(&self, failure: Option<&Failure>) -> bool {
        let mut throttle = self.throttle.iter();
        throttle.all(|throttle| throttle.allows(failure) && throttle.spend(failure))
    }

    /// Counts a failure. Returns the throttle's fill.
    pub(crate) fn count(&self, failed: &FailedAttempt) -> Option<u64> {
        let throttle = self
            .throttle
            .as_ref()
            .filter(|_| failed.is_for_throttle())?;
        if failed.counts() {
            throttle.settled(Settled::Failure(failed.failure()));
        }
        throttle.milli_tokens()
    }

    pub(crate) fn record(&mut self, mut record: AttemptRecord, milli_tokens: Option<u64>) {
        record.milli_tokens = milli_tokens;
        self.log.records.push(record);
    }

    pub(crate) fn cancelled(&mut self, flight: &Flight<'_>, stopped: Option<StopReason>) {
        let outcome = AttemptOutcome::Cancelled;
        let mut record = AttemptRecord::new(flight.number, flight.kind, outcome);
        record.cut_off_in = flight.step.stage;
        record.stopped = stopped;
        self.log.records.push(record);
    }

    /// The attempt ended the call well. Only one of several leaves a record.
    pub(crate) fn succeeded(&mut self, flight: &Flight<'_>, committed: bool) {
        let (outcome, stopped) = if committed {
            (AttemptOutcome::Committed, StopReason::Committed)
        } else {
            (AttemptOutcome::Success, StopReason::Success)
        };
        if let (Some(throttle), false) = (&self.throttle, committed) {
            throttle.settled(Settled::Success);
        }
        if self.log.attempts > 1 {
            let mut record = AttemptRecord::new(flight.number, flight.kind, outcome);
            record.stopped = Some(stopped);
            self.log.records.push(record);
        }
        self.log.stopped = Some(stopped);
    }

    /// The next readiness: when it comes, and whether it is an error.
    pub(crate) fn readiness(&mut self) -> Option<(u64, bool)> {
        let (after, breaks) = *self.script.readiness.get(self.readied)?;
        self.readied += 1;
        Some((self.now + after, breaks))
    }

    pub(crate) fn ends_with(self, call_result: CallResult) -> Option<Trace> {
        Some(Trace {
            sent: self.sent,
            call_result,
            over: self.now,
            ambiguous: None,
            log: self.log,
            milli_tokens: self.throttle.and_then(|throttle| throttle.milli_tokens()),
        })
    }

    /// The deadline ends the call, while an attempt may have left the client or not.
    pub(crate) fn elapsed(mut self, may_have_left: bool) -> Option<Trace> {
        self.now = self
            .ends_by()
            .expect("only an enforced deadline ends calls");
        self.log.stopped = Some(StopReason::Deadline);
        let ambiguous = !self.script.idempotent && may_have_left;
        let mut trace = self.ends_with(CallResult::Elapsed)?;
        trace.ambiguous = Some(ambiguous);
        Some(trace)
    }
}

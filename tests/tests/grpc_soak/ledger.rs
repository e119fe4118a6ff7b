//! The model: A6 in its simplest form, driven only by the transport.
//!
//! It knows the script, the clock and the order in which attempts were sent and answered. It never
//! reads the stack's decisions: from A6 alone it derives the effect of each response on the token
//! count and what may be sent when, and compares the stack with that at every step.

use std::collections::VecDeque;

use reattempt::AttemptKind;
use tokio::time::Instant;

use super::CALLERS;
use super::call::{Call, Follows, Step};
use super::fate::Word;
use super::tally::Tally;
use super::words::{Got, Method, Recovery, Report, Unseen};

const MILLI: u64 = 1000;

/// The token count in thousandths, and the state of every call.
#[derive(Debug)]
pub(crate) struct Ledger {
    max: u64,
    ratio: u64,
    pub(crate) fill: u64,
    /// The next reports that the throttle must receive.
    expected: VecDeque<Report>,
    /// One slot per caller; a caller makes one call at a time.
    calls: Vec<Option<Call>>,
    /// The call that is being polled.
    pub(crate) polled: Option<u32>,
    pub(crate) tally: Tally,
}

fn on(calls: &mut [Option<Call>], id: u32) -> &mut Call {
    calls[(id % CALLERS) as usize]
        .as_mut()
        .filter(|call| call.id == id)
        .expect("the call is in progress")
}

impl Ledger {
    pub(crate) fn new(max_tokens: u64, milli_ratio: u64) -> Self {
        Self {
            max: max_tokens * MILLI,
            ratio: milli_ratio,
            fill: max_tokens * MILLI,
            expected: VecDeque::new(),
            calls: std::iter::repeat_with(|| None)
                .take(CALLERS as usize)
                .collect(),
            polled: None,
            tally: Tally::default(),
        }
    }

    pub(crate) fn call(&mut self, id: u32) -> &mut Call {
        on(&mut self.calls, id)
    }

    /// A call begins. `fits` is false for a body that is known to be too long.
    pub(crate) fn begins(
        &mut self,
        id: u32,
        method: &'static Method,
        limit: Option<Instant>,
        fits: bool,
    ) {
        self.tally.calls += 1;
        self.tally.overflows += u64::from(!fits);
        let call = Call::new(id, method, limit, fits);
        let before = self.calls[(id % CALLERS) as usize].replace(call);
        assert!(before.is_none());
    }

    /// An attempt has read this many bytes of the request.
    pub(crate) fn read(&mut self, id: u32, bytes: usize, limit: usize) {
        if let Some(cut_off) = self.call(id).outgrows(bytes, limit) {
            self.tally.overflows += 1;
            self.tally.cut_off += u64::from(cut_off);
        }
    }

    /// R20: strictly more than half.
    fn above_half(&self) -> bool {
        self.fill * 2 > self.max
    }

    /// An attempt is no longer in flight; ignored if its call is over.
    pub(crate) fn leaves(&mut self, id: u32) {
        let call = self.calls[(id % CALLERS) as usize].as_mut();
        if let Some(call) = call.filter(|call| call.id == id) {
            call.leaves();
        }
    }

    /// The throttle is asked.
    pub(crate) fn permits(&mut self, now: Instant) -> bool {
        let permits = self.above_half();
        let id = self.polled.expect("a call asks");
        let call = on(&mut self.calls, id);
        call.asks(permits, now);
        if let (Recovery::Hedge { .. }, false) = (call.method.recovery, permits) {
            self.tally.hedges_held_back += 1;
        }
        permits
    }

    /// The throttle receives the result of an attempt, which must be the next one that A6 counts.
    pub(crate) fn reported(&mut self, report: Report) {
        let id = self.polled.expect("a call is polled");
        let expected = self.expected.pop_front();
        let call = self.call(id);
        call.happens(Step::Report(report));
        assert_eq!(expected, Some(report), "{call:#?}");
    }

    /// Checks that the throttle received everything that A6 counts.
    pub(crate) fn assert_all_reported(&self) {
        assert!(self.expected.is_empty(), "not counted: {:?}", self.expected);
    }

    /// R21: between 0 and the maximum.
    fn counts(&mut self, report: Report) {
        self.expected.push_back(report);
        match report {
            Report::Success => {
                self.tally.successes += 1;
                self.fill = (self.fill + self.ratio).min(self.max);
                self.tally.at_most += u64::from(self.fill == self.max);
            }
            Report::Failure => {
                self.tally.failures += 1;
                self.fill = self.fill.saturating_sub(MILLI);
                self.tally.at_zero += u64::from(self.fill == 0);
            }
        }
    }

    /// An attempt is sent. Returns its number.
    pub(crate) fn sends(
        &mut self,
        id: u32,
        kind: AttemptKind,
        previous: Option<u32>,
        now: Instant,
    ) -> u32 {
        self.assert_all_reported();
        assert_eq!(self.polled, Some(id));
        let call = on(&mut self.calls, id);
        call.sends(kind, previous, now);
        self.tally.attempts += 1;
        match kind {
            AttemptKind::Initial => {}
            AttemptKind::Retry => self.tally.retries += 1,
            AttemptKind::Hedge => self.tally.hedges += 1,
            AttemptKind::Transparent => self.tally.transparent += 1,
            other => panic!("{other:?}"),
        }
        call.sent()
    }

    /// An attempt is answered.
    pub(crate) fn answered(&mut self, id: u32, attempt: u32, got: Got, now: Instant) {
        self.assert_all_reported();
        assert_eq!(self.polled, Some(id));
        let call = on(&mut self.calls, id);
        call.answers(attempt, got);
        match got {
            Got::Ok => {
                call.decide();
                self.counts(Report::Success);
            }
            Got::Headers => call.decide(),
            Got::RequestFailed => {
                call.decide();
                self.tally.request_failures += 1;
            }
            Got::Failed { code, word, unseen } => {
                self.failed(id, attempt, (code, word, unseen), now);
            }
            Got::Abandoned => {}
        }
    }

    fn failed(
        &mut self,
        id: u32,
        attempt: u32,
        (code, word, unseen): (i32, Option<Word>, Unseen),
        now: Instant,
    ) {
        let call = on(&mut self.calls, id);
        // R24 R63: not counted.
        if call.retries_transparently(attempt, unseen, now) {
            return;
        }
        let retryable = call.method.codes.contains(&code);
        let stops = word == Some(Word::Stop);
        // R22: one of the policy's codes, or a "do not retry" with any code.
        if retryable || stops {
            self.counts(Report::Failure);
        }
        let permits = self.above_half();
        let call = on(&mut self.calls, id);
        self.tally.stops += u64::from(stops);
        if !retryable {
            // R10 R34 R42
            call.decide();
            return;
        }
        self.tally.pushbacks += u64::from(matches!(word, Some(Word::After(_))));
        // R20 R26: asked right after its own failure was counted.
        let follows = call.retries(word, permits, now);
        self.tally.retries_held_back += u64::from(follows == Follows::HeldBack);
    }

    /// The stream of a committed response ended with this code (R23).
    pub(crate) fn stream_ends(&mut self, id: u32, code: i32) {
        self.assert_all_reported();
        let call = on(&mut self.calls, id);
        call.ended = Some(code);
        if code == 0 {
            self.counts(Report::Success);
        } else if call.method.codes.contains(&code) {
            self.counts(Report::Failure);
        }
    }

    /// The caller got DEADLINE_EXCEEDED from the call's own deadline (R14).
    pub(crate) fn times_out(&mut self, id: u32, now: Instant) {
        self.tally.calls_timed_out += 1;
        assert_eq!(self.call(id).limit, Some(now), "not at its instant");
    }

    /// The caller got a head or an error from this attempt.
    pub(crate) fn returns(&mut self, id: u32, attempt: u32) {
        self.call(id).returns(attempt);
    }

    /// The call is over for its caller too.
    pub(crate) fn ends(&mut self, id: u32) -> Call {
        self.assert_all_reported();
        self.calls[(id % CALLERS) as usize]
            .take_if(|call| call.id == id)
            .expect("the call is in progress")
    }
}

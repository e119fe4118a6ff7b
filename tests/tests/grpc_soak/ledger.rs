//! The model: A6 in its plainest form, fed by what the transport did and nothing else.
//!
//! It knows the script, the clock and the order in which attempts were sent and answered. It never asks the stack what it
//! decided: from A6 alone it works out what each answer has to do to the token count and what may be sent when, and compares
//! the stack with that at every step.

use std::collections::VecDeque;
use std::time::Duration;

use reattempt::AttemptKind;
use tokio::time::Instant;

use super::CALLERS;
use super::fate::Word;

/// Whether a failure may be mended without counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unseen {
    No,
    /// It reached the server, but not its application.
    Once,
    /// It never left the client.
    NeverSent,
}

/// What an attempt came to, in A6's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// A Trailers-Only OK.
    Ok,
    /// Response-Headers.
    Headers,
    Failed {
        code: i32,
        word: Option<Word>,
        unseen: Unseen,
    },
    /// The request's own body failed: no server is to blame, and no attempt can do better.
    RequestFailed,
    /// Another hedge goes on alone (A6, Memory Management): this one was cancelled by us.
    Abandoned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Success,
    Failure,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Recovery {
    None,
    Retry {
        most: u32,
        first_ms: u64,
        longest_ms: u64,
    },
    Hedge {
        most: u32,
        delay_ms: u64,
    },
}

/// What the service config says of a method.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) path: &'static str,
    pub(crate) recovery: Recovery,
    pub(crate) codes: &'static [i32],
    pub(crate) timeout_ms: Option<u64>,
}

/// When the next retry is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// It was never sent, or never seen.
    Mend,
    At(Instant),
    Between(Instant, Instant),
}

/// Why no attempt may follow, ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// It worked, committed or failed for good: this answer is the caller's.
    Decided,
    /// Those that are out go on.
    Frozen,
}

/// One thing that happened, for whoever has to find out why the model and the stack differ.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "read by people only")]
enum Step {
    Sent(AttemptKind),
    Answered(u32, Got),
    Asked(bool),
    Told(Told),
    Outgrown,
}

/// One call, as A6 sees it.
#[derive(Debug)]
pub(crate) struct Call {
    id: u32,
    pub(crate) method: &'static Method,
    pub(crate) limit: Option<Instant>,
    /// A copy of the request is kept.
    fits: bool,
    most_read: usize,
    sent: u32,
    /// Sent, without transparent ones.
    counted: u32,
    in_flight: u32,
    mends_owed: u32,
    refused_before: bool,
    never_sent: u32,
    over: Option<Over>,
    /// The attempt whose answer came last, our own cancellations left out.
    last: Option<u32>,
    /// Retrying: what follows.
    due: Option<Due>,
    since_pushback: u32,
    /// Hedging: when the next hedge is planned, and how many were.
    planned: Option<Instant>,
    planned_so_far: u32,
    /// Those that go out together with one that did, because there is no delay.
    at_once: u32,
    granted: u32,
    /// The status at the end of the stream, or its break.
    pub(crate) ended: Option<i32>,
    story: Vec<(Instant, Step)>,
}

/// How often each thing happened, so that nobody believes a soak that soaked nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) calls: u64,
    pub(crate) attempts: u64,
    pub(crate) retries: u64,
    pub(crate) hedges: u64,
    pub(crate) mends: u64,
    pub(crate) successes: u64,
    pub(crate) failures: u64,
    pub(crate) at_zero: u64,
    pub(crate) at_most: u64,
    pub(crate) retries_held_back: u64,
    pub(crate) hedges_held_back: u64,
    pub(crate) stops: u64,
    pub(crate) pushbacks: u64,
    pub(crate) overflows: u64,
    pub(crate) abandoned: u64,
    pub(crate) attempts_timed_out: u64,
    pub(crate) calls_timed_out: u64,
    pub(crate) callers_left: u64,
    pub(crate) request_failures: u64,
}

impl Tally {
    /// Each kind of thing happened to at least one call in a thousand.
    pub(crate) fn assert_everything_happened(&self, calls: u64) {
        for (many, what) in [
            (self.retries, "retries"),
            (self.hedges, "hedges"),
            (self.mends, "transparent retries"),
            (self.successes, "successes"),
            (self.failures, "failures"),
            (self.at_zero, "failures with no token left"),
            (self.at_most, "successes with the bucket full"),
            (self.retries_held_back, "retries held back"),
            (self.hedges_held_back, "hedges held back"),
            (self.stops, "stops"),
            (self.pushbacks, "pushbacks"),
            (self.overflows, "requests that outgrew their buffer"),
            (self.abandoned, "hedges given up for another"),
            (self.attempts_timed_out, "attempts that timed out"),
            (self.calls_timed_out, "calls that timed out"),
            (self.callers_left, "callers who left"),
            (self.request_failures, "requests that failed by themselves"),
        ] {
            assert!(many >= calls / 1000, "only {many} {what}");
        }
    }
}

/// Milli-tokens, and what every call may do next.
#[derive(Debug)]
pub(crate) struct Ledger {
    max: u64,
    ratio: u64,
    pub(crate) fill: u64,
    /// What the throttle has to hear next.
    expected: VecDeque<Told>,
    /// One a caller, who makes one call after the other.
    calls: Vec<Option<Call>>,
    /// The call that is being polled.
    pub(crate) polled: Option<u32>,
    pub(crate) tally: Tally,
}

const MILLI: u64 = 1000;
/// A6 leaves both bounds open; these are our own (`docs/architecture.md`).
const NEVER_SENT_WITH_DEADLINE: u32 = 1000;
const NEVER_SENT_WITHOUT: u32 = 5;
const A_DAY_MS: u64 = 24 * 60 * 60 * 1000;

fn on(calls: &mut [Option<Call>], id: u32) -> &mut Call {
    calls[(id % CALLERS) as usize]
        .as_mut()
        .filter(|call| call.id == id)
        .expect("the call is on")
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
        let call = Call {
            id,
            method,
            limit,
            fits,
            most_read: 0,
            sent: 0,
            counted: 0,
            in_flight: 0,
            mends_owed: 0,
            refused_before: false,
            never_sent: 0,
            over: None,
            last: None,
            due: None,
            since_pushback: 0,
            planned: None,
            planned_so_far: 1,
            at_once: 0,
            granted: 0,
            ended: None,
            story: Vec::new(),
        };
        let before = self.calls[(id % CALLERS) as usize].replace(call);
        assert!(before.is_none());
    }

    /// An attempt has so many bytes of the request.
    pub(crate) fn read(&mut self, id: u32, bytes: usize, limit: usize) {
        let call = self.call(id);
        call.most_read = call.most_read.max(bytes);
        // Once the answer has begun nothing is kept for others any more.
        if call.fits && call.over != Some(Over::Decided) && call.most_read > limit {
            call.fits = false;
            call.freeze();
            call.happens(Step::Outgrown);
            self.tally.overflows += 1;
        }
    }

    fn above_half(&self) -> bool {
        self.fill * 2 > self.max
    }

    /// The throttle is asked.
    pub(crate) fn permits(&mut self, now: Instant) -> bool {
        let permits = self.above_half();
        let id = self.polled.expect("a call asks");
        let call = on(&mut self.calls, id);
        call.happens(Step::Asked(permits));
        if let Recovery::Hedge { most, delay_ms } = call.method.recovery {
            if call.at_once > 0 {
                call.at_once -= 1;
            } else {
                // R40 R43 R44: neither before its time nor after it.
                assert_eq!(call.planned, Some(now), "a hedge is asked for: {call:#?}");
                call.planned_so_far += 1;
                call.plan(now, delay_ms, most);
                if delay_ms == 0 {
                    call.at_once = most - call.planned_so_far;
                    call.planned_so_far = most;
                    call.planned = None;
                }
            }
            if permits {
                call.granted += 1;
            } else {
                self.tally.hedges_held_back += 1;
                // R26: nobody waits for better times.
                if call.in_flight == 0 {
                    call.planned = None;
                }
            }
        }
        permits
    }

    /// The throttle hears of an attempt: it has to be the very next thing that A6 counts.
    pub(crate) fn told(&mut self, told: Told) {
        let id = self.polled.expect("a call is polled");
        let expected = self.expected.pop_front();
        let call = self.call(id);
        call.happens(Step::Told(told));
        assert_eq!(expected, Some(told), "{call:#?}");
    }

    /// Nothing that A6 counts was kept from the throttle.
    pub(crate) fn assert_all_told(&self) {
        assert!(self.expected.is_empty(), "not counted: {:?}", self.expected);
    }

    fn counts(&mut self, told: Told) {
        self.expected.push_back(told);
        match told {
            Told::Success => {
                self.tally.successes += 1;
                self.fill = (self.fill + self.ratio).min(self.max);
                self.tally.at_most += u64::from(self.fill == self.max);
            }
            Told::Failure => {
                self.tally.failures += 1;
                self.fill = self.fill.saturating_sub(MILLI);
                self.tally.at_zero += u64::from(self.fill == 0);
            }
        }
    }

    /// An attempt goes out: may it? Gives back its number.
    pub(crate) fn sends(
        &mut self,
        id: u32,
        kind: AttemptKind,
        previous: Option<u32>,
        now: Instant,
    ) -> u32 {
        self.assert_all_told();
        assert_eq!(self.polled, Some(id));
        let tally = &mut self.tally;
        let call = on(&mut self.calls, id);
        assert_eq!(call.over, None, "sent after the end: {call:#?}");
        assert!(
            call.limit.is_none_or(|limit| now < limit),
            "R14 R48: sent at the deadline or after it"
        );
        call.happens(Step::Sent(kind));
        call.sent += 1;
        call.in_flight += 1;
        tally.attempts += 1;
        match kind {
            AttemptKind::Initial => assert_eq!(call.sent, 1),
            AttemptKind::Retry => {
                tally.retries += 1;
                match call.due.take() {
                    Some(Due::At(at)) => assert_eq!(now, at, "R31: exactly"),
                    Some(Due::Between(from, to)) => assert!(from <= now && now <= to, "R11"),
                    other => panic!("no retry is due, but {other:?}"),
                }
            }
            AttemptKind::Hedge => {
                tally.hedges += 1;
                assert_eq!(call.granted, 1, "R46");
                call.granted = 0;
            }
            AttemptKind::Transparent => {
                tally.mends += 1;
                call.mends_owed = call.mends_owed.checked_sub(1).expect("R60 R61");
                call.due = None;
                if let Recovery::Hedge { most, delay_ms } = call.method.recovery {
                    if call.planned.is_none() {
                        call.plan(now, delay_ms, most);
                    }
                }
            }
        }
        if kind != AttemptKind::Transparent {
            call.counted += 1;
        }
        let most = match call.method.recovery {
            Recovery::None => 1,
            Recovery::Retry { most, .. } | Recovery::Hedge { most, .. } => most,
        };
        assert!(call.counted <= most, "R13 R40");
        // R63 R70: transparent ones are not counted, and tell what the attempt told that they stand in for.
        assert_eq!(previous, Some(call.counted - 1).filter(|n| *n > 0));
        if let Recovery::Hedge { most, delay_ms } = call.method.recovery {
            if call.sent == 1 {
                call.plan(now, delay_ms, most);
            }
        }
        call.sent
    }

    /// An attempt is answered.
    pub(crate) fn answered(&mut self, id: u32, attempt: u32, got: Got, now: Instant) {
        self.assert_all_told();
        assert_eq!(self.polled, Some(id));
        let call = on(&mut self.calls, id);
        call.happens(Step::Answered(attempt, got));
        call.in_flight -= 1;
        if got == Got::Abandoned {
            self.tally.abandoned += 1;
            return;
        }
        call.last = Some(attempt);
        match got {
            Got::Ok => {
                call.over = Some(Over::Decided);
                self.counts(Told::Success);
            }
            Got::Headers => call.over = Some(Over::Decided),
            Got::RequestFailed => {
                self.tally.request_failures += 1;
                call.over = Some(Over::Decided);
            }
            Got::Failed { code, word, unseen } => self.failed(id, code, word, unseen, now),
            Got::Abandoned => {}
        }
    }

    fn failed(&mut self, id: u32, code: i32, word: Option<Word>, unseen: Unseen, now: Instant) {
        let call = on(&mut self.calls, id);
        if call.mends(unseen) {
            call.mend(unseen, now);
            return;
        }
        let retryable = call.method.codes.contains(&code);
        let stops = word == Some(Word::Stop);
        self.tally.stops += u64::from(stops);
        // R22: a code of the policy's, or a "do not retry" on any code.
        if retryable || stops {
            self.counts(Told::Failure);
        }
        let permits = self.above_half();
        let call = on(&mut self.calls, id);
        if !retryable {
            // R10 R34 R42
            call.over = Some(Over::Decided);
            return;
        }
        let asked = match word {
            Some(Word::After(ms)) => Some(ms),
            _ => None,
        };
        self.tally.pushbacks += u64::from(asked.is_some());
        if stops || (call.limit.is_none() && asked.is_some_and(|ms| ms > A_DAY_MS)) {
            call.freeze();
            return;
        }
        match call.method.recovery {
            Recovery::None => call.over = Some(Over::Decided),
            Recovery::Hedge { most, .. } => call.plan(now, asked.unwrap_or(0), most),
            Recovery::Retry {
                most,
                first_ms,
                longest_ms,
            } => {
                if call.counted >= most || !call.fits {
                    call.over = Some(Over::Decided);
                } else if !permits {
                    // R20 R26: asked right after its own failure was counted.
                    self.tally.retries_held_back += 1;
                    call.over = Some(Over::Decided);
                } else if let Some(ms) = asked {
                    call.since_pushback = 0;
                    call.due = Some(Due::At(now + Duration::from_millis(ms)));
                } else {
                    // R11 R32: the bound doubles from the first one on since the last pushback.
                    let bound = (first_ms << call.since_pushback.min(20)).min(longest_ms);
                    call.since_pushback += 1;
                    call.due = Some(Due::Between(now, now + Duration::from_millis(bound)));
                }
            }
        }
    }

    /// The stream of a committed answer ended like this.
    pub(crate) fn stream_ends(&mut self, id: u32, code: i32) {
        self.assert_all_told();
        let call = on(&mut self.calls, id);
        call.ended = Some(code);
        let counts = call.method.codes.contains(&code);
        if code == 0 {
            self.counts(Told::Success);
        } else if counts {
            self.counts(Told::Failure);
        }
    }

    /// The caller has a head or an error from this attempt.
    pub(crate) fn returns(&mut self, id: u32, attempt: u32) {
        let call = self.call(id);
        assert_eq!(
            call.last,
            Some(attempt),
            "R13 R47: the answer that came last: {call:#?}"
        );
        let all_over = call.in_flight == 0
            && call.planned.is_none()
            && call.due.is_none()
            && call.mends_owed == 0;
        assert!(
            call.over == Some(Over::Decided) || all_over,
            "given up too early: {call:#?}"
        );
    }

    /// The caller has DEADLINE_EXCEEDED from the call's own deadline.
    pub(crate) fn times_out(&mut self, id: u32, now: Instant) {
        self.tally.calls_timed_out += 1;
        let call = self.call(id);
        assert_eq!(call.limit, Some(now), "R14: at its instant");
    }

    /// The call is over for its caller too.
    pub(crate) fn ends(&mut self, id: u32) -> Call {
        self.assert_all_told();
        self.calls[(id % CALLERS) as usize]
            .take_if(|call| call.id == id)
            .expect("the call is on")
    }
}

impl Call {
    fn happens(&mut self, step: Step) {
        self.story.push((Instant::now(), step));
    }

    fn freeze(&mut self) {
        self.planned = None;
        self.at_once = 0;
        self.mends_owed = 0;
        self.due = None;
        self.over.get_or_insert(Over::Frozen);
    }

    fn plan(&mut self, now: Instant, delay_ms: u64, most: u32) {
        let follows = self.over.is_none() && self.fits && self.planned_so_far < most;
        self.planned = follows.then(|| now + Duration::from_millis(delay_ms));
    }

    /// R60 R61: is this failure one that the application never saw, and another attempt allowed?
    fn mends(&mut self, unseen: Unseen) -> bool {
        if !self.fits {
            return false;
        }
        match unseen {
            Unseen::No => false,
            Unseen::Once => !std::mem::replace(&mut self.refused_before, true),
            Unseen::NeverSent => {
                let most = match self.limit {
                    Some(_) => NEVER_SENT_WITH_DEADLINE,
                    None => NEVER_SENT_WITHOUT,
                };
                self.never_sent += 1;
                self.never_sent <= most
            }
        }
    }

    fn mend(&mut self, unseen: Unseen, now: Instant) {
        if self.over.is_some() {
            return;
        }
        self.mends_owed += 1;
        match self.method.recovery {
            // The next planned hedge is this one, unless it is due no later.
            Recovery::Hedge { .. } => {
                let at = now + self.mend_delay(unseen);
                self.planned = self.planned.filter(|planned| *planned <= at);
            }
            _ => self.due = Some(Due::Mend),
        }
    }

    /// At once; what was never sent from the fourth time on more slowly.
    fn mend_delay(&self, unseen: Unseen) -> Duration {
        match self.never_sent.checked_sub(4) {
            Some(steps) if unseen == Unseen::NeverSent => {
                Duration::from_millis((1 << steps.min(10)).min(100))
            }
            _ => Duration::ZERO,
        }
    }

    pub(crate) fn sent(&self) -> u32 {
        self.sent
    }

    pub(crate) fn counted(&self) -> u32 {
        self.counted
    }
}

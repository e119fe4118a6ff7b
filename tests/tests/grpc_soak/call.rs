//! One call according to A6: what may be sent when.

use std::time::Duration;

use reattempt::AttemptKind;
use tokio::time::Instant;

use super::fate::Word;
use super::stack::ATTEMPT_LIMIT;
use super::words::{Got, Method, Recovery, Report, Unseen};

/// A6 leaves these bounds open; they are documented in docs/architecture.md.
const NEVER_SENT_WITH_DEADLINE: u32 = 1000;
const NEVER_SENT_WITHOUT: u32 = 5;
const NEVER_SENT_AT_ONCE: u32 = 3;
const A_DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// When the next retry is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// At once or soon: it was never sent, or never processed.
    Transparent,
    At(Instant),
    Between(Instant, Instant),
}

/// What set the time of the next hedge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planner {
    Delay,
    Failure,
    /// A server's pushback.
    Server,
}

/// Why no further attempt may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// Succeeded, committed or failed finally: the caller gets this response.
    Decided,
    /// Attempts in flight continue.
    Frozen,
}

/// One event, to debug a difference between the model and the stack.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "read by people only")]
pub(super) enum Step {
    Sent(AttemptKind),
    Answered(u32, Got),
    Asked(bool),
    Report(Report),
    Outgrown,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(super) id: u32,
    pub(super) method: &'static Method,
    pub(super) limit: Option<Instant>,
    /// A copy of the request is buffered.
    fits: bool,
    most_read: usize,
    sent: u32,
    /// Attempts sent, without transparent ones.
    counted: u32,
    in_flight: u32,
    /// The kind of each attempt, in order.
    kinds: Vec<AttemptKind>,
    transparent_due: u32,
    refused_before: bool,
    never_sent: u32,
    over: Option<Over>,
    /// The attempt with the latest response, except for our own cancellations.
    last: Option<u32>,
    /// With retries: when the next one is due.
    due: Option<Due>,
    since_pushback: u32,
    /// With hedging: when the next hedge is planned, by what, and how many were.
    planned: Option<Instant>,
    planned_by: Planner,
    planned_so_far: u32,
    /// Hedges of failures at this instant, beside the one that is planned.
    queued: u32,
    /// Attempts sent together with another one, because there is no delay.
    at_once: u32,
    granted: u32,
    /// The pushback of an attempt whose response was taken for the effect of its deadline.
    echoed: Option<Word>,
    /// The status at the end of the stream, or its failure.
    pub(crate) ended: Option<i32>,
    story: Vec<(Instant, Step)>,
}

/// What follows a failure that the policy may retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    Nothing,
    HeldBack,
    Another,
}

impl Call {
    pub(super) fn new(
        id: u32,
        method: &'static Method,
        limit: Option<Instant>,
        fits: bool,
    ) -> Self {
        Self {
            id,
            method,
            limit,
            fits,
            most_read: 0,
            sent: 0,
            counted: 0,
            in_flight: 0,
            kinds: Vec::new(),
            transparent_due: 0,
            refused_before: false,
            never_sent: 0,
            over: None,
            last: None,
            due: None,
            since_pushback: 0,
            planned: None,
            planned_by: Planner::Delay,
            planned_so_far: 1,
            queued: 0,
            at_once: 0,
            granted: 0,
            echoed: None,
            ended: None,
            story: Vec::new(),
        }
    }

    pub(super) fn happens(&mut self, step: Step) {
        self.story.push((Instant::now(), step));
    }

    pub(crate) fn sent(&self) -> u32 {
        self.sent
    }

    pub(crate) fn counted(&self) -> u32 {
        self.counted
    }

    /// The deadline of an attempt that is sent now, if it is earlier than the call's.
    pub(super) fn attempt_limit(&self, now: Instant) -> Option<Instant> {
        Some(now + ATTEMPT_LIMIT).filter(|at| self.limit.is_none_or(|limit| *at < limit))
    }

    pub(super) fn echo(&mut self, got: Got) {
        if let Got::Failed { word, .. } = got {
            self.echoed = word;
        }
    }

    pub(super) fn take_echo(&mut self) -> Option<Word> {
        self.echoed.take()
    }

    /// An attempt has read this many bytes. If that exceeds the limit (R51): how many other
    /// attempts are cut off by it.
    pub(super) fn outgrows(&mut self, bytes: usize, limit: usize) -> Option<u32> {
        self.most_read = self.most_read.max(bytes);
        // Once the response has begun nothing is buffered.
        let outgrown = self.fits && self.over != Some(Over::Decided) && self.most_read > limit;
        if outgrown {
            self.happens(Step::Outgrown);
            self.fits = false;
            self.freeze();
            // No copy is left for a transparent retry either.
            self.transparent_due = 0;
        }
        outgrown.then(|| self.in_flight - 1)
    }

    fn freeze(&mut self) {
        self.planned = None;
        self.at_once = 0;
        self.queued = 0;
        self.due = None;
        self.over.get_or_insert(Over::Frozen);
    }

    pub(super) fn decide(&mut self) {
        self.over = Some(Over::Decided);
    }

    fn plan(&mut self, now: Instant, delay_ms: u64, most: u32) {
        let follows = self.over.is_none() && self.fits && self.planned_so_far < most;
        self.planned = follows.then(|| now + Duration::from_millis(delay_ms));
        self.planned_by = Planner::Delay;
    }

    /// The throttle is asked for a hedge, which must be due now. `permits` is A6's answer (R46).
    pub(super) fn asks(&mut self, permits: bool, now: Instant) {
        self.happens(Step::Asked(permits));
        let Recovery::Hedge { most, delay_ms } = self.method.recovery else {
            return;
        };
        if self.queued > 0 {
            self.queued -= 1;
        } else if self.at_once > 0 {
            self.at_once -= 1;
        } else {
            // R40 R43 R44: exactly at its time.
            assert_eq!(self.planned, Some(now), "a hedge is asked for: {self:#?}");
            self.planned_so_far += 1;
            self.plan(now, delay_ms, most);
            if delay_ms == 0 {
                self.at_once = most - self.planned_so_far;
                self.planned_so_far = most;
                self.planned = None;
            }
        }
        if permits {
            self.granted += 1;
        } else if self.in_flight == 0 {
            // R26: a refused hedge is not postponed. One that is due now asks too.
            self.planned = self.planned.filter(|at| *at <= now);
        }
    }

    /// An attempt is sent: checks that this is allowed.
    pub(super) fn sends(&mut self, kind: AttemptKind, previous: Option<u32>, now: Instant) {
        self.happens(Step::Sent(kind));
        // R45 R60 R61: the end of the hedging leaves transparent retries.
        let transparent = kind == AttemptKind::Transparent;
        let may = self.over.is_none() || transparent && self.over == Some(Over::Frozen);
        assert!(may, "sent after the end: {self:#?}");
        assert!(
            self.limit.is_none_or(|limit| now < limit),
            "R14 R48: sent at the deadline or after it"
        );
        self.sent += 1;
        self.in_flight += 1;
        self.kinds.push(kind);
        let hedging = match self.method.recovery {
            Recovery::Hedge { most, delay_ms } => Some((most, delay_ms)),
            Recovery::None | Recovery::Retry { .. } => None,
        };
        match kind {
            AttemptKind::Initial => {
                assert_eq!(self.sent, 1);
                if let Some((most, delay_ms)) = hedging {
                    self.plan(now, delay_ms, most);
                }
            }
            AttemptKind::Retry => match self.due.take() {
                Some(Due::At(at)) => assert_eq!(now, at, "R31: exactly"),
                Some(Due::Between(from, to)) => assert!(from <= now && now <= to, "R11 R32"),
                other => panic!("no retry is due, but {other:?}: {self:#?}"),
            },
            AttemptKind::Hedge => {
                assert_eq!(self.granted, 1, "R46");
                self.granted = 0;
            }
            AttemptKind::Transparent => {
                self.transparent_due = self.transparent_due.checked_sub(1).expect("R60 R61");
                self.due = None;
                if let (Some((most, delay_ms)), None) = (hedging, self.planned) {
                    self.plan(now, delay_ms, most);
                }
            }
            other => panic!("{other:?}"),
        }
        if kind != AttemptKind::Transparent {
            self.counted += 1;
        }
        let most = match self.method.recovery {
            Recovery::None => 1,
            Recovery::Retry { most, .. } | Recovery::Hedge { most, .. } => most,
        };
        assert!(self.counted <= most, "R13 R33 R40");
        // R63 R70: transparent attempts are not counted. Each sends the number of attempts before
        // it without the one that it replaces, and with hedges that were sent since.
        assert_eq!(previous, Some(self.counted - 1).filter(|n| *n > 0));
    }

    /// An attempt is no longer in flight: answered, abandoned, or cut off.
    pub(super) fn leaves(&mut self) {
        self.in_flight -= 1;
    }

    pub(super) fn answers(&mut self, attempt: u32, got: Got) {
        self.happens(Step::Answered(attempt, got));
        if got != Got::Abandoned {
            self.last = Some(attempt);
        }
    }

    /// R60 R61: plans a transparent retry if the application never saw the failed attempt and the
    /// bounds allow another.
    pub(super) fn retries_transparently(
        &mut self,
        attempt: u32,
        unseen: Unseen,
        now: Instant,
    ) -> bool {
        let retries = self.fits
            && match unseen {
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
            };
        if retries && self.over != Some(Over::Decided) {
            self.transparent_due += 1;
            match self.method.recovery {
                // Uses the next planned hedge, unless that is due earlier, a server set its time,
                // or the same failure was retried before.
                Recovery::Hedge { .. } => {
                    let at = now + self.transparent_delay(unseen);
                    let again = self.kinds[attempt as usize - 1] == AttemptKind::Transparent;
                    let stays = again || self.planned_by == Planner::Server;
                    self.planned = self.planned.filter(|planned| stays || *planned <= at);
                }
                Recovery::None | Recovery::Retry { .. } => self.due = Some(Due::Transparent),
            }
        }
        retries
    }

    fn transparent_delay(&self, unseen: Unseen) -> Duration {
        match self.never_sent.checked_sub(NEVER_SENT_AT_ONCE + 1) {
            Some(steps) if unseen == Unseen::NeverSent => {
                Duration::from_millis((1 << steps.min(10)).min(100))
            }
            _ => Duration::ZERO,
        }
    }

    /// A failure with one of the policy's codes; `permits` is the answer of A6's throttle right
    /// after it was counted.
    pub(super) fn retries(&mut self, word: Option<Word>, permits: bool, now: Instant) -> Follows {
        let asked = match word {
            Some(Word::After(ms)) => Some(ms),
            _ => None,
        };
        // R30; without a deadline no retry waits for more than a day.
        let never = self.limit.is_none() && asked.is_some_and(|ms| ms > A_DAY_MS);
        if word == Some(Word::Stop) || never {
            self.freeze();
            return Follows::Nothing;
        }
        match self.method.recovery {
            Recovery::None => self.decide(),
            Recovery::Hedge { most, .. } => {
                // R43: each failure sends one.
                if self.planned.is_some() && self.planned_by == Planner::Failure {
                    self.queued += 1;
                    self.planned_so_far += 1;
                }
                self.plan(now, asked.unwrap_or(0), most);
                self.planned_by = match asked {
                    Some(_) => Planner::Server,
                    None => Planner::Failure,
                };
            }
            Recovery::Retry { most, .. } if self.counted >= most || !self.fits => self.decide(),
            Recovery::Retry { .. } if !permits => {
                self.decide();
                return Follows::HeldBack;
            }
            Recovery::Retry {
                first_ms,
                longest_ms,
                ..
            } => {
                self.due = Some(match asked {
                    Some(ms) => Due::At(now + Duration::from_millis(ms)),
                    // R11 R32: the upper bound doubles, counted from the last pushback.
                    None => {
                        let bound = (first_ms << self.since_pushback.min(20)).min(longest_ms);
                        Due::Between(now, now + Duration::from_millis(bound))
                    }
                });
                self.since_pushback = match asked {
                    Some(_) => 0,
                    None => self.since_pushback + 1,
                };
            }
        }
        Follows::Another
    }

    /// The caller got a head or an error from this attempt: checks that it is the right one, and
    /// that nothing was left to do (R13 R47).
    pub(super) fn returns(&self, attempt: u32) {
        assert_eq!(self.last, Some(attempt), "not the last answer: {self:#?}");
        let nothing_left = self.in_flight == 0
            && self.planned.is_none()
            && self.queued == 0
            && self.due.is_none()
            && self.transparent_due == 0;
        assert!(
            self.over == Some(Over::Decided) || nothing_left,
            "given up too early: {self:#?}"
        );
    }
}

//! The part of the log that belongs to one call, by attempt.

use reattempt::reason::ReasonClass;
use reattempt::{AttemptKind, Failure, Stage, Transparent, Verdict};

use crate::caller::Seen;
use crate::fate::{Fate, Word};
use crate::log::{Entry, Event};
use crate::reply::CallResult;
use crate::scenario::CallPlan;
use crate::world::World;

/// The time of an event, and its position in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub(crate) seq: usize,
    pub(crate) at: u64,
}

#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    pub(crate) number: u32,
    pub(crate) kind: AttemptKind,
    pub(crate) fate: &'a Fate,
    /// The timeout in its context.
    pub(crate) limit: Option<u64>,
    pub(crate) sent: Mark,
    pub(crate) ends: Option<Mark>,
    pub(crate) unread: bool,
    pub(crate) broke_off: bool,
    pub(crate) gone: Option<Mark>,
    pub(crate) verdict: Option<(Mark, Verdict)>,
}

#[derive(Debug)]
pub(crate) struct Story<'a> {
    pub(crate) plan: &'a CallPlan,
    pub(crate) http: bool,
    pub(crate) seen: &'a Seen,
    pub(crate) begins: Mark,
    pub(crate) attempts: Vec<Attempt<'a>>,
    pub(crate) over: Option<(Mark, CallResult)>,
    pub(crate) left: Option<Mark>,
    pub(crate) log: Vec<(Mark, &'a Event)>,
}

/// A failure as the recovery layer must interpret it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    pub(crate) fatal: bool,
    pub(crate) after: Option<u64>,
    /// No further attempt may be made.
    pub(crate) stop: bool,
    /// The server asked to stop, which counts as a failure for any code.
    pub(crate) asked_stop: bool,
    /// As far as is known, the request had no effect at the server.
    pub(crate) safe: bool,
    /// How far it came.
    pub(crate) stage: Stage,
}

impl Failed {
    /// Retried regardless of strategy and throttle.
    pub(crate) fn is_forced(&self) -> bool {
        !self.fatal && self.failure.reason.always_retry()
    }
}

impl<'a> Story<'a> {
    pub(crate) fn new(world: &'a World, call: usize, seen: &'a Seen, log: &'a [Entry]) -> Self {
        let own = log.iter().enumerate().filter(|(_, of)| of.call == call);
        let mark = |(seq, entry): (usize, &'a Entry)| (Mark { seq, at: entry.at }, &entry.event);
        let log: Vec<_> = own.map(mark).collect();
        let mut story = Self {
            plan: &world.scenario.calls[call],
            http: world.scenario.http,
            seen,
            begins: Mark { seq: 0, at: 0 },
            attempts: Vec::new(),
            over: None,
            left: None,
            log: Vec::new(),
        };
        for (mark, event) in &log {
            story.add(world, call, *mark, event);
        }
        story.log = log;
        story
    }

    fn add(&mut self, world: &'a World, call: usize, mark: Mark, event: &'a Event) {
        match event {
            Event::Begins => self.begins = mark,
            Event::Sent {
                place,
                number,
                kind,
                limit,
            } => self.attempts.push(Attempt {
                number: *number,
                kind: *kind,
                fate: world.fate(call, *place),
                limit: *limit,
                sent: mark,
                ends: None,
                unread: false,
                broke_off: false,
                gone: None,
                verdict: None,
            }),
            Event::Ends {
                place,
                unread,
                broke_off,
            } => {
                let attempt = &mut self.attempts[*place];
                attempt.ends = Some(mark);
                (attempt.unread, attempt.broke_off) = (*unread, *broke_off);
            }
            Event::Gone { place } => self.attempts[*place].gone = Some(mark),
            Event::Classified { number, verdict } => {
                let mut attempts = self.attempts.iter_mut();
                if let Some(attempt) = attempts.find(|of| of.number == *number) {
                    assert!(attempt.verdict.is_none(), "{number} is classified twice");
                    attempt.verdict = Some((mark, *verdict));
                }
            }
            Event::Over(told) => self.over = Some((mark, told.clone())),
            Event::Left => self.left = Some(mark),
            _ => {}
        }
    }

    /// When the call ended for its caller.
    pub(crate) fn end(&self) -> Option<Mark> {
        self.left.or(self.over.as_ref().map(|(mark, _)| *mark))
    }

    /// True if the body could prevent a retry or cut off an attempt.
    pub(crate) fn has_body(&self) -> bool {
        self.http && (self.plan.body.frames > 0 || self.plan.body.fails)
    }

    /// How the recovery layer must interpret the attempt's failure.
    pub(crate) fn failed(&self, attempt: &Attempt<'_>) -> Option<Failed> {
        let (failure, fatal) = match attempt.verdict?.1 {
            Verdict::Success | Verdict::Committed => return None,
            Verdict::Fatal(failure) => (failure, true),
            Verdict::Retry(failure) => (failure, false),
        };
        let fate = attempt.fate;
        // The final report is made only by an attempt that ends by itself.
        let whole = attempt.ends.is_some() && !attempt.broke_off;
        let word = fate
            .word
            .filter(|_| whole && (fate.reported || self.seen.facts.pushback));
        let after = match word {
            Some(Word::After(after)) => Some(after),
            _ => None,
        };
        const DAY: u64 = 24 * 60 * 60 * 1000;
        let never = after.is_some_and(|after| after > DAY) && self.seen.facts.limit.is_none();
        let asked_stop = word == Some(Word::Stop);
        let mut failed = Failed {
            failure,
            fatal,
            after,
            stop: asked_stop || never || whole && fate.forbids,
            asked_stop,
            safe: false,
            stage: failure.stage,
        };
        let unread = failure.transparent == Transparent::IfUnread
            && self.has_body()
            && attempt.unread
            && !fate.as_answer;
        failed.failure.transparent = match failure.transparent {
            Transparent::NextBackend if !(whole && fate.untried) => Transparent::No,
            Transparent::IfUnread if unread => Transparent::Unlimited,
            Transparent::IfUnread => Transparent::No,
            known => known,
        };
        let reported = fate.stages[1].filter(|_| whole).or(fate.stages[0]);
        let stage = if attempt.ends.is_none() || whole && fate.own_answer {
            // A response made by one of our layers.
            reported.unwrap_or(Stage::InFlight)
        } else if failure.stage == Stage::Response {
            Stage::Response
        } else if unread {
            Stage::Dispatch
        } else {
            reported.unwrap_or(failure.stage)
        };
        // The transport knows that it left, whatever the classifier made of it.
        let left = failure.stage == Stage::Dispatch && stage != Stage::Dispatch;
        if left {
            failed.failure.transparent = Transparent::No;
        }
        failed.stage = stage;
        let doubted = left || failure.stage == Stage::Response && stage == Stage::InFlight;
        let by_reason = failure.reason.allows_non_idempotent_retry()
            && !(doubted && failure.reason.class() == ReasonClass::Unsent);
        failed.safe = if stage == Stage::Dispatch || by_reason {
            true
        } else {
            // The classifier decides, if the response is the server's and its stage applies.
            failure.safe && !left && attempt.ends.is_some() && !(whole && fate.own_answer)
        };
        Some(failed)
    }
}

//! Counts events, so that a run in which an event never happens is noticed.

use reattempt::{AttemptKind, DeadlineScope, StopReason, Verdict};

use crate::judge::Story;
use crate::log::{Event, Observed};
use crate::reply::CallResult;

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) scenarios: u64,
    pub(crate) calls: u64,
    pub(crate) sends: u64,
    retries: u64,
    hedges: u64,
    transparent: u64,
    worked: u64,
    failed: u64,
    committed: u64,
    elapsed: u64,
    attempts_elapsed: u64,
    broken: u64,
    broke_off: u64,
    left: u64,
    refused_hedges: [u64; 11],
    stopped: [u64; 11],
    most_polls: u32,
}

impl Tally {
    pub(crate) fn add(&mut self, story: &Story<'_>) {
        self.calls += 1;
        self.most_polls = self.most_polls.max(story.seen.polls);
        for attempt in &story.attempts {
            self.sends += 1;
            match attempt.kind {
                AttemptKind::Initial => {}
                AttemptKind::Retry => self.retries += 1,
                AttemptKind::Hedge => self.hedges += 1,
                AttemptKind::Transparent => self.transparent += 1,
                other => panic!("{other:?}"),
            }
            let cut = attempt.ends.is_none() && attempt.verdict.is_some();
            self.attempts_elapsed += u64::from(cut);
            self.broke_off += u64::from(attempt.broke_off);
        }
        match story.over.as_ref().map(|(_, told)| told) {
            None => self.left += 1,
            Some(CallResult::Attempt(_, Verdict::Success)) => self.worked += 1,
            Some(CallResult::Attempt(_, Verdict::Committed)) => self.committed += 1,
            Some(CallResult::Attempt(..) | CallResult::Body(_)) => self.failed += 1,
            Some(CallResult::Elapsed { scope, .. }) => {
                self.elapsed += u64::from(*scope == DeadlineScope::Call);
            }
            Some(CallResult::Broken) => self.broken += 1,
        }
        for (_, event) in &story.log {
            match event {
                Event::Observed(Observed::Refused(stopped)) => {
                    self.refused_hedges[*stopped as usize] += 1;
                }
                Event::Observed(Observed::Ended(info)) => {
                    let stopped = info.stopped().unwrap_or(StopReason::Success);
                    self.stopped[stopped as usize] += 1;
                }
                _ => {}
            }
        }
    }

    pub(crate) fn assert_everything_happened(&self) {
        let counts = [
            self.retries,
            self.hedges,
            self.transparent,
            self.worked,
            self.failed,
            self.committed,
            self.elapsed,
            self.attempts_elapsed,
            self.broken,
            self.broke_off,
            self.left,
            self.refused_hedges[StopReason::Throttled as usize],
            self.refused_hedges[StopReason::Fatal as usize],
            self.refused_hedges[StopReason::Pushback as usize],
            self.refused_hedges[StopReason::NotReplayable as usize],
        ];
        let all = counts.iter().chain(&self.stopped).all(|count| *count > 0);
        assert!(all, "something never happened: {self:#?}");
    }
}

//! Hedge delays that learn: asked and fed as the layer does.

use reattempt::machine::FailedAttempt;
use reattempt::policy::{AttemptEnd, EndedAttempt};
use reattempt::reason::CIRCUIT_BREAKER_OPEN;
use reattempt::record::Entry;
use reattempt::{AttemptKind, AttemptOutcome, Stage};

use super::facts::{facts, verdict};
use super::follow::{Follower, Progress, RouteWay};

impl Follower<'_> {
    /// A hedge delay is asked when the first attempt is sent: later it may have learned more.
    pub(super) fn arrived(&mut self, call: usize) {
        let recorded = &self.traffic.calls[call];
        let route = &self.routes[usize::from(recorded.route)];
        if matches!(&route.way, RouteWay::Hedge(policy) if policy.learns()) {
            self.clock.set(recorded.arrived);
            self.of(call);
        }
    }

    /// An attempt ended: a hedge delay may learn from it. From those that lost it learns after the
    /// one that ended the call: a success is recorded last, and a failure before them.
    pub(super) fn learn(&mut self, call: usize, entry: &Entry) {
        let route = &self.routes[usize::from(self.traffic.calls[call].route)];
        let RouteWay::Hedge(policy) = &route.way else {
            return;
        };
        if !policy.learns() {
            return;
        }
        let number = u32::from(entry.number);
        let mut of = self.calls[call].as_mut();
        let teaches = match of.as_ref().map(|of| &of.progress) {
            Some(Progress::Hedge(driver)) => driver.machine.teaches(number),
            _ => number == 1 || entry.kind == AttemptKind::Hedge,
        };
        let now = self.clock.now();
        let mut unsent = false;
        let end = match entry.outcome {
            AttemptOutcome::Success | AttemptOutcome::Committed => Some(AttemptEnd::Succeeded),
            AttemptOutcome::Fatal | AttemptOutcome::Retry => {
                let verdict = verdict(entry, &self.recording.reasons);
                let facts = facts(entry, &self.recording.reasons, now, None);
                let failed = FailedAttempt::new(&facts, &verdict);
                unsent = failed
                    .as_ref()
                    .is_some_and(|failed| failed.failure().stage == Stage::Dispatch);
                failed.and_then(|failed| failed.learned())
            }
            // The end of the call has its reason in the records that it cut.
            AttemptOutcome::Cancelled if entry.stopped.is_none() => Some(AttemptEnd::Lost),
            AttemptOutcome::Cancelled => Some(AttemptEnd::Dropped),
            _ => None,
        };
        let attempt = end.filter(|_| teaches);
        let attempt = attempt.map(|end| EndedAttempt::new(number, now, entry.took, end));
        let lost = match &mut of {
            Some(of) if end == Some(AttemptEnd::Lost) && !of.failed => {
                return of.lost.extend(attempt);
            }
            Some(of) => {
                // What was not sent and a breaker's refusal end no call while others are in flight.
                let reason = self.recording.reasons.get(usize::from(entry.reason));
                let ends = !unsent && reason != Some(&CIRCUIT_BREAKER_OPEN);
                of.failed |= entry.outcome == AttemptOutcome::Fatal && ends;
                std::mem::take(&mut of.lost)
            }
            None => Vec::new(),
        };
        for attempt in attempt.into_iter().chain(lost) {
            policy.delay().ended(&attempt);
        }
    }
}

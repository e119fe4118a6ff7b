//! Further attempts of calls that are followed: sent, or refused.

use std::time::Duration;

use reattempt::driver::HedgeDriver;
use reattempt::machine::{Due, Planned, Resume, Wait};
use reattempt::policy::HedgeView;
use reattempt::{HedgePolicy, StopReason};

use super::facts::{deadline, says_refused};
use super::follow::{Follower, Progress, RouteWay};
use super::traffic::nanos;

/// A hedge that is sent this much later than planned is still the planned one.
const LATE: Duration = Duration::from_millis(10);

const HELD_BACK: &str = "the hedge delay holds it back";

impl Follower<'_> {
    /// An attempt after the first was sent.
    pub(super) fn sent(&mut self, call: usize, at: usize) {
        let timed = &self.recording.entries[at];
        let entry = &timed.entry;
        let sent = timed.at.saturating_sub(nanos(entry.took));
        self.clock.set(sent);
        let (now, own) = (self.clock.at(sent), self.own);
        let deadline = deadline(&self.traffic.calls[call], &self.clock);
        let (of, route) = self.of(call);
        let throttle = route.throttle.as_deref();
        let tested = match (&mut of.progress, &route.way) {
            (Progress::Retry { driver, next }, _) => {
                let next = next.take().filter(|next| next.kind == entry.kind);
                // A retry at once is not held against the deadline again.
                let in_time =
                    |next: &Wait| next.until.is_none() || Resume::at(now, deadline) == Resume::Send;
                if next.is_none() {
                    Err(format!("no {} is sent", entry.kind.name()))
                } else if next.is_some_and(|next| in_time(&next)) {
                    driver.sent();
                    Ok(())
                } else {
                    driver.unsent(throttle);
                    Err("the deadline has passed".to_owned())
                }
            }
            (Progress::Hedge(driver), RouteWay::Hedge(policy)) => {
                match due(driver, now, policy, own, true) {
                    Err(tested) => Err(tested),
                    Ok(None) => Err(HELD_BACK.to_owned()),
                    Ok(Some(planned)) if planned.kind() != entry.kind => {
                        Err(format!("{} is due", planned.kind().name()))
                    }
                    Ok(Some(planned)) => match driver.permit(now, planned, deadline, throttle) {
                        Ok(_) => Ok(()),
                        Err(refused) => Err(says_refused(Some(refused.stopped))),
                    },
                }
            }
            _ => Err("the call went another way before".to_owned()),
        };
        self.decided(call, at, tested);
    }

    /// A planned hedge was refused.
    pub(super) fn refused(&mut self, call: usize, at: usize) {
        let timed = &self.recording.entries[at];
        let stopped = timed.entry.stopped;
        let (now, own) = (self.clock.at(timed.at), self.own);
        let deadline = deadline(&self.traffic.calls[call], &self.clock);
        let (of, route) = self.of(call);
        let throttle = route.throttle.as_deref();
        let tested = match (&mut of.progress, &route.way) {
            // A hedge that was becoming ready when an attempt ended the hedging: it is no longer
            // planned, and a transparent retry that is due has an entry of its own.
            (Progress::Hedge(driver), RouteWay::Hedge(_))
                if stopped.is_some()
                    && driver.machine.permit(now, &Planned::Hedge, None).err() == stopped =>
            {
                Ok(())
            }
            (Progress::Hedge(driver), RouteWay::Hedge(policy)) => {
                let can_copy = stopped != Some(StopReason::NotReplayable);
                match due(driver, now, policy, own, can_copy) {
                    // What is planned while an attempt at the same instant ends the plan.
                    Err(_) if driver.machine.is_frozen() => Ok(()),
                    Err(tested) => Err(tested),
                    // Only the first of a call is recorded, as the throttle's doing.
                    Ok(None) if stopped == Some(StopReason::Throttled) => Ok(()),
                    Ok(None) => Err(HELD_BACK.to_owned()),
                    Ok(Some(planned)) => {
                        let refused = match stopped {
                            // The transport's and the request's doing.
                            Some(by @ (StopReason::NotReplayable | StopReason::Fatal)) => {
                                Some(driver.withdrawn(by, deadline).stopped)
                            }
                            _ => {
                                let permit = driver.permit(now, planned, deadline, throttle);
                                permit.err().map(|refused| refused.stopped)
                            }
                        };
                        if refused == stopped {
                            Ok(())
                        } else {
                            Err(says_refused(refused))
                        }
                    }
                }
            }
            _ => Err("no hedge is due".to_owned()),
        };
        self.decided(call, at, tested);
    }
}

/// What the machine has planned at this instant; `None` if the hedge delay holds back the call's
/// first hedge. `can_copy` is whether the request could be sent once more.
fn due(
    driver: &mut HedgeDriver,
    now: std::time::Instant,
    policy: &HedgePolicy,
    own: bool,
    can_copy: bool,
) -> Result<Option<Planned>, String> {
    loop {
        let Some(at) = driver.machine.wake() else {
            return Err("no hedge is planned".to_owned());
        };
        if at > now {
            return Err(format!("a hedge follows {:?} later", at - now));
        }
        // As the layer, which asks when its timer ends.
        let view = HedgeView::new(at).if_copied(can_copy);
        match driver.machine.due(view, policy) {
            Due::Plan(_) if !own && now - at > LATE => {
                return Err(format!("a hedge follows {:?} earlier", now - at));
            }
            Due::Plan(planned) => return Ok(Some(planned)),
            Due::HeldBack { first: true } => return Ok(None),
            // Asked again after a while.
            Due::HeldBack { first: false } => {}
            Due::Nothing => return Err("no hedge is due".to_owned()),
        }
    }
}

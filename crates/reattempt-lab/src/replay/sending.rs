//! Further attempts of calls that are followed: sent, or refused.

use std::time::Duration;

use reattempt::driver::HedgeDriver;
use reattempt::machine::{Due, Planned, Resume};
use reattempt::{HedgePolicy, StopReason};

use super::facts::{deadline, says_refused};
use super::follow::{Follower, Progress, RouteWay};
use super::traffic::nanos;

/// A hedge that is sent this much later than planned is still the planned one.
const LATE: Duration = Duration::from_millis(10);

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
                let kind = next.take();
                if kind != Some(entry.kind) {
                    Err(format!("no {} is sent", entry.kind.name()))
                } else if Resume::at(now, deadline) == Resume::Send {
                    driver.sent();
                    Ok(())
                } else {
                    driver.unsent(throttle);
                    Err("the deadline has passed".to_owned())
                }
            }
            (Progress::Hedge(driver), RouteWay::Hedge(policy)) => {
                match due(driver, now, policy, own) {
                    Err(tested) => Err(tested),
                    Ok(planned) if planned.kind != entry.kind => {
                        Err(format!("{} is due", planned.kind.name()))
                    }
                    Ok(planned) => match driver.permit(now, planned, deadline, throttle) {
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
            (Progress::Hedge(driver), RouteWay::Hedge(policy)) => {
                match due(driver, now, policy, own) {
                    // What is planned while an attempt at the same instant ends the plan.
                    Err(_) if driver.machine.is_frozen() => Ok(()),
                    Err(tested) => Err(tested),
                    Ok(planned) => {
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

/// What the machine has planned at this instant.
fn due(
    driver: &mut HedgeDriver,
    now: std::time::Instant,
    policy: &HedgePolicy,
    own: bool,
) -> Result<Planned, String> {
    let Some(at) = driver.machine.wake() else {
        return Err("no hedge is planned".to_owned());
    };
    if at > now {
        return Err(format!("a hedge follows {:?} later", at - now));
    }
    if !own && now - at > LATE {
        return Err(format!("a hedge follows {:?} earlier", now - at));
    }
    match driver.machine.due(now, policy) {
        Due::Plan(planned) => Ok(planned),
        Due::HeldBack { .. } => Err("the hedge delay holds it back".to_owned()),
        Due::Nothing => Err("no hedge is due".to_owned()),
    }
}

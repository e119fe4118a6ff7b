//! Follows a recording with a policy: its machines get what the recorded attempts came to, in the
//! recorded order, and their decisions are compared with the recorded ones.

use std::sync::Arc;
use std::time::Duration;

use reattempt::driver::{HedgeDriver, RetryDriver, count_success, count_unsuccessful};
use reattempt::machine::{Action, FailedAttempt, Wait};
use reattempt::policy::EndedAttempt;
use reattempt::record::{Entry, Recording, What};
use reattempt::{AttemptOutcome, Failure, HedgePolicy, Idempotency, RetryThrottle, StopReason};

use super::facts::{deadline, facts, same_delay, says, verdict};
use super::fitting::{Fitting, Roll};
use super::traffic::{Happened, Recorded, Traffic};
use super::{Decisions, Difference};
use crate::load::CallKind;
use crate::policy::{Classes, Clock, Own, PolicyText, Routes, Simulated, Way};

/// What one route has under the policy.
pub(super) struct Route {
    pub(super) way: RouteWay,
    pub(super) throttle: Option<Arc<dyn RetryThrottle>>,
    /// Verdicts of the tested policy; `None` keeps the recorded ones.
    classes: Option<Classes>,
}

pub(super) enum RouteWay {
    Retry(Fitting),
    Hedge(Arc<HedgePolicy>),
}

#[allow(clippy::large_enum_variant, reason = "its call is boxed")]
pub(super) enum Progress {
    Retry {
        driver: RetryDriver,
        /// What is waited for.
        next: Option<Wait>,
    },
    Hedge(HedgeDriver),
    /// The call decided otherwise, or is over.
    Left,
}

pub(super) struct Call {
    pub(super) progress: Progress,
    pub(super) paid: Option<Failure>,
    /// A final failure ended the call: those that lose are recorded after it.
    pub(super) failed: bool,
    /// Attempts that lost, which a hedge delay has not learned yet.
    pub(super) lost: Vec<EndedAttempt>,
}

/// One follower of a recording.
pub(super) struct Follower<'a> {
    pub(super) recording: &'a Recording,
    pub(super) traffic: &'a Traffic,
    pub(super) routes: Vec<Route>,
    pub(super) clock: Clock,
    /// The policy is the recorded one: a service that was not ready may have made a hedge late.
    pub(super) own: bool,
    /// An attempt that followed at once says that what the call is about had moved.
    moves: bool,
    on_deadline: reattempt::OnDeadline,
    pub(super) calls: Vec<Option<Box<Call>>>,
    decisions: Decisions,
}

impl<'a> Follower<'a> {
    /// `None` if the policy cannot be read.
    pub(super) fn new(
        recording: &'a Recording,
        traffic: &'a Traffic,
        policy: &PolicyText,
        own: bool,
        moves: bool,
    ) -> Option<Self> {
        let roll = Roll::default();
        let by = Simulated {
            randomness: roll.randomness(),
            clock: Clock::new(),
        };
        let parsed = policy.parse(&by).ok()?;
        let by_name = Routes::of(&parsed);
        let route = |name: &String| {
            let kind = CallKind::of_route(name);
            let Own { way, throttle, .. } = Own::new(&by_name, &kind, &by);
            let way = match way {
                Way::Retry(strategy) => RouteWay::Retry(Fitting::new(strategy, roll.clone())),
                Way::Hedge(hedge) => RouteWay::Hedge(hedge),
            };
            let classes = (!own).then(|| Classes::new(policy, &by_name, &kind));
            Route {
                way,
                throttle,
                classes,
            }
        };
        Some(Self {
            recording,
            traffic,
            routes: recording.routes.iter().map(route).collect(),
            clock: by.clock,
            own,
            moves,
            on_deadline: policy.protocol().on_deadline(),
            calls: traffic.calls.iter().map(|_| None).collect(),
            decisions: Decisions::default(),
        })
    }

    pub(super) fn run(mut self) -> Decisions {
        let traffic = self.traffic;
        for (call, happened) in &traffic.events {
            let call = *call as usize;
            match *happened {
                Happened::Arrived => self.arrived(call),
                Happened::Sent(at) => self.sent(call, at as usize),
                Happened::Entry(at) => self.entry(call, at as usize),
            }
        }
        self.decisions
    }

    fn entry(&mut self, call: usize, at: usize) {
        let timed = &self.recording.entries[at];
        self.clock.set(timed.at);
        if timed.entry.what == What::Attempt {
            // Before the end of the call is known, as the layer does.
            self.learn(call, &timed.entry);
        }
        match (timed.entry.what, timed.entry.outcome) {
            (What::Refused, _) => self.refused(call, at),
            (What::Ended, _) => self.ended(call),
            (What::Attempt, AttemptOutcome::Fatal | AttemptOutcome::Retry) => self.failed(call, at),
            (What::Attempt, AttemptOutcome::Cancelled) if timed.entry.cut_off => {
                self.failed(call, at);
            }
            (What::Attempt, outcome) => self.over(call, &timed.entry, outcome),
        }
    }

    /// An attempt succeeded, or was dropped.
    fn over(&mut self, call: usize, entry: &Entry, outcome: AttemptOutcome) {
        let route = &self.routes[usize::from(self.traffic.calls[call].route)];
        let paid = self.calls[call].as_ref().and_then(|of| of.paid);
        let number = u32::from(entry.number);
        if let Some(throttle) = &route.throttle {
            match outcome {
                AttemptOutcome::Success => count_success(&**throttle, number, paid.as_ref()),
                AttemptOutcome::Cancelled => count_unsuccessful(&**throttle, number),
                _ => {}
            }
        }
        if outcome != AttemptOutcome::Cancelled {
            self.calls[call] = None;
        }
    }

    /// The call and its route.
    pub(super) fn of(&mut self, call: usize) -> (&mut Call, &Route) {
        let recorded = &self.traffic.calls[call];
        let route = &self.routes[usize::from(recorded.route)];
        let clock = &self.clock;
        let of = self.calls[call].get_or_insert_with(|| Box::new(begin(recorded, route, clock)));
        (of, route)
    }

    /// Counts a decision. A call that decided otherwise is followed no further.
    pub(super) fn decided(&mut self, call: usize, at: usize, tested: Result<(), String>) {
        self.decisions.of += 1;
        let Err(tested) = tested else {
            self.decisions.same += 1;
            return;
        };
        let timed = &self.recording.entries[at];
        self.decisions.first.get_or_insert_with(|| Difference {
            at_s: timed.at as f64 / 1e9,
            attempt: timed.entry.number,
            recorded: says(timed.entry.outcome, timed.entry.delay, timed.entry.stopped),
            tested,
        });
        if let Some(call) = &mut self.calls[call] {
            call.progress = Progress::Left;
        }
    }

    /// An attempt failed: the machine decides.
    fn failed(&mut self, call: usize, at: usize) {
        let timed = &self.recording.entries[at];
        let entry = &timed.entry;
        let (now, reasons) = (self.clock.at(timed.at), &self.recording.reasons);
        let deadline = deadline(&self.traffic.calls[call], &self.clock);
        let (on_deadline, moves) = (self.on_deadline, self.moves);
        let (of, route) = self.of(call);
        let mut facts = facts(entry, reasons, now, deadline);
        facts.config_moved &= moves;
        let mut verdict = verdict(entry, reasons);
        if let Some(classes) = &route.classes {
            verdict = classes.verdict(verdict);
        }
        let throttle = route.throttle.as_deref();
        if let RouteWay::Retry(_) = route.way {
            facts.on_deadline = on_deadline;
        }
        let failed = if entry.cut_off {
            Some(FailedAttempt::of_cut_off(facts))
        } else {
            FailedAttempt::new(&facts, &verdict)
        };
        let Some(mut failed) = failed else {
            return self.decided(call, at, Err("nothing".to_owned()));
        };
        match (&mut of.progress, &route.way) {
            (Progress::Retry { driver, next }, RouteWay::Retry(strategy)) => {
                strategy.want(match (entry.delay, entry.stopped) {
                    (Some(delay), _) => delay,
                    (None, Some(StopReason::Deadline)) => Duration::MAX,
                    (None, _) => Duration::ZERO,
                });
                *next = match driver.failed(&mut failed, strategy, throttle, &()) {
                    Action::Wait(wait) => Some(wait),
                    Action::Ask(_) => return self.decided(call, at, Err("nothing yet".into())),
                    _ => None,
                };
            }
            (Progress::Hedge(driver), RouteWay::Hedge(policy)) => {
                driver.failed(&mut failed, policy, throttle);
            }
            _ => return self.decided(call, at, Err("the call went another way before".into())),
        }
        let record = &failed.record;
        if record.paid {
            of.paid = record.failure;
        }
        let delay_is_same = same_delay(entry.delay, record.delay);
        let tested = if record.outcome == entry.outcome
            && record.stopped == entry.stopped
            && delay_is_same
        {
            Ok(())
        } else {
            Err(says(record.outcome, record.delay, record.stopped))
        };
        self.decided(call, at, tested);
    }

    /// The call ended while it waited: what its throttle paid is returned.
    fn ended(&mut self, call: usize) {
        let (of, route) = self.of(call);
        if let Progress::Retry { driver, next } = &mut of.progress {
            *next = None;
            driver.unsent(route.throttle.as_deref());
        }
    }
}

fn begin(recorded: &Recorded, route: &Route, clock: &Clock) -> Call {
    let progress = match &route.way {
        RouteWay::Retry(_) => Progress::Retry {
            driver: RetryDriver::default(),
            next: None,
        },
        RouteWay::Hedge(policy) => {
            let idempotency = if recorded.idempotent {
                Idempotency::Idempotent
            } else {
                Idempotency::NotIdempotent
            };
            let mut driver = HedgeDriver::new(policy, idempotency);
            driver.machine.pending(clock.at(recorded.arrived), policy);
            Progress::Hedge(driver)
        }
    };
    Call {
        progress,
        paid: None,
        failed: false,
        lost: Vec::new(),
    }
}

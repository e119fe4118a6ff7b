//! A recording as a world: what its calls and attempts came to.

use std::sync::OnceLock;

use reattempt::record::{Recording, Timed, What};
use reattempt::{AttemptOutcome, StopReason};

use super::answers::Answers;
use super::judge::Judge;
use super::kinds::Kinds;
use super::traffic::{Recorded, Traffic, nanos};
use crate::load::{Answer, CallKind};
use crate::report::{Counts, Gate, Outcome};
use crate::scenario::{Backend, Latency, Pick, Scenario, Tier};
use crate::world::past::{Attempt, Call, Past};

impl Past {
    /// The world of a recording.
    pub(super) fn new(
        recording: &Recording,
        traffic: &Traffic,
        judge: &Judge,
        seed: u64,
    ) -> (Self, Scenario) {
        let mut scenario = scenario(seed);
        let mut kinds = Kinds::default();
        let known = std::mem::take(&mut scenario.answers);
        let mut answers = Answers::new(known, Kinds::count(traffic));
        let mut past = Self {
            calls: Vec::with_capacity(traffic.calls.len()),
            attempts: Vec::new(),
            samples: Vec::new(),
            by_length: Vec::new(),
        };
        let mut attempts: Vec<Attempt> = Vec::new();
        for recorded in &traffic.calls {
            let name = &recording.routes[usize::from(recorded.route)];
            let kind = kinds.of(recorded, name);
            let entries = || traffic.entries(recording, recorded);
            for timed in entries().filter(|timed| timed.entry.what == What::Attempt) {
                let took = nanos(timed.entry.took);
                let came = answers.came(&timed.entry, &recording.reasons, judge);
                if let Some(came) = came {
                    let sent = timed.at.saturating_sub(took);
                    past.samples.push((sent, took, came));
                }
                attempts.push((timed.entry.number, took, came));
            }
            attempts.sort_by_key(|attempt| attempt.0);
            attempts.dedup_by_key(|attempt| attempt.0);
            let from = past.attempts.len() as u32;
            past.attempts.append(&mut attempts);
            // Its caller, or its own limit of messages in the middle of an attempt.
            let left = |timed: &&Timed| match timed.entry.stopped {
                Some(StopReason::Cancelled) => true,
                Some(StopReason::Fatal) => {
                    timed.entry.outcome == AttemptOutcome::Cancelled && !timed.entry.cut_off
                }
                _ => false,
            };
            let left = entries().rfind(left);
            let call = Call {
                arrived: recorded.arrived,
                kind,
                timeout: limit(recorded, judge.timeout(recorded.route)),
                leaves: left.map(|left| left.at.saturating_sub(recorded.arrived)),
                attempts: from..past.attempts.len() as u32,
            };
            past.calls.push(call);
        }
        past.sort();
        (scenario.calls, scenario.answers) = (kinds.all, answers.all);
        if let Some(last) = past.calls.last() {
            scenario.duration = last.arrived + 1;
        }
        (past, scenario)
    }
}

/// The caller's own limit: not the one that its policy set.
fn limit(recorded: &Recorded, by_policy: Option<u64>) -> u64 {
    const NEARLY: u64 = 1_000_000;
    let Some(deadline) = recorded.deadline else {
        return u64::MAX;
    };
    let limit = deadline.saturating_sub(recorded.arrived);
    match by_policy {
        Some(by_policy) if limit.abs_diff(by_policy) <= NEARLY => u64::MAX,
        _ => limit,
    }
}

/// A scenario without arrivals of its own.
fn scenario(seed: u64) -> Scenario {
    let backend = Backend {
        servers: 0,
        queue: None,
        latency: Latency::Fixed(0.0),
        faults: Vec::new(),
    };
    Scenario {
        seed,
        duration: 1,
        warmup: 0,
        clients: 1,
        arrivals: vec![(0, 0.0)],
        calls: vec![CallKind::of_route("")],
        policies: Vec::new(),
        rtt: 0,
        tiers: vec![Tier {
            policy: None,
            backends: vec![backend],
        }],
        tiered: false,
        overload: 0,
        answers: vec![Answer {
            code: None,
            pushback_ms: None,
            paths: vec!["$".to_owned()],
        }],
        stops: false,
        pick: Pick::Random,
        inner_retries: OnceLock::new(),
    }
}

/// What was recorded, counted as a run is.
pub(super) fn recorded(recording: &Recording, traffic: &Traffic) -> Outcome {
    let mut scenario = scenario(0);
    let mut calls: Vec<&Recorded> = traffic.calls.iter().collect();
    calls.sort_by_key(|call| call.arrived);
    if let Some(last) = calls.last() {
        scenario.duration = last.arrived + 1;
    }
    let mut counts = Counts::new(&scenario);
    for call in &calls {
        counts.call(call.arrived);
    }
    for call in &calls {
        let mut ended = None;
        // Where a hedge was refused, the attempt that failed last has the same reason.
        let mut refused = traffic.entries(recording, call);
        let hedged = refused.any(|timed| timed.entry.what == What::Refused);
        for Timed { at, entry } in traffic.entries(recording, call) {
            let at = *at;
            if entry.what == What::Attempt {
                counts.attempt(0, entry.kind, at.saturating_sub(nanos(entry.took)));
            }
            let is_success = matches!(
                entry.outcome,
                AttemptOutcome::Success | AttemptOutcome::Committed
            );
            let was_due = if hedged {
                entry.what == What::Refused
            } else {
                entry.outcome == AttemptOutcome::Retry
            };
            if was_due && entry.stopped == Some(StopReason::Throttled) {
                counts.held_back(Gate::Throttled);
            }
            match entry.what {
                What::Attempt if is_success => ended = Some((at, StopReason::Success)),
                What::Refused => {}
                What::Attempt | What::Ended => {
                    ended = entry.stopped.map(|stopped| (at, stopped)).or(ended);
                }
            }
        }
        match ended {
            Some((at, stopped)) => counts.ended(call.arrived, at.max(call.arrived), stopped),
            None => counts.never(call.arrived),
        }
    }
    counts.outcome(&scenario)
}

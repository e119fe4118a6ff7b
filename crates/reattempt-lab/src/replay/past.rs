//! A recording as a world: what its calls and attempts came to.

use std::collections::HashMap;
use std::sync::OnceLock;

use reattempt::record::{Entry, Recording, Timed, What};
use reattempt::{AttemptOutcome, RetryReason, StopReason};

use super::judge::Judge;
use super::traffic::{Recorded, Traffic, nanos};
use crate::load::{Answer, AnswerCode, CallKind, RecordedFailure};
use crate::policy::{OUTCOME_SUCCESS, OUTCOME_TIMEOUT, answer_outcome};
use crate::report::{Counts, Gate, Outcome};
use crate::scenario::{Backend, Latency, Pick, Scenario, Tier};
use crate::world::past::{Attempt, Call, Past};

/// Kinds of call, each of which reads the policy.
const MOST_KINDS: usize = 1000;
/// Codes and pushbacks together; outcomes have 16 bits, and each has two.
const MOST_ANSWERS: usize = 10_000;

impl Past {
    /// The world of a recording.
    pub(super) fn new(
        recording: &Recording,
        traffic: &Traffic,
        judge: &Judge,
        seed: u64,
    ) -> (Self, Scenario) {
        let mut scenario = scenario(seed);
        let mut kinds = HashMap::new();
        let mut answers = HashMap::new();
        let mut past = Self {
            calls: Vec::with_capacity(traffic.calls.len()),
            attempts: Vec::new(),
            samples: Vec::new(),
            by_length: Vec::new(),
        };
        let mut attempts: Vec<Attempt> = Vec::new();
        scenario.calls.clear();
        for recorded in &traffic.calls {
            let name = &recording.routes[usize::from(recorded.route)];
            // Of very many routes the rest is as the first.
            let is_full = scenario.calls.len() >= MOST_KINDS;
            let kind = *kinds
                .entry((recorded.route, recorded.idempotent))
                .or_insert_with(|| {
                    if is_full {
                        return 0;
                    }
                    scenario.calls.push(CallKind {
                        idempotent: Some(recorded.idempotent),
                        ..CallKind::of_route(name)
                    });
                    (scenario.calls.len() - 1) as u16
                });
            let entries = || traffic.entries(recording, recorded);
            for timed in entries().filter(|timed| timed.entry.what == What::Attempt) {
                let took = nanos(timed.entry.took);
                let (entry, reasons) = (&timed.entry, &recording.reasons);
                let came = came(entry, reasons, judge, &mut answers, &mut scenario.answers);
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

/// The number of what an attempt came to; `None` if it was dropped.
fn came(
    entry: &Entry,
    reasons: &[RetryReason],
    judge: &Judge,
    known: &mut HashMap<(RecordedFailure, Option<u32>), u16>,
    answers: &mut Vec<Answer>,
) -> Option<u16> {
    match entry.outcome {
        AttemptOutcome::Success | AttemptOutcome::Committed => return Some(OUTCOME_SUCCESS),
        AttemptOutcome::Fatal | AttemptOutcome::Retry => {}
        // Cancelled, or unknown.
        _ => return None,
    }
    let mut key = judge.failure(entry, reasons);
    if let Some(came) = known.get(&key) {
        return Some(*came);
    }
    if answers.len() >= MOST_ANSWERS {
        return Some(OUTCOME_TIMEOUT);
    }
    // Of very many pushbacks the rest is left out.
    key.1 = key.1.filter(|_| answers.len() < Scenario::MOST_ANSWERS);
    let place = answers.len();
    let came = *known
        .entry(key)
        .or_insert_with_key(|(failure, pushback_ms)| {
            answers.push(Answer {
                code: Some(AnswerCode::Recorded(*failure)),
                pushback_ms: *pushback_ms,
                paths: vec!["$".to_owned()],
            });
            answer_outcome(place)
        });
    Some(came)
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

//! What came of a policy: counts, latencies, the course by second, and when it recovered.

mod finding;
mod json;
mod largest;
mod quantiles;
mod recovered;
mod seconds;

use std::collections::BTreeMap;

use reattempt::{AttemptKind, StopReason};
use serde::Serialize;

use crate::scenario::Scenario;
pub use finding::Finding;
pub use json::Report;
pub use quantiles::Quantiles;
use recovered::Recovered;
pub use seconds::Second;
use seconds::Seconds;

/// What held a further attempt back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Throttled,
    Budget,
}

/// The result of one policy. Serializes as the contract's `R`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Outcome {
    /// Counted calls.
    pub calls: u64,
    /// Attempts that were sent for them.
    pub attempts: u64,
    /// Their ratio.
    pub amplification: f64,
    /// The share of calls that ended well.
    pub success: f64,
    /// Of calls that ended well.
    pub latency_ms: Latencies,
    /// Calls by how they ended.
    pub ended: BTreeMap<&'static str, u64>,
    /// Attempts by kind.
    pub kinds: Kinds,
    /// Further attempts that were refused, by gate.
    pub held_back: BTreeMap<&'static str, u64>,
    /// The course, by arrival.
    pub by_second: Vec<Second>,
    /// Seconds from the end of the trouble until success was back for ten seconds; `None` if never.
    pub recovered_s: Option<f64>,
    /// The trouble ended in time, and success was not back for ten seconds until the end; false if
    /// there was no trouble, no call before or after it, or too little time after it. Not in the
    /// document.
    #[serde(skip)]
    pub never_recovered: bool,
    /// With tiers: each one's attempts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierOutcome>,
    /// What the lint says of the policy in this scenario.
    pub findings: Vec<Finding>,
    /// The mean time for which an attempt waited in a queue, in milliseconds; not in the document.
    #[serde(skip)]
    pub waited_ms: f64,
}

/// Times in milliseconds; `None` if no call ended well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Latencies {
    /// The median.
    pub p50: Option<f64>,
    /// The 90th percentile.
    pub p90: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The 99.9th percentile.
    pub p999: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
    /// The mean.
    pub mean: Option<f64>,
}

/// Attempts by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Kinds {
    /// First attempts.
    pub initial: u64,
    /// After a failure.
    pub retry: u64,
    /// Beside others in flight.
    pub hedge: u64,
    /// After a failure that no server saw.
    pub transparent: u64,
}

/// What one tier was sent for the counted calls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TierOutcome {
    /// Attempts at this tier.
    pub attempts: u64,
    /// By counted call.
    pub amplification: f64,
    /// First attempts at this tier: the calls that it was sent. Not in the document.
    #[serde(skip)]
    pub(crate) initial: u64,
}

/// What is counted during a run.
#[derive(Debug)]
pub(crate) struct Counts {
    calls: u64,
    /// By tier.
    attempts: Vec<u64>,
    /// The first ones of calls, by tier.
    initial: Vec<u64>,
    kinds: Kinds,
    latencies: Quantiles,
    /// By stop reason, in the order of [`REASONS`], then those that never ended.
    ended: [u64; REASONS.len() + 1],
    throttled: u64,
    budget: u64,
    seconds: Seconds,
    waited: u128,
    served: u64,
}

const REASONS: [StopReason; 12] = [
    StopReason::Success,
    StopReason::Fatal,
    StopReason::Attempts,
    StopReason::Strategy,
    StopReason::NotIdempotent,
    StopReason::Pushback,
    StopReason::Throttled,
    StopReason::Deadline,
    StopReason::Committed,
    StopReason::NotReplayable,
    StopReason::Cancelled,
    StopReason::Admission,
];

impl Counts {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            calls: 0,
            attempts: vec![0; scenario.tiers.len()],
            initial: vec![0; scenario.tiers.len()],
            kinds: Kinds::default(),
            latencies: Quantiles::default(),
            ended: [0; REASONS.len() + 1],
            throttled: 0,
            budget: 0,
            seconds: Seconds::new(scenario),
            waited: 0,
            served: 0,
        }
    }

    pub(crate) fn call(&mut self, at: u64) {
        self.calls += 1;
        self.seconds.call(at);
    }

    pub(crate) fn attempt(&mut self, tier: u8, kind: AttemptKind, at: u64) {
        self.attempts[usize::from(tier)] += 1;
        self.initial[usize::from(tier)] += u64::from(kind == AttemptKind::Initial);
        if tier > 0 {
            return;
        }
        match kind {
            AttemptKind::Initial => self.kinds.initial += 1,
            AttemptKind::Retry => self.kinds.retry += 1,
            AttemptKind::Hedge => self.kinds.hedge += 1,
            AttemptKind::Transparent => self.kinds.transparent += 1,
            _ => {}
        }
        self.seconds.attempt(at);
    }

    pub(crate) fn waited(&mut self, time: u64) {
        self.waited += u128::from(time);
        self.served += 1;
    }

    pub(crate) fn held_back(&mut self, gate: Gate) {
        match gate {
            Gate::Throttled => self.throttled += 1,
            Gate::Budget => self.budget += 1,
        }
    }

    pub(crate) fn ended(&mut self, arrived: u64, now: u64, how: StopReason) {
        let took = (how == StopReason::Success).then(|| now - arrived);
        if let Some(took) = took {
            self.latencies.add(took);
        }
        self.seconds.ended(arrived, took);
        if let Some(at) = REASONS.iter().position(|reason| *reason == how) {
            self.ended[at] += 1;
        }
    }

    /// A call that can never end.
    pub(crate) fn never(&mut self, arrived: u64) {
        self.ended[REASONS.len()] += 1;
        self.seconds.ended(arrived, None);
    }

    /// The result, without findings.
    pub(crate) fn outcome(mut self, scenario: &Scenario) -> Outcome {
        let ratio = |of: u64| match self.calls {
            0 => 0.0,
            calls => of as f64 / calls as f64,
        };
        let (mean, max) = (self.latencies.mean(), self.latencies.max());
        let mut millis = |share| self.latencies.quantile(share).map(|ns| ns as f64 / 1e6);
        let names = REASONS.iter().map(|reason| reason.name()).chain(["never"]);
        let ended = names
            .zip(self.ended)
            .filter(|(name, count)| *count > 0 || *name == "success");
        let held = [("throttled", self.throttled), ("budget", self.budget)];
        let by_second = self.seconds.rows();
        let recovered = recovered::recovered(scenario, &by_second);
        let tier = |(attempts, initial): (&u64, &u64)| TierOutcome {
            attempts: *attempts,
            amplification: ratio(*attempts),
            initial: *initial,
        };
        let of_tiers = self.attempts.iter().zip(&self.initial);
        let of_tiers = of_tiers.filter(|_| scenario.tiered);
        Outcome {
            calls: self.calls,
            attempts: self.attempts[0],
            amplification: ratio(self.attempts[0]),
            success: ratio(self.ended[0]),
            latency_ms: Latencies {
                p50: millis(0.5),
                p90: millis(0.9),
                p99: millis(0.99),
                p999: millis(0.999),
                max: mean.map(|_| max as f64 / 1e6),
                mean: mean.map(|mean| mean / 1e6),
            },
            ended: ended.collect(),
            kinds: self.kinds,
            held_back: held.into_iter().filter(|(_, count)| *count > 0).collect(),
            recovered_s: match recovered {
                Some(Recovered::After(seconds)) => Some(seconds),
                Some(Recovered::Never) | None => None,
            },
            never_recovered: recovered == Some(Recovered::Never),
            by_second,
            tiers: of_tiers.map(tier).collect(),
            findings: Vec::new(),
            waited_ms: match self.served {
                0 => 0.0,
                served => self.waited as f64 / served as f64 / 1e6,
            },
        }
    }
}

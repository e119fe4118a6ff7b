//! What happens to the policies: clients, arrivals, servers and their faults.

mod bounds;
mod calls;
pub(crate) mod latency;
mod read;
mod servers;

use std::sync::OnceLock;

use reattempt::config::{Fault, Faults, Form};

pub use latency::Latency;

use crate::load::{Answer, CallKind};
use crate::policy::Stack;

/// What the faults of a scenario document say of it, and how many are kept.
const FORM: Form = Form {
    most_faults: 100,
    most_warnings: 100,
    ..Form::new("the scenario")
};

/// A scenario that was read without faults.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub(crate) seed: u64,
    /// In nanoseconds.
    pub(crate) duration: u64,
    /// In nanoseconds.
    pub(crate) warmup: u64,
    pub(crate) clients: u32,
    /// From when on (in nanoseconds), and how many calls a second; in this order.
    pub(crate) arrivals: Vec<(u64, f64)>,
    pub(crate) calls: Vec<CallKind>,
    pub(crate) policies: Vec<(String, Stack)>,
    /// In nanoseconds.
    pub(crate) rtt: u64,
    pub(crate) tiers: Vec<Tier>,
    /// The document has `tiers`, and the result too.
    pub(crate) tiered: bool,
    /// What an attempt gets for which there is no place: an index of `answers`.
    pub(crate) overload: usize,
    /// Every failure that a server answers.
    pub(crate) answers: Vec<Answer>,
    pub(crate) stops: bool,
    pub(crate) pick: Pick,
    /// Found when the lint asks.
    pub(crate) inner_retries: OnceLock<InnerRetries>,
}

/// Whether tiers within the first one under the policy under test retry too.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InnerRetries {
    pub(crate) any: bool,
    /// Between the two there is a tier without marks, or the inner one has none.
    pub(crate) unmarked: bool,
    /// Policies of their own hedge, so that calls are faster than the servers.
    pub(crate) hedged: bool,
}

/// Servers that are called under one policy.
#[derive(Clone, Debug)]
pub(crate) struct Tier {
    /// Absent: the policy under test.
    pub(crate) policy: Option<Stack>,
    pub(crate) backends: Vec<Backend>,
}

/// One server process.
#[derive(Clone, Debug)]
pub(crate) struct Backend {
    pub(crate) servers: u32,
    /// How many attempts may wait.
    pub(crate) queue: Option<u32>,
    pub(crate) latency: Latency,
    pub(crate) faults: Vec<Trouble>,
}

/// A fault, from an instant to another (in nanoseconds).
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) kind: TroubleKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TroubleKind {
    Error {
        share: f64,
        /// An index of the scenario's answers.
        answer: usize,
        after_service: bool,
    },
    Silent {
        share: f64,
    },
    Slow {
        factor: f64,
    },
    Capacity {
        servers: u32,
    },
    Refuse,
    Limit {
        per_s: f64,
        burst: f64,
        answer: usize,
    },
}

/// How an attempt finds its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    Random,
    RoundRobin,
    LeastLoaded,
}

impl Scenario {
    /// The most backends of a scenario.
    pub const MOST_BACKENDS: usize = 10_000;
    /// The most calls a second.
    pub const MOST_PER_S: f64 = 1e7;
    /// The longest duration in seconds.
    pub const MOST_SECONDS: f64 = 1e6;
    /// The most client processes.
    pub const MOST_CLIENTS: u64 = 100_000;
    /// The most tiers.
    pub const MOST_TIERS: usize = 16;
    /// The most kinds of call.
    pub const MOST_KINDS: usize = 100;
    /// The most policies.
    pub const MOST_POLICIES: usize = 1000;
    /// The most counted seconds of all policies together: each has a row in the result.
    pub const MOST_ROWS: u64 = 2_000_000;
    /// The most faults of one backend.
    pub const MOST_FAULTS: usize = 1000;
    /// The most parts of one mix of latencies.
    pub const MOST_PARTS: usize = 100;
    /// The most different failures that servers answer: pairs of a code and a pushback.
    pub const MOST_ANSWERS: usize = 1000;

    /// Reads a scenario document.
    ///
    /// # Errors
    /// All its faults, each with its JSON path; those of a policy at that policy's place.
    pub fn parse(text: &(impl AsRef<[u8]> + ?Sized)) -> Result<Self, Faults> {
        read::read(text.as_ref())
    }

    /// The names of the policies, in the order of the document.
    pub fn policies(&self) -> impl Iterator<Item = &str> {
        self.policies.iter().map(|(name, _)| name.as_str())
    }

    /// What has no effect in the policies or deserves attention, and what the lab does not simulate
    /// of them. Each path is that of the scenario's document.
    pub fn warnings(&self) -> impl Iterator<Item = &Fault> {
        let tested = self.policies.iter().map(|(_, stack)| stack);
        let of_tiers = self.tiers.iter().filter_map(|tier| tier.policy.as_ref());
        tested.chain(of_tiers).flat_map(|stack| &stack.warnings)
    }

    /// The most rows that one policy may have.
    pub(crate) fn most_rows(&self) -> u64 {
        Self::MOST_ROWS / self.policies.len().max(1) as u64
    }

    /// The same scenario with another seed.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The policy that a call of this tier runs under.
    pub(crate) fn policy_of<'a>(&'a self, tier: usize, tested: &'a Stack) -> &'a Stack {
        self.tiers[tier].policy.as_ref().unwrap_or(tested)
    }

    /// The first tier that is called under the policy under test.
    pub(crate) fn tested_tier(&self) -> Option<usize> {
        self.tiers.iter().position(|tier| tier.policy.is_none())
    }

    /// How many processes call this tier: the clients, or the servers of the tier before it.
    pub(crate) fn callers(&self, tier: usize) -> usize {
        let outer = tier.checked_sub(1).map(|outer| &self.tiers[outer]);
        outer.map_or(self.clients as usize, |outer| outer.backends.len())
    }

    /// When the arrivals are above the first rate for the last time, and when for the first time.
    pub(crate) fn higher_rates(&self) -> Option<(u64, u64)> {
        let first = self.arrivals.first()?.1;
        // Calls arrive up to the duration only.
        let count = self
            .arrivals
            .partition_point(|(from, _)| *from < self.duration);
        let higher = |at: &usize| self.arrivals[*at].1 > first;
        let begins = (0..count).find(higher)?;
        let last = (0..count).rfind(higher)?;
        let ends = self.arrivals[..count].get(last + 1);
        let ends = ends.map_or(self.duration, |(from, _)| *from);
        Some((self.arrivals[begins].0, ends))
    }

    /// All faults of all servers.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = &Trouble> {
        let backends = self.tiers.iter().flat_map(|tier| &tier.backends);
        backends.flat_map(|backend| &backend.faults)
    }
}

//! Replays recordings of real calls ([`reattempt::record`]): what another policy would have done.
//!
//! Two questions, two answers. [`Replay::decisions`] follows the record: the policy's machines get
//! what the recorded attempts came to, in the recorded order and at the recorded times, and each
//! decision is compared with the recorded one. Under the policy that the calls ran under all are
//! the same. [`Replay::what_if`] runs the calls again, as a scenario does, among servers that
//! answer as they did.

mod answers;
mod facts;
mod fitting;
mod follow;
mod judge;
mod kinds;
mod learned;
mod left_out;
mod past;
mod sending;
#[cfg(test)]
mod tests;
mod traffic;
mod unbound;

use serde::Serialize;

use follow::Follower;
use judge::Judge;
use reattempt::config::{Fault, Faults};
use reattempt::reason::RFC_0049;
use reattempt::record::{Damage, Form, Recording, Timed};
use reattempt_http::reasons;
use traffic::{Traffic, nanos};

use crate::policy::{KvStrategy, PolicyText, Stack, first_of};
use crate::report::Outcome;
use crate::run::{Limits, message};
use crate::scenario::Scenario;
use crate::world::past::Past;
use crate::world::{Stopped, World};

/// A recording that can be replayed.
#[derive(Debug)]
pub struct Replay {
    recording: Recording,
    traffic: Traffic,
    from_s: u64,
}

/// How many recorded decisions a policy makes in the same way: those on failed attempts, those to
/// send another attempt, and those to refuse a hedge. A call that decided otherwise once is
/// followed no further, and the rest of its decisions count as other ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Decisions {
    /// As recorded.
    pub same: u64,
    /// All.
    pub of: u64,
    /// The first that is another one.
    pub first: Option<Difference>,
}

/// A decision that is another one than the recorded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Seconds since the start of the recording.
    pub at_s: f64,
    /// The number of the attempt in its call.
    pub attempt: u16,
    /// What was recorded.
    pub recorded: String,
    /// What the policy does.
    pub tested: String,
}

/// In nanoseconds.
const HOUR: u64 = 3_600_000_000_000;

impl Replay {
    /// Reads the files of a recording, in any order.
    ///
    /// # Errors
    /// Everything that is wrong with them, each with its offset.
    pub fn read(files: &[impl AsRef<[u8]>]) -> Result<Self, Vec<Damage>> {
        // Those that strategies look at.
        let statuses = (408..=504).map(reasons::of_status);
        let known: Vec<_> = statuses
            .chain(RFC_0049)
            .chain([reasons::HTTP_TIMEOUT])
            .collect();
        let mut recording = Recording::read(files, &known)?;
        // A recording may have begun long before its oldest file. In whole hours, so that the parts
        // of a retry budget's window begin when they did.
        let sent = |timed: &Timed| timed.at.saturating_sub(nanos(timed.entry.took));
        let start = recording.entries.iter().map(sent).min().unwrap_or(0);
        let from = start - start % HOUR;
        for timed in &mut recording.entries {
            timed.at -= from;
        }
        let end = recording.entries.iter().map(|timed| timed.at).max();
        if end.is_some_and(|end| end as f64 > Scenario::MOST_SECONDS * 1e9) {
            return Err(vec![Damage {
                file: 0,
                offset: 0,
                what: "spans more than a million seconds; replay fewer of its files at once",
            }]);
        }
        let traffic = Traffic::of(&recording);
        Ok(Self {
            recording,
            traffic,
            from_s: from / 1_000_000_000,
        })
    }

    /// The recording.
    #[must_use]
    pub const fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Seconds, in whole hours, from the start of the recording to where the replay begins, from
    /// which the times of its outcomes are counted.
    #[must_use]
    pub const fn from_s(&self) -> u64 {
        self.from_s
    }

    /// The calls that are replayed.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.traffic.calls.len()
    }

    /// Calls that are left out, because the record does not have their beginning.
    #[must_use]
    pub const fn incomplete(&self) -> usize {
        self.traffic.incomplete
    }

    /// The policy that the calls ran under; `None` if the record does not have it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn own_policy(&self) -> Option<Result<PolicyText, Faults>> {
        let (form, text) = self.recording.policy.as_ref()?;
        let text = text.clone();
        Some(match form {
            Form::HttpPolicy => PolicyText::HttpPolicy(text).checked(),
            Form::ServiceConfig => PolicyText::ServiceConfig(text).checked(),
            Form::Kv => PolicyText::of_document(&format!("{{\"kv\": {text}}}")),
        })
    }

    /// Warnings of what a recording has too many of (routes, different failures, and different
    /// delays that servers asked for), and of each recorded route that this policy does not have: a
    /// replay finds routes by name, and takes the default for the rest. A route without a name is
    /// found by its number, so there is one as well if another route has that number. None of a
    /// service config, whose entries are named by what they match.
    #[must_use]
    pub fn warnings(&self, policy: &PolicyText) -> Vec<Fault> {
        let mut warnings = self.left_out(policy);
        warnings.extend(self.unbound(policy));
        first_of(warnings)
    }

    /// How many of the recorded decisions this policy makes too. Throttles start full.
    ///
    /// # Errors
    /// The policy cannot be read.
    pub fn decisions(&self, policy: &PolicyText) -> Result<Decisions, Faults> {
        let recorded = self.own_policy().and_then(Result::ok);
        let own = recorded.as_ref() == Some(policy);
        // Only key-value calls are about a configuration that moves. The record does not say that
        // it did, but then there was no delay.
        let moves = match recorded.as_ref().unwrap_or(policy) {
            PolicyText::Kv(KvStrategy::Constant { delay, .. }) => !delay.is_zero(),
            PolicyText::Kv(_) => true,
            PolicyText::HttpPolicy(_) | PolicyText::ServiceConfig(_) => false,
        };
        let checked = policy.clone().checked()?;
        let follower = Follower::new(&self.recording, &self.traffic, &checked, own, moves);
        let mut decisions = follower.map(Follower::run).unwrap_or_default();
        if let Some(first) = &mut decisions.first {
            first.at_s += self.from_s as f64;
        }
        Ok(decisions)
    }

    /// What was recorded, counted as a run is.
    #[must_use]
    pub fn recorded(&self) -> Outcome {
        past::recorded(&self.recording, &self.traffic)
    }

    /// What the recorded calls would have come to under this policy, if servers had answered as
    /// they did: an attempt that was recorded comes to the same again, and another one to what one
    /// of the attempts of that time came to.
    ///
    /// # Errors
    /// The policy cannot be read, or the run needs more events than it may.
    pub fn what_if(
        &self,
        policy: &PolicyText,
        seed: u64,
        limits: &Limits,
    ) -> Result<Outcome, Faults> {
        let policy = Stack::of(policy.clone().checked()?);
        let recorded = self.own_policy().and_then(Result::ok);
        let judge = Judge::new(recorded.as_ref(), &policy, &self.recording.routes);
        let (past, scenario) = Past::new(&self.recording, &self.traffic, &judge, seed);
        let world = World::new(&scenario, &policy, Some(&past)).ok_or(Stopped::Policy);
        let counts = world.and_then(|world| world.run(&mut limits.max_events.clone()));
        let counts = counts.map_err(|stopped| {
            let fault = Fault::new("$", message(stopped, limits));
            Faults::new("the replay", vec![fault])
        })?;
        Ok(counts.outcome(&scenario))
    }
}

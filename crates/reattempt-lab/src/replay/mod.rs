//! Replays recordings of real calls ([`reattempt::record`]): what another policy would have done.
//!
//! Two questions, two answers. [`Replay::decisions`] follows the record: the policy's machines get
//! what the recorded attempts came to, in the recorded order and at the recorded times, and each
//! decision is compared with the recorded one. Under the policy that the calls ran under all are
//! the same.

mod fitting;
mod follow;
mod traffic;

use serde::Serialize;

use follow::Follower;
use reattempt::config::Faults;
use reattempt::record::{Form, Recording};
use traffic::Traffic;

use crate::policy::PolicyText;

/// A recording that can be replayed.
#[derive(Debug)]
pub struct Replay {
    recording: Recording,
    traffic: Traffic,
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

impl Replay {
    /// Sorts a recording by calls.
    #[must_use]
    pub fn new(recording: Recording) -> Self {
        let traffic = Traffic::of(&recording);
        Self { recording, traffic }
    }

    /// The recording.
    #[must_use]
    pub const fn recording(&self) -> &Recording {
        &self.recording
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

    /// How many of the recorded decisions this policy makes too. Throttles start full.
    ///
    /// # Errors
    /// The policy cannot be read.
    pub fn decisions(&self, policy: &PolicyText) -> Result<Decisions, Faults> {
        let own = matches!(self.own_policy(), Some(Ok(own)) if own == *policy);
        let checked = policy.clone().checked()?;
        let follower = Follower::new(&self.recording, &self.traffic, &checked, own);
        Ok(follower.map(Follower::run).unwrap_or_default())
    }
}

//! A policy and the parts of a stack that its text cannot say.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use std::time::Instant;

use reattempt::admission::{Admission, AdmissionSettings};
use reattempt::config::{Fault, Json, Members, Place, boolean};
use reattempt::health::{HealthPolicy, Pool};
use reattempt::throttle::{Both, GovernorSettings};
use reattempt::{HedgePolicy, RetryThrottle};
use serde_json::Value;

use super::{Own, Parsed, PolicyText, Simulated, as_value};

/// Makes the hedge policy of a process.
#[derive(Clone)]
pub(crate) struct HedgeMaker(pub(crate) Arc<dyn Fn() -> HedgePolicy + Send + Sync>);

impl fmt::Debug for HedgeMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HedgeMaker")
    }
}

impl PartialEq for HedgeMaker {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A policy of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stack {
    pub(crate) policy: PolicyText,
    /// Where it stands in the scenario; `$` if it does not.
    pub(crate) path: String,
    /// Of its text, with the paths of the scenario.
    pub(crate) warnings: Vec<Fault>,
    /// Its processes mark failures of calls that have given up, and heed such marks.
    pub(crate) hop_marks: bool,
    /// Each process has one instead of the policy's throttle.
    governor: Option<GovernorSettings>,
    /// Each process asks one before it sends a call.
    admission: Option<AdmissionSettings>,
    /// Each process sends to healthy backends with little load, instead of the scenario's pick: of
    /// the stack, else of the policy's text.
    health: Option<HealthPolicy>,
    /// The text of the member `with`.
    with: Option<String>,
    /// Its processes hedge so, whatever the text says.
    pub(crate) hedge: Option<HedgeMaker>,
}

impl Stack {
    /// The policy alone.
    pub(crate) fn of(policy: PolicyText) -> Self {
        Self {
            policy,
            path: "$".to_owned(),
            warnings: Vec::new(),
            hop_marks: false,
            governor: None,
            admission: None,
            health: None,
            with: None,
            hedge: None,
        }
    }

    /// The same parts around another policy.
    pub(crate) fn around(&self, policy: PolicyText) -> Self {
        Self {
            policy,
            path: self.path.clone(),
            warnings: Vec::new(),
            hop_marks: self.hop_marks,
            governor: self.governor,
            admission: self.admission,
            health: self.health.clone(),
            with: self.with.clone(),
            hedge: None,
        }
    }

    /// The policy as it stands in a scenario, with its parts.
    pub(crate) fn document(&self) -> Value {
        let mut document = self.policy.document();
        if let Some(with) = &self.with {
            document["with"] = as_value(with);
        }
        document
    }

    /// True if a governor takes the place of the policy's throttle.
    pub(crate) const fn is_governed(&self) -> bool {
        self.governor.is_some()
    }

    /// True if each process knows the health of the backends that it calls.
    pub(crate) const fn has_health(&self) -> bool {
        self.health.is_some()
    }

    /// Gives a process its governor, which all kinds of its calls share.
    pub(crate) fn govern(&self, process: &mut [Own], by: &Simulated) {
        let Some(settings) = self.governor else {
            return;
        };
        let clock = by.clock.clone();
        let governor = Arc::new(settings.make().with_clock(move || clock.now()));
        for own in process {
            let governor: Arc<dyn RetryThrottle> = governor.clone();
            own.throttle = Some(match &own.budget {
                Some(budget) => Arc::new(Both(Arc::clone(budget), governor)),
                None => governor,
            });
        }
    }

    /// The admission of a process: of the stack, else of the policy's text.
    pub(crate) fn admission(&self, parsed: &Parsed, by: &Simulated) -> Option<Arc<Admission>> {
        if let Some(settings) = self.admission {
            let clock = by.clock.clone();
            let admission = settings.make().with_clock(move || clock.now());
            return Some(Arc::new(admission.randomness(by.randomness.clone())));
        }
        match parsed {
            Parsed::Http(policies) => Some(policies.admission())
                .filter(|own| !own.is_off())
                .cloned(),
            Parsed::Grpc(_) | Parsed::Kv(_) => None,
        }
    }

    /// What a process knows of this many backends.
    pub(crate) fn pool(&self, backends: usize, by: &Simulated, now: Instant) -> Option<Pool> {
        let policy = self.health.clone()?.randomness(by.randomness.clone());
        Some(Pool::new(policy, backends, now))
    }

    /// Reads a policy with its member `with`.
    pub(crate) fn read(place: &mut Place<'_>, json: Json<'_>) -> Option<Self> {
        let policy = PolicyText::read(place, json);
        let (mut marks, mut governor, mut admission, mut health) = (false, None, None, None);
        let with = json.get("with").filter(|json| !json.is_null());
        if let Some(json) = with {
            let mut place = place.field("with");
            let parts = Members::any(&mut place, json)?;
            for (name, json) in parts.iter() {
                let mut place = place.field(name);
                match name {
                    "hop_marks" => marks = boolean(&mut place, json)?,
                    "governor" => governor = GovernorSettings::read(&mut place, json),
                    "admission" => admission = AdmissionSettings::read(&mut place, json),
                    "health" => health = HealthPolicy::read(&mut place, json),
                    _ => place.wrong("is not a part that a stack can have in this version"),
                }
            }
        }
        let policy = policy?;
        Some(Self {
            policy: policy.text,
            path: place.path(),
            warnings: policy.warnings,
            hop_marks: marks,
            governor,
            admission,
            health: health.or(policy.health),
            with: with.map(|json| json.text().to_owned()),
            hedge: None,
        })
    }
}

impl Deref for Stack {
    type Target = PolicyText;

    fn deref(&self) -> &PolicyText {
        &self.policy
    }
}

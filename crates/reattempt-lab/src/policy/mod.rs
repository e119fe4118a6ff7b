//! The policies under test: read by the parsers that the layers use.

mod as_value;
mod classes;
mod kv;
mod protocol;
mod routes;
mod simulated;
mod stack;
mod table;
mod unsimulated;

use std::sync::Arc;

use crate::load::CallKind;
use reattempt::config::{Fault, Faults, Form, Json, Members, Place};
use reattempt::health::HealthPolicy;
use reattempt::{OnDeadline, RetryStrategy};
pub use reattempt_couchbase::KvStrategy;
use reattempt_grpc::service_config::{self, ServiceConfig};
use reattempt_http::policy::{self as http_policy, HttpPolicies};
use serde_json::{Value, json};

pub(crate) use as_value::as_value;
pub(crate) use classes::Classes;
pub(crate) use protocol::{Outcome, Protocol};
pub(crate) use routes::Routes;
pub(crate) use simulated::{Clock, Simulated};
pub(crate) use stack::{HedgeMaker, Stack};
pub(crate) use table::{
    OUTCOME_REFUSED, OUTCOME_SUCCESS, OUTCOME_TIMEOUT, Own, Table, Way, answer_outcome,
};

/// A policy as it was written, and checked.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyText {
    /// gRPC's service config (A6).
    ServiceConfig(String),
    /// An HTTP policy of `reattempt-http`.
    HttpPolicy(String),
    /// A strategy for the key-value service.
    Kv(KvStrategy),
}

/// A policy of one process, with throttles and budgets of its own.
#[derive(Clone, Debug)]
pub(crate) enum Parsed {
    Grpc(ServiceConfig),
    Http(Box<HttpPolicies>),
    Kv(Arc<dyn RetryStrategy>),
}

/// A policy of a document.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) text: PolicyText,
    /// With the paths of the document.
    pub(crate) warnings: Vec<Fault>,
    /// The member `health` of an HTTP policy.
    pub(crate) health: Option<HealthPolicy>,
}

const FORM: Form = Form::new("the policy");

/// The most warnings of a policy that are listed.
const MOST_WARNINGS: usize = 100;

impl PolicyText {
    const FORMS: [&'static str; 3] = ["service_config", "http_policy", "kv"];

    /// The policy, if it can be read.
    ///
    /// # Errors
    /// All its faults.
    pub fn checked(self) -> Result<Self, Faults> {
        self.parse(&Simulated::fixed(0.5))?;
        Ok(self)
    }

    /// The policy as it stands in a scenario.
    pub(crate) fn document(&self) -> Value {
        match self {
            Self::ServiceConfig(text) => json!({ "service_config": as_value(text) }),
            Self::HttpPolicy(text) => json!({ "http_policy": as_value(text) }),
            Self::Kv(strategy) => json!({ "kv": kv::document(*strategy) }),
        }
    }

    /// Reads a policy of a file for a replay, and its warnings: a document as it stands in a
    /// scenario, or the text of an HTTP policy or of a service config itself.
    ///
    /// # Errors
    /// All its faults, each with its path.
    pub fn of_file(text: &str) -> Result<(Self, Vec<Fault>), Faults> {
        let json = as_value(text);
        let has = |member: &&str| json.get(member).is_some();
        let policy = if Self::FORMS.iter().any(has) {
            let (read, mut warnings) = FORM.read(text, Self::read)?;
            warnings.extend(read.warnings);
            for path in ["/with", "/http_policy/health"] {
                warnings.extend(not_replayed(&json, path));
            }
            return Ok((read.text, warnings));
        } else if ["methodConfig", "retryThrottling", "loadBalancingConfig"]
            .iter()
            .any(has)
        {
            Self::ServiceConfig(text.to_owned()).checked()
        } else {
            Self::HttpPolicy(text.to_owned()).checked()
        }?;
        let mut warnings = policy.warnings();
        warnings.extend(not_replayed(&json, "/health"));
        Ok((policy, warnings))
    }

    /// What has no effect or deserves attention, and what the lab does not simulate: the first 100
    /// of a policy that can be read.
    #[must_use]
    pub fn warnings(&self) -> Vec<Fault> {
        self.read_whole()
            .map_or(Vec::new(), |(_, warnings)| warnings)
    }

    /// The policy with its warnings.
    fn read_whole(&self) -> Result<(Parsed, Vec<Fault>), Faults> {
        let (parsed, mut warnings) = self.parse_with_warnings(&Simulated::fixed(0.5))?;
        let unsimulated = unsimulated::members(self);
        // One warning of a member is enough: what it does outside of the lab does not matter there.
        warnings.retain(|warning| unsimulated.iter().all(|of| of.path != warning.path));
        warnings.extend(unsimulated);
        Ok((parsed, first_of(warnings)))
    }

    /// The classes of the routes with these names.
    pub(crate) fn classes_of(&self, routes: &[String]) -> Option<Vec<Classes>> {
        let parsed = self.parse(&Simulated::fixed(0.5)).ok()?;
        let by_name = Routes::of(&parsed);
        let classes = |name| Classes::new(self, &by_name, &CallKind::of_route(name));
        Some(routes.iter().map(|name| classes(name)).collect())
    }

    /// Reads a document as it stands in a scenario: `{"http_policy": …}` and its likes.
    ///
    /// # Errors
    /// All its faults, each with its path.
    pub fn of_document(text: &str) -> Result<Self, Faults> {
        Ok(FORM.read(text, Self::read)?.0.text)
    }

    /// Reads `{"service_config": …}` and its likes.
    pub(crate) fn read(place: &mut Place<'_>, json: Json<'_>) -> Option<Read> {
        let [config, policy, kv] = Self::FORMS;
        let members = Members::of(place, json, &[config, policy, kv, "with"])?;
        let forms = Self::FORMS.map(|form| members.get(form).is_some());
        if forms.iter().filter(|form| **form).count() != 1 {
            return place.refuse("must have exactly one of service_config, http_policy, kv");
        }
        let read = members.optional(place, kv, |place, json| kv::read(place, json).map(Self::Kv));
        if forms[2] {
            return Some(Read {
                text: read?,
                warnings: Vec::new(),
                health: None,
            });
        }
        let (name, made): (_, fn(String) -> Self) = if forms[0] {
            (config, Self::ServiceConfig)
        } else {
            (policy, Self::HttpPolicy)
        };
        let json = members.get(name)?;
        let text = made(json.text().to_owned());
        let mut place = place.field(name);
        let (parsed, warnings) = match text.read_whole() {
            Ok(read) => read,
            Err(refused) => {
                place.include(&refused);
                return None;
            }
        };
        let path = place.path();
        let has_health = json.get("health").is_some_and(|health| !health.is_null());
        let health = match parsed {
            Parsed::Http(policies) if has_health => Some(policies.health().load()),
            _ => None,
        };
        Some(Read {
            text,
            warnings: warnings.into_iter().map(|one| one.below(&path)).collect(),
            health: health.map(Arc::unwrap_or_clone),
        })
    }

    /// The policy of one process; its jitter and its clock are those of the simulation.
    pub(crate) fn parse(&self, by: &Simulated) -> Result<Parsed, Faults> {
        Ok(self.parse_with_warnings(by)?.0)
    }

    fn parse_with_warnings(&self, by: &Simulated) -> Result<(Parsed, Vec<Fault>), Faults> {
        Ok(match self {
            Self::ServiceConfig(text) => {
                let options = service_config::Options::new()
                    .randomness(by.randomness.clone())
                    .on_deadline(OnDeadline::Cap)
                    .log_warnings(false);
                let config = ServiceConfig::parse_with(text, &options)?;
                let warnings = config.warnings().to_vec();
                (Parsed::Grpc(config), warnings)
            }
            Self::HttpPolicy(text) => {
                let clock = by.clock.clone();
                let options = http_policy::Options::new()
                    .randomness(by.randomness.clone())
                    .clock(move || clock.now());
                let read = HttpPolicies::parse_with(text, &options)?;
                (Parsed::Http(Box::new(read.policies)), read.warnings)
            }
            Self::Kv(strategy) => (Parsed::Kv(kv::make(*strategy)), Vec::new()),
        })
    }

    /// The length of its text in bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::ServiceConfig(text) | Self::HttpPolicy(text) => text.len(),
            Self::Kv(_) => 0,
        }
    }

    pub(crate) const fn protocol(&self) -> Protocol {
        match self {
            Self::ServiceConfig(_) => Protocol::Grpc,
            Self::HttpPolicy(_) => Protocol::Http,
            Self::Kv(_) => Protocol::Kv,
        }
    }
}

/// As many as are listed.
pub(crate) fn first_of(mut warnings: Vec<Fault>) -> Vec<Fault> {
    let more = warnings.len().saturating_sub(MOST_WARNINGS);
    if more > 0 {
        warnings.truncate(MOST_WARNINGS);
        let what = format!("has {more} more warnings than are listed");
        warnings.push(Fault::new("$", what));
    }
    warnings
}

/// A warning of a member that a replay does not look at.
fn not_replayed(json: &Value, pointer: &str) -> Option<Fault> {
    json.pointer(pointer).filter(|member| !member.is_null())?;
    let path = format!("${}", pointer.replace('/', "."));
    Some(Fault::new(path, "is not simulated by a replay"))
}

//! The policies under test: read by the parsers that the layers use.

mod protocol;
mod table;

use std::sync::Arc;

use reattempt::backoff::{Backoff, Randomness};
use reattempt::config::{Fault, Faults, Json, Members, Place, integer, one_of};
use reattempt::strategy::{BestEffort, MaxAttempts, NeverRetry};
use reattempt::{OnDeadline, RetryStrategy};
use reattempt_couchbase::{ErrorMapStrategy, ErrorMaps};
use reattempt_grpc::service_config::{self, ServiceConfig};
use reattempt_http::policy::{self as http_policy, HttpPolicies};

pub(crate) use protocol::{Outcome, Protocol};
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

/// The strategies that a document can name for the key-value service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvStrategy {
    /// RFC 0049's best effort.
    BestEffort,
    /// RFC 0049's fail fast.
    FailFast,
    /// RFC 0013's error map. The simulated servers have none, so it acts as best effort.
    ErrorMap,
    /// A constant delay.
    Constant {
        /// In milliseconds.
        delay_ms: u64,
        /// The first included.
        max_attempts: u32,
    },
}

impl KvStrategy {
    fn make(self) -> Arc<dyn RetryStrategy> {
        match self {
            Self::BestEffort => Arc::new(BestEffort::new()),
            Self::FailFast => Arc::new(NeverRetry),
            Self::ErrorMap => Arc::new(ErrorMapStrategy::new(ErrorMaps::new())),
            Self::Constant {
                delay_ms,
                max_attempts,
            } => {
                let delay = std::time::Duration::from_millis(delay_ms);
                Arc::new(MaxAttempts::new(max_attempts, Backoff::constant(delay)))
            }
        }
    }

    fn read(place: &mut Place<'_>, json: Json<'_>) -> Option<Self> {
        if !json.is_object() {
            let names = [
                ("best_effort", Self::BestEffort),
                ("fail_fast", Self::FailFast),
                ("error_map", Self::ErrorMap),
            ];
            return one_of(place, json, &names);
        }
        let members = Members::of(place, json, &["constant_ms", "max_attempts"])?;
        let delay = members.required(place, "constant_ms", "milliseconds", |place, json| {
            integer(
                place,
                json,
                "milliseconds from 0 to 1000000000",
                0,
                1_000_000_000,
            )
        });
        let max = members.required(place, "max_attempts", "a number", |place, json| {
            integer(
                place,
                json,
                "a whole number from 1 to 1000000",
                1,
                1_000_000,
            )
        });
        Some(Self::Constant {
            delay_ms: delay?,
            max_attempts: u32::try_from(max?).ok()?,
        })
    }
}

/// A policy of one process, with throttles and budgets of its own.
#[derive(Clone, Debug)]
pub(crate) enum Parsed {
    Grpc(ServiceConfig),
    Http(HttpPolicies),
    Kv(Arc<dyn RetryStrategy>),
}

impl PolicyText {
    const FORMS: [&'static str; 3] = ["service_config", "http_policy", "kv"];

    /// Reads `{"service_config": …}` and its likes. Faults of the policy itself are added to
    /// `others`.
    pub(crate) fn read(
        place: &mut Place<'_>,
        json: Json<'_>,
        others: &mut Vec<Fault>,
    ) -> Option<Self> {
        let [config, policy, kv] = Self::FORMS;
        let members = Members::of(place, json, &[config, policy, kv, "with"])?;
        let forms = Self::FORMS.map(|form| members.get(form).is_some());
        if forms.iter().filter(|form| **form).count() != 1 {
            return place.refuse("must have exactly one of service_config, http_policy, kv");
        }
        if let Some(json) = members.get("with") {
            let mut place = place.field("with");
            let with = Members::any(&mut place, json)?;
            for (name, _) in with.iter() {
                let what = "is not a part that a stack can have in this version";
                place.field(name).wrong(what);
            }
        }
        let read = members.optional(place, kv, |place, json| {
            KvStrategy::read(place, json).map(Self::Kv)
        });
        if forms[2] {
            return read;
        }
        let (name, made): (_, fn(String) -> Self) = if forms[0] {
            (config, Self::ServiceConfig)
        } else {
            (policy, Self::HttpPolicy)
        };
        let text = made(members.get(name)?.text().to_owned());
        let place = place.field(name);
        match text.parse(&Randomness::Fixed(0.5)) {
            Ok(_) => Some(text),
            Err(faults) => {
                let faults = faults.faults().iter().cloned();
                others.extend(faults.map(|fault| fault.below(&place.path())));
                None
            }
        }
    }

    /// The policy of one process; its jitter draws from `randomness`.
    pub(crate) fn parse(&self, randomness: &Randomness) -> Result<Parsed, Faults> {
        Ok(match self {
            Self::ServiceConfig(text) => {
                let options = service_config::Options::new()
                    .randomness(randomness.clone())
                    .on_deadline(OnDeadline::Cap);
                Parsed::Grpc(ServiceConfig::parse_with(text, &options)?)
            }
            Self::HttpPolicy(text) => {
                let options = http_policy::Options::new().randomness(randomness.clone());
                Parsed::Http(HttpPolicies::parse_with(text, &options)?.policies)
            }
            Self::Kv(strategy) => Parsed::Kv(strategy.make()),
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

//! Knobs: numbers of a policy, and their bounds.

use serde::Serialize;
use serde_json::{Value, json};

/// The most values of one knob.
const MOST_VALUES: usize = 6;

/// A number of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Knob {
    /// The most attempts of a call, the first included.
    Attempts,
    /// The delay before the first retry, in seconds.
    Backoff,
    /// The delay before a hedge, in seconds.
    HedgeDelay,
    /// The hedges for a hundred calls.
    HedgeShare,
    /// The tokens of a throttle.
    Throttle,
}

/// A knob, and the bounds of its values, both included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// What varies.
    pub knob: Knob,
    /// The smallest value.
    pub from: f64,
    /// The largest value.
    pub to: f64,
}

impl Knob {
    const ALL: [(&'static str, Self); 5] = [
        ("attempts", Self::Attempts),
        ("backoff", Self::Backoff),
        ("hedge-delay", Self::HedgeDelay),
        ("hedge-share", Self::HedgeShare),
        ("throttle", Self::Throttle),
    ];

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find(|(_, knob)| *knob == self)
            .map_or("", |(name, _)| name)
    }

    /// Where the knob is: in every route, and once for all.
    fn places(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Attempts => (
                &[
                    "/retry/maxAttempts",
                    "/hedge/maxAttempts",
                    "/retryPolicy/maxAttempts",
                    "/hedgingPolicy/maxAttempts",
                ],
                &["/kv/max_attempts"],
            ),
            Self::Backoff => (
                &["/retry/backoff/initial", "/retryPolicy/initialBackoff"],
                &["/kv/constant_ms"],
            ),
            Self::HedgeDelay => (&["/hedge/delay", "/hedgingPolicy/hedgingDelay"], &[]),
            Self::HedgeShare => (&["/hedge/budgetPercent"], &[]),
            Self::Throttle => (&[], &["/service_config/retryThrottling/maxTokens"]),
        }
    }

    /// The member that a policy without the knob lacks; `None` if policies of its form have none.
    pub(super) fn member(self, policy: &Value) -> Option<&'static str> {
        let hedges = routes(&mut policy.clone()).iter().any(|route| {
            ["hedge", "hedgingPolicy"]
                .iter()
                .any(|name| !route[name].is_null())
        });
        let form = policy.as_object()?.keys().next()?;
        Some(match (self, form.as_str(), hedges) {
            (Self::Attempts, "http_policy", false) => "retry.maxAttempts",
            (Self::Attempts, "http_policy", true) => "hedge.maxAttempts",
            (Self::Attempts, "service_config", false) => "retryPolicy.maxAttempts",
            (Self::Attempts, "service_config", true) => "hedgingPolicy.maxAttempts",
            (Self::Attempts, "kv", _) => "kv.max_attempts",
            (Self::Backoff, "http_policy", _) => "retry.backoff.initial",
            (Self::Backoff, "service_config", _) => "retryPolicy.initialBackoff",
            (Self::Backoff, "kv", _) => "kv.constant_ms",
            (Self::HedgeDelay, "http_policy", _) => "hedge.delay",
            (Self::HedgeDelay, "service_config", _) => "hedgingPolicy.hedgingDelay",
            (Self::HedgeShare, "http_policy", _) => "hedge.budgetPercent",
            (Self::Throttle, "http_policy", _) => "throttle with maxTokens",
            (Self::Throttle, "service_config", _) => "retryThrottling.maxTokens",
            _ => return None,
        })
    }

    /// Sets it everywhere where the policy has it. False if it has it nowhere.
    pub(super) fn set(self, policy: &mut Value, value: f64) -> bool {
        let (of_routes, of_all) = self.places();
        let mut found = false;
        let mut put = |at: &mut Value| {
            *at = match self {
                Self::Backoff if at.is_number() => json!((value * 1000.0).round() as u64),
                // Durations are texts, as in the protocol, also in place of a delay that learns.
                Self::Backoff | Self::HedgeDelay => json!(format!("{value}s")),
                _ if value.fract() == 0.0 => json!(value as u64),
                _ => json!(value),
            };
            found = true;
        };
        for place in of_all {
            if let Some(at) = policy.pointer_mut(place) {
                put(at);
            }
        }
        if self == Self::Throttle {
            let named = policy.pointer_mut("/http_policy/throttles");
            for (_, throttle) in named.and_then(Value::as_object_mut).into_iter().flatten() {
                if let Some(at) = throttle.get_mut("maxTokens") {
                    put(at);
                }
            }
        }
        for route in routes(policy) {
            for place in of_routes {
                if let Some(at) = route.pointer_mut(place) {
                    put(at);
                }
            }
        }
        found
    }

    /// Values are multiples of one by this: whole numbers, tenths, or milliseconds.
    const fn steps(self) -> f64 {
        match self {
            Self::Attempts | Self::Throttle => 1.0,
            Self::HedgeShare => 10.0,
            Self::Backoff | Self::HedgeDelay => 1e3,
        }
    }

    fn rounded(self, value: f64) -> f64 {
        (value * self.steps()).round() / self.steps()
    }
}

/// The routes of a policy, the default included.
fn routes(policy: &mut Value) -> Vec<&mut Value> {
    let mut found = Vec::new();
    let members = |value| Value::as_object_mut(value).into_iter().flatten();
    for (form, text) in members(policy) {
        let is_http = form == "http_policy";
        for (name, part) in members(text) {
            if is_http && name == "default" {
                found.push(part);
            } else if name == if is_http { "routes" } else { "methodConfig" } {
                found.extend(part.as_array_mut().into_iter().flatten());
            }
        }
    }
    found
}

impl Range {
    /// Reads `attempts=1..5`; back-off and hedge delay are in seconds.
    ///
    /// # Errors
    /// What is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "must be a knob and its bounds, such as attempts=1..5";
        let (name, bounds) = text.split_once('=').ok_or(FORM)?;
        let names = Knob::ALL.map(|(name, _)| name).join(", ");
        let knob = Knob::ALL.iter().find(|(known, _)| *known == name);
        let (_, knob) = knob.ok_or_else(|| format!("{name} is no knob: there are {names}"))?;
        let (from, to) = bounds.split_once("..").ok_or(FORM)?;
        let number = |text: &str| text.parse::<f64>().map_err(|_| FORM);
        let (from, to) = (number(from)?, number(to)?);
        if !(from >= 0.001 && to <= 1e6 && from <= to) {
            return Err("the bounds must be from 0.001 to 1e6, the smaller one first".to_owned());
        }
        // Both bounds are tried.
        if [from, to] != [from, to].map(|bound| knob.rounded(bound)) {
            let step = 1.0 / knob.steps();
            return Err(format!("the bounds of {name} must be multiples of {step}"));
        }
        Ok(Self {
            knob: *knob,
            from,
            to,
        })
    }

    /// All whole numbers of a short range, else steps of one factor.
    pub(super) fn values(&self) -> Vec<f64> {
        let whole = matches!(self.knob, Knob::Attempts | Knob::Throttle);
        let count = self.to.floor() - self.from.ceil() + 1.0;
        if whole && count <= MOST_VALUES as f64 {
            let first = self.from.ceil();
            return (0..count.max(0.0) as u32)
                .map(|nth| first + f64::from(nth))
                .collect();
        }
        let last = (MOST_VALUES - 1) as f64;
        let step = |nth: usize| {
            let share = nth as f64 / last;
            self.from * libm::pow(self.to / self.from, share)
        };
        let mut values: Vec<f64> = (0..MOST_VALUES)
            .map(|nth| self.knob.rounded(step(nth)))
            .filter(|value| (self.from..=self.to).contains(value))
            .collect();
        values.dedup();
        values
    }
}

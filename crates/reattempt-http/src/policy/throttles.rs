//! `throttles`: what routes share, and what a table takes over from the one before it.

use std::sync::Arc;
use std::time::Duration;

use reattempt::admission::{Admission, AdmissionSettings};
use reattempt::config::{self, Decimal, Json, Members, Place};
use reattempt::health::{HealthPolicy, LiveHealthPolicy};
use reattempt::throttle::{Both, Governor, GovernorSettings, HedgeBudget, RatioBudget};
use reattempt::{RetryThrottle, TokenBucket};

use super::options::Clock;
use super::{members, recovery};
use crate::aws::{AwsQuota, AwsVersion};

/// A definition in the document.
#[derive(Clone, Copy)]
pub(super) enum Throttle {
    Tokens(Tokens),
    Ratio(Ratio),
    Aws(AwsVersion),
    Governor(GovernorSettings),
}

/// `maxTokens`, and `tokenRatio` in thousandths.
#[derive(Clone, Copy)]
pub(super) struct Tokens {
    max: u32,
    ratio: u32,
}

/// `retryRatio` in thousandths, and the others.
#[derive(Clone, Copy)]
pub(super) struct Ratio {
    ratio: u32,
    min_per_second: u32,
    window: Duration,
}

/// The hedge budget of a route.
#[derive(Clone, Debug)]
pub(super) enum RouteBudget {
    Own(Arc<HedgeBudget>),
    Shared(Arc<HedgeBudget>),
}

impl RouteBudget {
    pub(super) const fn own(&self) -> Option<&Arc<HedgeBudget>> {
        match self {
            Self::Own(budget) => Some(budget),
            Self::Shared(_) => None,
        }
    }

    pub(super) fn into_inner(self) -> Arc<HedgeBudget> {
        match self {
            Self::Own(budget) | Self::Shared(budget) => budget,
        }
    }
}

/// A throttle that routes share.
#[derive(Clone, Debug)]
pub(super) enum Counted {
    Tokens(Arc<TokenBucket>),
    Ratio(Arc<RatioBudget>),
    Aws(Arc<AwsQuota>),
    Governor(Arc<Governor>),
}

impl Throttle {
    pub(super) fn read(place: &mut Place<'_>, json: Json<'_>) -> Option<Self> {
        let known = [
            members::QUOTA,
            members::GOVERNOR,
            members::TOKENS,
            members::RATIO,
        ]
        .concat();
        let members = Members::of(place, json, &known)?;
        let mut excludes = |one: &str, others: &[&str]| {
            for other in others {
                if members.get(other).is_some() {
                    let what = format!("cannot be set together with {one}");
                    place.field(other).wrong(what);
                }
            }
        };
        if members.get("preset").is_some() {
            excludes(
                "preset, which defines it",
                &[members::GOVERNOR, members::TOKENS, members::RATIO].concat(),
            );
            let version = members.optional(place, "preset", recovery::preset);
            return version.map(Self::Aws);
        }
        if members.get("governor").is_some() {
            excludes(
                "governor, another kind of throttle",
                &[members::TOKENS, members::RATIO].concat(),
            );
            let settings = members.optional(place, "governor", |place, json| {
                if json.as_bool() == Some(false) {
                    return config::wrong(place, "true, or an object", json);
                }
                GovernorSettings::read(place, json)
            });
            return settings.map(Self::Governor);
        }
        if members::RATIO
            .iter()
            .any(|name| members.get(name).is_some())
        {
            excludes("retryRatio, another kind of throttle", members::TOKENS);
            return Ratio::read(place, &members).map(Self::Ratio);
        }
        let max = members.required(place, "maxTokens", "an integer", |place, json| {
            config::integer(place, json, "an integer from 1 to 1000", 1, 1000)
        });
        let ratio = members.required(place, "tokenRatio", "a number", config::thousandths);
        Some(Self::Tokens(Tokens {
            max: u32::try_from(max?).ok()?,
            ratio: ratio?,
        }))
    }
}

impl Ratio {
    fn read(place: &mut Place<'_>, members: &Members<'_>) -> Option<Self> {
        let ratio = members.required(place, "retryRatio", "a number", |place, json| {
            let thousandths = json.as_number().map(Decimal::of);
            let thousandths = thousandths.filter(Decimal::is_positive);
            match thousandths.map(|decimal| decimal.scaled(3)) {
                Some(ratio @ 1..=1000) => u32::try_from(ratio).ok(),
                _ => {
                    let must = "a number from 0.001 to 1 (decimal places beyond 3 are dropped)";
                    config::wrong(place, must, json)
                }
            }
        });
        let min = members.optional(place, "minPerSecond", |place, json| {
            let must = "an integer from 0 to 1000000";
            config::integer(place, json, must, 0, 1_000_000)
        });
        let window = members.optional(place, "window", |place, json| {
            let window = config::duration(place, json, false)?;
            let allowed = Duration::from_secs(1)..=Duration::from_secs(3600);
            if allowed.contains(&window) {
                return Some(window);
            }
            config::wrong(place, "a duration from \"1s\" to \"3600s\"", json)
        });
        place.advise(RatioBudget::WARNING);
        Some(Self {
            ratio: ratio?,
            min_per_second: match min {
                Some(min) => u32::try_from(min).ok()?,
                None => RatioBudget::DEFAULT_FLOOR,
            },
            window: window.unwrap_or(RatioBudget::DEFAULT_WINDOW),
        })
    }
}

impl Counted {
    pub(super) const fn quota(&self) -> Option<&Arc<AwsQuota>> {
        match self {
            Self::Aws(quota) => Some(quota),
            Self::Tokens(_) | Self::Ratio(_) | Self::Governor(_) => None,
        }
    }

    fn throttle(self) -> Arc<dyn RetryThrottle> {
        match self {
            Self::Tokens(bucket) => bucket,
            Self::Ratio(budget) => budget,
            Self::Aws(quota) => quota,
            Self::Governor(governor) => governor,
        }
    }

    /// The throttle of a route, which may have a budget for its hedges too.
    pub(super) fn with_budget(
        counted: Option<Self>,
        budget: Option<Arc<HedgeBudget>>,
    ) -> Option<Arc<dyn RetryThrottle>> {
        Some(match (counted, budget) {
            // The bucket only checks, the budget spends: so the budget is asked second.
            (Some(Self::Tokens(bucket)), Some(budget)) => Arc::new(Both(bucket, budget)),
            // Both spend; the budget refuses far more often, and then the other is not charged.
            (Some(counted), Some(budget)) => Arc::new(Both(budget, counted.throttle())),
            (Some(counted), None) => counted.throttle(),
            (None, Some(budget)) => budget,
            (None, None) => return None,
        })
    }
}

/// A quota of this version: with the remaining tokens of the old one if the version is the same.
pub(super) fn quota(version: AwsVersion, old: Option<&Arc<AwsQuota>>) -> Arc<AwsQuota> {
    match old.filter(|old| old.version() == version) {
        Some(old) => Arc::clone(old),
        None => Arc::new(AwsQuota::new(version)),
    }
}

/// What a table takes over from the one before it, with the parameters to apply.
#[derive(Default)]
pub(super) struct Carried {
    buckets: Vec<(Arc<TokenBucket>, Tokens)>,
    ratios: Vec<(Arc<RatioBudget>, Ratio)>,
    budgets: Vec<(Arc<HedgeBudget>, u32)>,
    governors: Vec<(Arc<Governor>, GovernorSettings)>,
    admission: Option<(Arc<Admission>, Option<AdmissionSettings>)>,
    health: Option<(LiveHealthPolicy, HealthPolicy)>,
    /// Of new retry budgets.
    clock: Option<Clock>,
}

impl Carried {
    pub(super) fn with_clock(clock: Option<Clock>) -> Self {
        Self {
            clock,
            ..Self::default()
        }
    }

    pub(super) fn throttle(
        &mut self,
        throttle: Throttle,
        old: Option<&Counted>,
    ) -> Option<Counted> {
        // The parser has checked all numbers, so nothing new can fail.
        Some(match (throttle, old) {
            (Throttle::Tokens(tokens), Some(Counted::Tokens(bucket))) => {
                self.buckets.push((Arc::clone(bucket), tokens));
                Counted::Tokens(Arc::clone(bucket))
            }
            (Throttle::Tokens(Tokens { max, ratio }), _) => {
                Counted::Tokens(Arc::new(TokenBucket::new(max, ratio).ok()?))
            }
            (Throttle::Ratio(ratio), Some(Counted::Ratio(budget))) => {
                self.ratios.push((Arc::clone(budget), ratio));
                Counted::Ratio(Arc::clone(budget))
            }
            (Throttle::Ratio(new), _) => {
                let budget = RatioBudget::new(new.ratio, new.min_per_second, new.window).ok()?;
                Counted::Ratio(Arc::new(match self.clock.clone() {
                    Some(clock) => budget.with_clock(move || clock.now()),
                    None => budget,
                }))
            }
            (Throttle::Governor(settings), Some(Counted::Governor(governor))) => {
                self.governors.push((Arc::clone(governor), settings));
                Counted::Governor(Arc::clone(governor))
            }
            (Throttle::Governor(settings), _) => {
                let governor = settings.make();
                Counted::Governor(Arc::new(match self.clock.clone() {
                    Some(clock) => governor.with_clock(move || clock.now()),
                    None => governor,
                }))
            }
            (Throttle::Aws(version), old) => {
                Counted::Aws(quota(version, old.and_then(Counted::quota)))
            }
        })
    }

    /// The admission of all tables is the same; it is off where the table has none.
    pub(super) fn admission(
        &mut self,
        settings: Option<AdmissionSettings>,
        old: &Arc<Admission>,
    ) -> Arc<Admission> {
        self.admission = Some((Arc::clone(old), settings));
        Arc::clone(old)
    }

    /// The health policy of all tables is the same.
    pub(super) fn health(
        &mut self,
        policy: HealthPolicy,
        old: &LiveHealthPolicy,
    ) -> LiveHealthPolicy {
        self.health = Some((old.clone(), policy));
        old.clone()
    }

    pub(super) fn budget(
        &mut self,
        share: u32,
        old: Option<&Arc<HedgeBudget>>,
    ) -> Option<Arc<HedgeBudget>> {
        let Some(old) = old else {
            return HedgeBudget::of_thousandths(share).ok().map(Arc::new);
        };
        self.budgets.push((Arc::clone(old), share));
        Some(Arc::clone(old))
    }

    /// Applies the new parameters; counts and balances are kept.
    pub(super) fn reconfigure(&self) {
        // The parser has checked all numbers, so no step can fail.
        for (bucket, Tokens { max, ratio }) in &self.buckets {
            let _ = bucket.reconfigure(*max, *ratio);
        }
        for (budget, new) in &self.ratios {
            let _ = budget.reconfigure(new.ratio, new.min_per_second, new.window);
        }
        for (governor, settings) in &self.governors {
            settings.apply(governor);
        }
        match &self.admission {
            Some((admission, Some(settings))) => settings.apply(admission),
            Some((admission, None)) => admission.switch_off(),
            None => {}
        }
        if let Some((live, policy)) = &self.health {
            live.set(policy.clone());
        }
        for (budget, share) in &self.budgets {
            let _ = budget.reconfigure(*share);
        }
    }
}

//! How a route recovers: `retry`, `hedge`, and their settings.

use std::sync::Arc;
use std::time::Duration;

use reattempt::backoff::{Backoff, Jitter};
use reattempt::config::{self, Json, Members, Place};
use reattempt::policy::MOST_HEDGED_ATTEMPTS;
use reattempt::strategy::MaxAttempts;
use reattempt::{HedgeDelay, HedgePolicy, OnDeadline, RetryStrategy};

use super::hedge_timing::HedgeTiming;
use super::shared::Shared;
use super::{Options, members};
use crate::aws::{AwsStandard, AwsVersion};
use crate::{BeyondCap, HttpClassifier, HttpPushback, StatusSet};

/// With more attempts than this, a server that is down receives a multiple of the load: a throttle
/// is advised.
const MANY_ATTEMPTS: u32 = 3;
const MOST_ATTEMPTS: u32 = 1000;

/// A parsed `retry`.
pub(super) struct Retry {
    pub(super) strategy: Arc<dyn RetryStrategy>,
    pub(super) status: HttpClassifier,
    /// The version of its preset, if it has one.
    pub(super) preset: Option<AwsVersion>,
}

/// A parsed `hedge`.
pub(super) struct Hedge {
    pub(super) delay: HedgeTiming,
    pub(super) status: HttpClassifier,
    pub(super) budget: Option<Budget>,
    max_attempts: u32,
    on_deadline: OnDeadline,
    only_idempotent: bool,
}

/// The budget for the hedges of a route.
pub(super) enum Budget {
    /// In thousandths of the route's calls.
    Own(u32),
    /// By name: of the calls of all routes that name it.
    Shared(String),
}

impl Retry {
    pub(super) fn read(
        place: &mut Place<'_>,
        json: Json<'_>,
        throttled: bool,
        options: &Options,
    ) -> Option<Self> {
        let members = Members::of(place, json, members::RETRY)?;
        let preset = members.optional(place, "preset", preset);
        let max = attempts(place, &members, MOST_ATTEMPTS).unwrap_or(3);
        if max > MANY_ATTEMPTS && !throttled && preset.is_none() {
            place.field("maxAttempts").advise(format!(
                "can amplify load: a server that fails gets up to {max} times its calls, and no throttle of this document holds them back, only one of the client (HttpClientLayer has one for each origin)"
            ));
        }
        let usual = preset.map_or_else(Backing::default, Backing::of);
        let backing = members.optional(place, "backoff", |place, json| {
            backoff(place, json, max, usual)
        });
        let backing = backing.unwrap_or(usual);
        let mut usual_status = HttpClassifier::new();
        if preset.is_some() {
            usual_status = usual_status.retryable(AwsVersion::STATUSES);
        }
        let mut status = status(place, &members, usual_status);
        if let Some(safe) = members.optional(place, "safeStatuses", statuses) {
            // Without statuses of its own the route goes by the layer's, which are unknown here.
            let listed = preset.is_some() || members.get("statuses").is_some();
            let retried = status.retryable_statuses();
            let mut safe_ones = safe.iter().filter(|_| listed);
            if let Some(idle) = safe_ones.find(|status| !retried.contains(*status)) {
                place.field("safeStatuses").warn(format!(
                    "{idle} has no effect, because statuses does not list it"
                ));
            }
            status = status.safe(safe);
        }
        let on_deadline = on_deadline(place, &members, options);
        let strategy: Arc<dyn RetryStrategy> = match preset {
            Some(version) => Arc::new(backing.into_standard(version, max, on_deadline, options)),
            None => Arc::new(backing.into_attempts(max, on_deadline, options)),
        };
        Some(Self {
            strategy,
            status,
            preset,
        })
    }
}

/// A preset of published parameters, by name.
pub(super) fn preset(place: &mut Place<'_>, json: Json<'_>) -> Option<AwsVersion> {
    let named = |&version: &AwsVersion| (version.name(), version);
    let words: Vec<_> = AwsVersion::ALL.iter().map(named).collect();
    config::one_of(place, json, &words)
}

pub(super) fn percent(place: &mut Place<'_>, json: Json<'_>) -> Option<u32> {
    let must = "a number from 0.1 to 100 with at most one decimal place";
    config::tenths(place, json, must, 100)
}

impl Hedge {
    pub(super) fn read(
        place: &mut Place<'_>,
        json: Json<'_>,
        may_be_unsafe: bool,
        shared: &mut Shared<'_>,
    ) -> Option<Self> {
        let members = Members::of(place, json, members::HEDGE)?;
        let max = attempts(place, &members, MOST_HEDGED_ATTEMPTS).unwrap_or(2);
        let delay = HedgeTiming::read(place, &members);
        let status = status(place, &members, HttpClassifier::new());
        let own = members.optional(place, "budgetPercent", percent);
        let named = members.optional(place, "budget", |place, json| {
            shared.budgets.named(place, json, "budgets", true)
        });
        let bounded = matches!(delay, Some(HedgeTiming::ExtraLoad(_)));
        match ["budget", "budgetPercent"].map(|name| members.get(name).is_some()) {
            [false, false] if bounded => {}
            [false, false] => place.advise(
                "can amplify load: without budgetPercent a slow server receives every hedge",
            ),
            [true, true] => {
                place.wrong("has both budget and budgetPercent: only one may be set");
            }
            _ => {}
        }
        let budget = named.map(Budget::Shared).or(own.map(Budget::Own));
        let options = shared.options;
        if delay == Some(HedgeTiming::Fixed(Duration::ZERO)) {
            place
                .field("delay")
                .advise("can amplify load: all attempts of every call are sent at once");
        }
        let only_idempotent = members.optional(place, "onlyIdempotent", config::boolean);
        let only_idempotent = only_idempotent.unwrap_or(true);
        if may_be_unsafe && !only_idempotent {
            place.field("onlyIdempotent").advise(
                "requests that are not idempotent are hedged too: name the methods in match",
            );
        }
        let on_deadline = on_deadline(place, &members, options).unwrap_or(OnDeadline::GiveUp);
        Some(Self {
            delay: delay?,
            status,
            budget,
            max_attempts: max,
            on_deadline,
            only_idempotent,
        })
    }

    /// With this delay.
    pub(super) fn policy(&self, delay: Arc<dyn HedgeDelay>) -> HedgePolicy {
        let policy = HedgePolicy::with_delay(self.max_attempts, delay);
        let policy = policy.on_deadline(self.on_deadline);
        if self.only_idempotent {
            policy
        } else {
            policy.hedge_non_idempotent()
        }
    }
}

fn attempts(place: &mut Place<'_>, members: &Members<'_>, most: u32) -> Option<u32> {
    members.optional(place, "maxAttempts", |place, json| {
        let must = format!("an integer from 1 to {most}");
        let max = config::integer(place, json, &must, 1, most.into())?;
        u32::try_from(max).ok()
    })
}

/// The members of a back-off, with the defaults of [`MaxAttempts::standard`].
#[derive(Clone, Copy)]
struct Backing {
    initial: Duration,
    multiplier: f64,
    max: Duration,
    jitter: Jitter,
}

impl Default for Backing {
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(100),
            multiplier: 2.0,
            max: Duration::from_secs(20),
            jitter: Jitter::Full,
        }
    }
}

impl Backing {
    /// The published parameters.
    const fn of(version: AwsVersion) -> Self {
        Self {
            initial: version.initial(),
            multiplier: 2.0,
            max: AwsVersion::MOST_BACKOFF,
            jitter: Jitter::Full,
        }
    }

    fn into_attempts(
        self,
        max: u32,
        on_deadline: Option<OnDeadline>,
        options: &Options,
    ) -> MaxAttempts {
        let backoff = Backoff::exponential(self.initial, self.max)
            .multiplier(self.multiplier)
            .jitter(self.jitter)
            .randomness(options.randomness.clone());
        let attempts = MaxAttempts::new(max, backoff);
        match on_deadline {
            Some(choice) => attempts.on_deadline(choice),
            None => attempts,
        }
    }

    fn into_standard(
        self,
        version: AwsVersion,
        max: u32,
        on_deadline: Option<OnDeadline>,
        options: &Options,
    ) -> AwsStandard {
        let standard = AwsStandard::new(version)
            .max_attempts(max)
            .initial(self.initial)
            .multiplier(self.multiplier)
            .most_backoff(self.max)
            .jitter(self.jitter)
            .randomness(options.randomness.clone());
        match on_deadline {
            Some(choice) => standard.on_deadline(choice),
            None => standard,
        }
    }
}

fn backoff(
    place: &mut Place<'_>,
    json: Json<'_>,
    attempts: u32,
    usual: Backing,
) -> Option<Backing> {
    let members = Members::of(place, json, members::BACKOFF)?;
    let duration = |place: &mut Place<'_>, json| config::duration(place, json, false);
    let initial = members.optional(place, "initial", duration);
    let multiplier = members.optional(place, "multiplier", config::factor);
    let max = members.optional(place, "max", duration);
    let jitter = members.optional(place, "jitter", |place, json| {
        let words = [
            ("full", Jitter::Full),
            ("none", Jitter::None),
            ("proportional", Jitter::Proportional(0.2)),
            ("decorrelated", Jitter::Decorrelated),
        ];
        config::one_of(place, json, &words)
    });
    let backing = Backing {
        initial: initial.unwrap_or(usual.initial),
        multiplier: multiplier.unwrap_or(usual.multiplier),
        max: max.unwrap_or(usual.max),
        jitter: jitter.unwrap_or(usual.jitter),
    };
    if attempts > 2 && (backing.initial.is_zero() || backing.max.is_zero()) {
        place.advise("can amplify load: all retries are sent without delay");
    } else if backing.max < backing.initial {
        place
            .field("max")
            .warn("is below initial, so that every delay is max");
    }
    Some(backing)
}

/// `onDeadline`, or what the program says instead; `None` if neither says it.
fn on_deadline(
    place: &mut Place<'_>,
    members: &Members<'_>,
    options: &Options,
) -> Option<OnDeadline> {
    let said = members.optional(place, "onDeadline", |place, json| {
        let words = [("giveUp", OnDeadline::GiveUp), ("cap", OnDeadline::Cap)];
        config::one_of(place, json, &words)
    });
    let said = options.on_deadline.or(said);
    said.or(options.default_on_deadline)
}

/// `statuses` and `transportErrors`, which both retries and hedges have.
fn status(
    place: &mut Place<'_>,
    members: &Members<'_>,
    mut status: HttpClassifier,
) -> HttpClassifier {
    if let Some(listed) = members.optional(place, "statuses", statuses) {
        // 202 may mean that the result is not there yet.
        let mut listed_ones = listed.iter();
        if let Some(works) = listed_ones.find(|&status| status / 100 == 2 && status != 202) {
            place.field("statuses").advise(format!(
                "can amplify load: {works} says that the call worked, and it is sent again"
            ));
        }
        status = status.retryable(listed);
    }
    if let Some(retry) = members.optional(place, "transportErrors", config::boolean) {
        status = status.transport_errors(retry);
    }
    status
}

fn statuses(place: &mut Place<'_>, json: Json<'_>) -> Option<StatusSet> {
    let statuses = config::array(place, json, "statuses", |place, json| {
        let status = config::integer(place, json, "a status from 100 to 999", 100, 999)?;
        u16::try_from(status).ok()
    })?;
    Some(statuses.into_iter().collect())
}

pub(super) fn retry_after(
    place: &mut Place<'_>,
    json: Json<'_>,
    options: &Options,
) -> Option<HttpPushback> {
    let members = Members::of(place, json, members::RETRY_AFTER)?;
    let mut settings = HttpPushback::new().randomness(options.randomness.clone());
    if let Some(honour) = members.optional(place, "honour", config::boolean) {
        settings = settings.honour(honour);
    }
    if let Some(read) = members.optional(place, "milliseconds", config::boolean) {
        settings = settings.milliseconds(read);
    }
    if let Some(read) = members.optional(place, "rateLimits", config::boolean) {
        settings = settings.rate_limits(read);
    }
    let spread = members.optional(place, "spread", |place, json| {
        config::duration(place, json, false)
    });
    if let Some(spread) = spread {
        settings = settings.spread(spread);
    }
    let cap = members.optional(place, "cap", |place, json| {
        config::duration(place, json, false)
    });
    let beyond = members.optional(place, "beyondCap", |place, json| {
        config::one_of(
            place,
            json,
            &[("stop", BeyondCap::Stop), ("wait", BeyondCap::Wait)],
        )
    });
    match (cap, beyond) {
        (Some(cap), beyond) => settings = settings.cap(cap, beyond.unwrap_or_default()),
        (None, Some(_)) if members.get("cap").is_none() => {
            place
                .field("beyondCap")
                .warn("has no effect, because there is no cap");
        }
        (None, _) => {}
    }
    Some(settings)
}

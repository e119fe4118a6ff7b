//! A6's `hedgingPolicy`.

use std::time::Duration;

use reattempt::HedgePolicy;
use reattempt::config::{Json, Members, Place};
use reattempt::policy::MOST_HEDGED_ATTEMPTS;

use crate::CodeSet;

use super::Options;
use super::retry_policy::max_attempts;
use super::values;

/// A6, Validation of hedgingPolicy. `throttled`: the config has `retryThrottling`.
pub(super) fn read(
    place: &mut Place<'_>,
    json: Json<'_>,
    throttled: bool,
    options: &Options,
) -> Option<(HedgePolicy, CodeSet)> {
    let known = ["maxAttempts", "hedgingDelay", "nonFatalStatusCodes"];
    let members = Members::of(place, json, &known)?;
    let limit = options.max_attempts_limit.min(MOST_HEDGED_ATTEMPTS);
    let attempts = max_attempts(place, &members, limit);
    let delay = match members.get("hedgingDelay") {
        None => Some(Duration::ZERO),
        Some(json) => values::duration(&mut place.field("hedgingDelay"), json, false),
    };
    let codes = members.optional(place, "nonFatalStatusCodes", values::codes);
    let (attempts, delay) = (attempts?, delay?);
    if delay.is_zero() && options.hedge_delay.is_none() {
        place.advise(format!(
            "can amplify load: without a hedgingDelay all {attempts} attempts of every call go out at once"
        ));
    }
    if !throttled {
        place.advise(format!(
            "can amplify load: a slow or failing server gets up to {attempts} times its calls, and no retryThrottling holds them back"
        ));
    }
    let policy = HedgePolicy::new(attempts, delay).hedge_non_idempotent();
    Some((
        policy.on_deadline(options.on_deadline),
        codes.unwrap_or_default(),
    ))
}

//! The strategies of the key-value service, as scenarios name them.

use std::sync::Arc;

use reattempt::config::{Json, Members, Place, integer, one_of};
use reattempt::{OnDeadline, RetryStrategy};
use reattempt_couchbase::{ErrorMapStrategy, ErrorMaps, KvStrategy};
use serde_json::{Value, json};

use crate::number::millis_as_nanos;

/// The simulated servers have no error map: that strategy acts as best effort.
pub(super) fn make(strategy: KvStrategy) -> Arc<dyn RetryStrategy> {
    strategy.make(OnDeadline::Cap, |best_effort| {
        Arc::new(ErrorMapStrategy::new(ErrorMaps::new()).otherwise(best_effort))
    })
}

pub(super) fn read(place: &mut Place<'_>, json: Json<'_>) -> Option<KvStrategy> {
    if !json.is_object() {
        return one_of(place, json, KvStrategy::NAMED);
    }
    let members = Members::of(place, json, &["constant_ms", "max_attempts"])?;
    let delay = members.required(place, "constant_ms", "milliseconds", millis_as_nanos);
    let max = members.required(place, "max_attempts", "a number", |place, json| {
        let must = "a whole number from 1 to 4294967295";
        integer(place, json, must, 1, u32::MAX.into())
    });
    Some(KvStrategy::Constant {
        delay: std::time::Duration::from_nanos(delay?),
        max_attempts: u32::try_from(max?).ok()?.try_into().ok()?,
    })
}

/// As [`read`] reads it.
pub(super) fn document(strategy: KvStrategy) -> Value {
    if let KvStrategy::Constant {
        delay,
        max_attempts,
    } = strategy
    {
        let ms = match delay.subsec_nanos() % 1_000_000 {
            0 => json!(delay.as_millis() as u64),
            _ => json!(delay.as_nanos() as f64 / 1e6),
        };
        return json!({"constant_ms": ms, "max_attempts": max_attempts});
    }
    let mut named = KvStrategy::NAMED.iter();
    let known = named.find(|(_, known)| *known == strategy);
    json!(known.map(|(name, _)| *name))
}

//! The field `strategy` of a document: the strategies that it can name for Couchbase.

use std::num::NonZeroU32;

use reattempt_couchbase::KvStrategy;
use serde::Deserialize;

use super::document::{Fault, Fields, Millis, Whole};

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
    BestEffort,
    FailFast,
    ErrorMap,
}

/// Best effort by default.
pub(super) fn read(fields: &mut Fields) -> Result<KvStrategy, Fault> {
    match fields.first_byte("strategy") {
        None | Some(b'"') => Ok(match fields.or("strategy", Name::BestEffort)? {
            Name::BestEffort => KvStrategy::BestEffort,
            Name::FailFast => KvStrategy::FailFast,
            Name::ErrorMap => KvStrategy::ErrorMap,
        }),
        Some(b'{') => {
            let mut constant = fields.nested("strategy");
            let Millis(delay) = constant.required("constant_ms")?;
            let most: Whole = constant.required("max_attempts")?;
            let strategy = KvStrategy::Constant {
                delay,
                max_attempts: match NonZeroU32::new(most.cut(u32::MAX)) {
                    Some(most) => most,
                    None => return Err(constant.fault("max_attempts", "must be at least 1")),
                },
            };
            constant.finish();
            Ok(strategy)
        }
        Some(_) => Err(fields.fault(
            "strategy",
            "must be a name, or {\"constant_ms\": n, \"max_attempts\": m}",
        )),
    }
}

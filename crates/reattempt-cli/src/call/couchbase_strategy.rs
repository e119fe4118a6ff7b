//! The field `strategy` of a document: the strategies that it can name for Couchbase.

use std::num::NonZeroU32;

use reattempt_couchbase::KvStrategy;
use serde::Deserialize;

use super::document::{Fault, Fields, Millis};

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
            let strategy = KvStrategy::Constant {
                delay: constant.required::<Millis>("constant_ms")?.0,
                max_attempts: constant.required::<NonZeroU32>("max_attempts")?,
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

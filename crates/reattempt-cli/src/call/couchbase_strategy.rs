//! The field `strategy` of a document: the strategies that it can name for Couchbase.

use std::num::NonZeroU32;

use reattempt_couchbase::KvStrategy;
use serde::Deserialize;

use super::document::{Fields, Millis, Whole};

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
    BestEffort,
    FailFast,
    ErrorMap,
}

/// Best effort by default, and also if there is a fault.
pub(super) fn read(fields: &mut Fields) -> KvStrategy {
    match fields.first_byte("strategy") {
        None | Some(b'"') => match fields.or("strategy", Name::BestEffort) {
            Name::BestEffort => KvStrategy::BestEffort,
            Name::FailFast => KvStrategy::FailFast,
            Name::ErrorMap => KvStrategy::ErrorMap,
        },
        Some(b'{') => {
            let constant = constant(fields.nested("strategy"));
            constant.unwrap_or(KvStrategy::BestEffort)
        }
        Some(_) => {
            let what = "must be a name, or {\"constant_ms\": n, \"max_attempts\": m}";
            fields.wrong("strategy", what);
            KvStrategy::BestEffort
        }
    }
}

fn constant(mut fields: Fields) -> Option<KvStrategy> {
    let delay = fields.required("constant_ms");
    let most = fields.required::<Whole>("max_attempts")?;
    let most = NonZeroU32::new(most.cut(u32::MAX)).ok_or("must be at least 1");
    let max_attempts = fields.accept("max_attempts", most)?;
    fields.finish();
    let Millis(delay) = delay?;
    Some(KvStrategy::Constant {
        delay,
        max_attempts,
    })
}

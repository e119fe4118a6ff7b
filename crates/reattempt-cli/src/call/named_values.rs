//! A field of names with one value or a list of values: the headers of a request.

use std::collections::BTreeMap;

use super::document::{Fault, Fields, MOST_NAMES, OneOrMany};

pub(super) fn read(fields: &mut Fields, name: &str) -> Result<BTreeMap<String, OneOrMany>, Fault> {
    let said: BTreeMap<_, _> = fields.optional(name)?.unwrap_or_default();
    if said.len() > MOST_NAMES {
        let what = format!("has {} names; at most {MOST_NAMES} can be sent", said.len());
        return Err(fields.fault(name, what));
    }
    Ok(said)
}

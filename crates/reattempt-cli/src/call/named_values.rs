//! A field of names with one value or a list of values: the headers of a request.

use std::collections::BTreeMap;

use super::document::{Fields, MOST_NAMES, OneOrMany};

pub(super) fn read(fields: &mut Fields, name: &str) -> BTreeMap<String, OneOrMany> {
    let said: BTreeMap<_, _> = fields.or(name, BTreeMap::new());
    if said.len() > MOST_NAMES {
        let what = format!("has {} names; at most {MOST_NAMES} can be sent", said.len());
        fields.wrong(name, what);
        return BTreeMap::new();
    }
    said
}

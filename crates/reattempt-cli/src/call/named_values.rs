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

/// A name for display: of a whole header that was written as a name, what stands before its value.
pub(super) fn shown(key: &str) -> String {
    let ends = |&(at, char): &(usize, char)| at > 0 && char == ':';
    match key.char_indices().find(ends) {
        Some((at, _)) => format!("{}\u{2026}", &key[..at]),
        None => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_has_a_value_in_it_is_shown_without_it() {
        assert_eq!(shown("x-key"), "x-key");
        assert_eq!(shown(":path"), ":path");
        assert_eq!(shown("authorization: hunter2"), "authorization\u{2026}");
    }
}

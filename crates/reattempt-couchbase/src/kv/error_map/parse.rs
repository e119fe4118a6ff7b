//! Parses an error map from JSON.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use reattempt::config::{Form, Json, Members, Place, Unreadable};

use super::{Attributes, ErrorMap, ErrorMapEntry, MAX_BYTES, RetrySpec, SpecStrategy};
use crate::server_document::{form, not_json};

pub(super) const FORM: Form = form("the error map", MAX_BYTES, |unreadable| match unreadable {
    Unreadable::TooLong { bytes, longest } => {
        format!("an error map of {bytes} bytes is refused: at most {longest} are read")
    }
    other => not_json(other),
});

pub(super) fn map(place: &mut Place<'_>, json: Json<'_>) -> Option<ErrorMap> {
    let root = Members::of(place, json, &["version", "revision", "errors"])?;
    let mut number = |name, missing: u64| {
        let mut place = place.field(name);
        let Some(json) = root.get(name) else {
            place.warn(format!("is missing; {missing} is assumed"));
            return Some(missing);
        };
        // A map that is so wrong may be anything.
        let number = integer(json);
        number.or_else(|| place.refuse("must be an integer that is not negative"))
    };
    let (version, revision) = (number("version", 1), number("revision", 0));
    let mut place = place.field("errors");
    let Some(errors) = root.get("errors").filter(|errors| errors.is_object()) else {
        return place.refuse("must be an object of statuses");
    };
    let errors = Members::any(&mut place, errors)?;
    let mut place = place.skipping("; the entry is skipped");
    let mut entries = BTreeMap::new();
    for (name, json) in errors.iter() {
        let mut place = place.field(name);
        let Some((status, entry)) = entry(&mut place, name, json) else {
            continue;
        };
        match entries.entry(status) {
            Entry::Vacant(vacant) => drop(vacant.insert(entry)),
            Entry::Occupied(_) => place.wrong("the status is there already in another spelling"),
        }
    }
    let (statuses, entries): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
    Some(ErrorMap {
        version: version?,
        revision: revision?,
        statuses: statuses.into(),
        entries: entries.into(),
        faults: Vec::new(),
    })
}

fn integer(json: Json<'_>) -> Option<u64> {
    json.as_number()?.parse().ok()
}

/// A status in hex, any case, without `0x`; leading zeros are ignored.
fn status(key: &str) -> Option<u16> {
    // `from_str_radix` would accept a sign.
    if !key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u16::from_str_radix(key, 16).ok()
}

fn entry(place: &mut Place<'_>, name: &str, json: Json<'_>) -> Option<(u16, ErrorMapEntry)> {
    let Some(status) = status(name) else {
        return place.refuse("the key must be a status in hex, 0 to ffff");
    };
    let entry = Members::of(place, json, &["name", "desc", "attrs", "retry"])?;
    let attributes = entry.get("attrs").and_then(attributes);
    let attributes =
        attributes.or_else(|| place.field("attrs").refuse("must be a list of names"))?;
    let text = |member| entry.get(member).and_then(Json::as_str).map(Box::from);
    Some((
        status,
        ErrorMapEntry {
            name: text("name"),
            description: text("desc"),
            attributes,
            retry: entry.optional(place, "retry", retry_spec),
        },
    ))
}

/// The known attributes; `None` if the value is not a list of names.
fn attributes(json: Json<'_>) -> Option<Attributes> {
    let words = json.items()?;
    words.into_iter().try_fold(Attributes::NONE, |set, word| {
        let known = Attributes::named(&word.as_str()?).unwrap_or_default();
        Some(set | known)
    })
}

fn retry_spec(place: &mut Place<'_>, json: Json<'_>) -> Option<RetrySpec> {
    let mut place = place.skipping("; the retry specification is not used");
    let known = ["strategy", "after", "interval", "ceil", "max-duration"];
    let spec = Members::of(&mut place, json, &known)?;
    let strategy = spec.get("strategy").and_then(Json::as_str);
    let strategy = match strategy.as_deref() {
        Some("constant") => SpecStrategy::Constant,
        Some("linear") => SpecStrategy::Linear,
        Some("exponential") => SpecStrategy::Exponential,
        _ => {
            let mut place = place.field("strategy");
            return place.refuse("must be constant, linear or exponential");
        }
    };
    let mut milliseconds = |name, json: Option<Json<'_>>| {
        let milliseconds = json.and_then(integer);
        milliseconds.or_else(|| place.field(name).refuse("must be a number of milliseconds"))
    };
    let mut required = |name| milliseconds(name, spec.get(name));
    let (after_ms, interval_ms) = (required("after")?, required("interval")?);
    // 0 is equivalent to an absent member.
    let mut optional = |name| match spec.get(name).filter(|json| !json.is_null()) {
        None => Some(None),
        given => milliseconds(name, given).map(|ms| Some(ms).filter(|ms| *ms > 0)),
    };
    let (ceil_ms, max_duration_ms) = (optional("ceil")?, optional("max-duration")?);
    Some(RetrySpec {
        strategy,
        after_ms,
        interval_ms,
        ceil_ms,
        max_duration_ms,
    })
}

//! Parses an error map from JSON.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Map, Value};

use super::{
    Attributes, ErrorMap, ErrorMapEntry, ErrorMapError, ErrorMapFault, MAX_BYTES, RetrySpec,
    SpecStrategy,
};

/// The maximum length of a name in a fault's path; longer ones are truncated.
const MAX_KEY_IN_PATH: usize = 64;

pub(super) fn map(json: &[u8]) -> Result<ErrorMap, Vec<ErrorMapError>> {
    let document = document(json).map_err(|refused| vec![refused])?;
    let shape = |path, problem| ErrorMapError::Shape { path, problem };
    let Some(root) = document.as_object() else {
        return Err(vec![shape("$", "must be an object")]);
    };
    let (mut refused, mut faults) = (Vec::new(), Vec::new());
    let mut number = |key, path: &'static str, missing, problem| {
        let Some(value) = root.get(key) else {
            faults.push(fault(path, problem));
            return missing;
        };
        value.as_u64().unwrap_or_else(|| {
            refused.push(shape(path, "must be an integer that is not negative"));
            missing
        })
    };
    let version = number("version", "$.version", 1, "is missing; 1 is assumed");
    let revision = number("revision", "$.revision", 0, "is missing; 0 is assumed");
    let Some(errors) = root.get("errors").and_then(Value::as_object) else {
        refused.push(shape("$.errors", "must be an object of statuses"));
        return Err(refused);
    };
    if !refused.is_empty() {
        return Err(refused);
    }

    let mut entries = BTreeMap::new();
    for (key, value) in errors {
        match entry(key, value, &mut faults) {
            Ok((status, entry)) => {
                if let Entry::Vacant(vacant) = entries.entry(status) {
                    vacant.insert(entry);
                } else {
                    faults.push(fault(
                        path(key, ""),
                        "the status is there already in another spelling; the entry is skipped",
                    ));
                }
            }
            Err(skipped) => faults.push(skipped),
        }
    }
    let (statuses, entries): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
    Ok(ErrorMap {
        version,
        revision,
        statuses: statuses.into(),
        entries: entries.into(),
        faults,
    })
}

fn document(json: &[u8]) -> Result<Value, ErrorMapError> {
    if json.len() > MAX_BYTES {
        return Err(ErrorMapError::TooLarge { bytes: json.len() });
    }
    serde_json::from_slice(json).map_err(|e| ErrorMapError::NotJson {
        line: e.line(),
        column: e.column(),
        problem: e.to_string(),
    })
}

fn fault(path: impl Into<String>, problem: &'static str) -> ErrorMapFault {
    ErrorMapFault {
        path: path.into(),
        problem,
    }
}

fn path(key: &str, rest: &str) -> String {
    let cut = key.char_indices().nth(MAX_KEY_IN_PATH);
    match cut {
        None => format!("$.errors.{key}{rest}"),
        Some((at, _)) => format!("$.errors.{}…{rest}", &key[..at]),
    }
}

/// A status in hex, any case, without `0x`; leading zeros are ignored.
fn status(key: &str) -> Option<u16> {
    // `from_str_radix` would accept a sign.
    if !key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u16::from_str_radix(key, 16).ok()
}

fn entry(
    key: &str,
    value: &Value,
    faults: &mut Vec<ErrorMapFault>,
) -> Result<(u16, ErrorMapEntry), ErrorMapFault> {
    let status = status(key).ok_or_else(|| {
        fault(
            path(key, ""),
            "the key must be a status in hex, 0 to ffff; the entry is skipped",
        )
    })?;
    let object = value
        .as_object()
        .ok_or_else(|| fault(path(key, ""), "must be an object; the entry is skipped"))?;
    let attributes = attributes(object).ok_or_else(|| {
        fault(
            path(key, ".attrs"),
            "must be a list of names; the entry is skipped",
        )
    })?;
    let retry = object.get("retry").and_then(|spec| {
        retry_spec(spec)
            .map_err(|(member, problem)| faults.push(fault(path(key, member), problem)))
            .ok()
    });
    let text = |member| object.get(member).and_then(Value::as_str).map(Box::from);
    Ok((
        status,
        ErrorMapEntry {
            name: text("name"),
            description: text("desc"),
            attributes,
            retry,
        },
    ))
}

/// The known attributes; `None` if the value is not a list of names.
fn attributes(object: &Map<String, Value>) -> Option<Attributes> {
    let words = object.get("attrs")?.as_array()?;
    words.iter().try_fold(Attributes::NONE, |set, word| {
        let known = Attributes::named(word.as_str()?).unwrap_or_default();
        Some(set | known)
    })
}

type SpecFault = (&'static str, &'static str);

fn retry_spec(value: &Value) -> Result<RetrySpec, SpecFault> {
    let spec = value.as_object().ok_or((
        ".retry",
        "must be an object; the retry specification is not used",
    ))?;
    let strategy = match spec.get("strategy").and_then(Value::as_str) {
        Some("constant") => SpecStrategy::Constant,
        Some("linear") => SpecStrategy::Linear,
        Some("exponential") => SpecStrategy::Exponential,
        _ => {
            return Err((
                ".retry.strategy",
                "must be constant, linear or exponential; the retry specification is not used",
            ));
        }
    };
    let required = |member, path| {
        spec.get(member).and_then(Value::as_u64).ok_or((
            path,
            "must be a number of milliseconds; the retry specification is not used",
        ))
    };
    // 0 is equivalent to an absent member.
    let optional = |member, path| match spec.get(member) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => required(member, path).map(|ms| Some(ms).filter(|ms| *ms > 0)),
    };
    Ok(RetrySpec {
        strategy,
        after_ms: required("after", ".retry.after")?,
        interval_ms: required("interval", ".retry.interval")?,
        ceil_ms: optional("ceil", ".retry.ceil")?,
        max_duration_ms: optional("max-duration", ".retry.max-duration")?,
    })
}

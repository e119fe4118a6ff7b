//! Names and generators in cases: `${name}`, `...`, `$repeat`, `$base64`, `$json`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::members::Result;

/// What `${name}` stands for. A value may use other names.
pub(crate) type Names = Map<String, Value>;

/// Replaces all names and generators in `value`.
pub(crate) fn expand(value: &Value, names: &Names) -> Result<Value> {
    nested(value, names, 0)
}

fn nested(value: &Value, names: &Names, depth: usize) -> Result<Value> {
    if depth > 100 {
        return Err(format!("too deep, a name that contains itself: {value}"));
    }
    let below = |value: &Value| nested(value, names, depth + 1);
    match value {
        Value::String(said) => text(said, names, depth),
        Value::Array(items) => items.iter().map(below).collect(),
        Value::Object(members) => {
            let only = members.iter().next().filter(|_| members.len() == 1);
            match only.map(|(name, value)| (name.as_str(), value)) {
                Some(("$repeat", repeated)) => repeat(repeated, names, depth),
                Some(("$base64", said)) => Ok(STANDARD.encode(as_text(below(said)?)).into()),
                Some(("$json", value)) => Ok(below(value)?.to_string().into()),
                _ => object(members, names, depth),
            }
        }
        other => Ok(other.clone()),
    }
}

/// The members of `...` come first, and the object's own replace them.
fn object(members: &Map<String, Value>, names: &Names, depth: usize) -> Result<Value> {
    let base = members
        .get("...")
        .map(|base| nested(base, names, depth + 1));
    let mut whole = match base.transpose()? {
        None => Map::new(),
        Some(Value::Object(base)) => base,
        Some(other) => return Err(format!("...: must be an object, got {other}")),
    };
    for (name, value) in members.iter().filter(|(name, _)| *name != "...") {
        let name = as_text(text(name, names, depth)?);
        whole.insert(name, nested(value, names, depth + 1)?);
    }
    Ok(Value::Object(whole))
}

fn text(said: &str, names: &Names, depth: usize) -> Result<Value> {
    let value = |name: &str| {
        let value = names
            .get(name)
            .ok_or(format!("${{{name}}}: no such name"))?;
        nested(value, names, depth + 1)
    };
    let inner = said
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'));
    if let Some(name) = inner.filter(|name| !name.contains('}')) {
        return value(name);
    }
    let (mut whole, mut rest) = (String::new(), said);
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or(format!("no }} in {said}"))?;
        whole += before;
        whole += &as_text(value(name)?);
        rest = after;
    }
    Ok((whole + rest).into())
}

/// `[item, n]`: of a text a text, of a list all its items, of anything else a list of it; `${i}` in
/// the item counts from 0.
fn repeat(repeated: &Value, names: &Names, depth: usize) -> Result<Value> {
    let repeated = nested(&repeated[1], names, depth + 1)?
        .as_u64()
        .zip(repeated.get(0))
        .ok_or(format!("$repeat: must be [item, n], got {repeated}"))?;
    let (times, item) = repeated;
    if let Some(plain) = item.as_str().filter(|item| !item.contains("${")) {
        // Long texts.
        let times = usize::try_from(times).map_err(|error| error.to_string())?;
        return Ok(plain.repeat(times).into());
    }
    let mut names = names.clone();
    let items = (0..times).map(|at| {
        names.insert("i".to_owned(), at.into());
        nested(item, &names, depth + 1)
    });
    let items = items.collect::<Result<Vec<_>>>()?.into_iter();
    Ok(match item {
        Value::String(_) => items.map(as_text).collect::<String>().into(),
        _ => items.flat_map(into_items).collect(),
    })
}

fn into_items(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        other => vec![other],
    }
}

fn as_text(value: Value) -> String {
    match value {
        Value::String(said) => said,
        other => other.to_string(),
    }
}

/// Expands these one after the other, each merged over those before.
pub(crate) fn layers(layers: &[Value], names: &Names) -> Result<Value> {
    let mut whole = Value::Object(Map::new());
    for layer in layers {
        merge(&mut whole, expand(layer, names)?);
    }
    Ok(whole)
}

/// Merges as RFC 7396 does: objects member by member, null removes a member. A null for an absent
/// member stays.
pub(crate) fn merge(base: &mut Value, patch: Value) {
    match (base, patch) {
        (Value::Object(base), Value::Object(patch)) => {
            for (name, value) in patch {
                if value.is_null() && base.remove(&name).is_some() {
                    continue;
                }
                merge(base.entry(name).or_insert(Value::Null), value);
            }
        }
        (base, patch) => *base = patch,
    }
}

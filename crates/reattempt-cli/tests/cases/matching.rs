//! Compares expected with actual JSON: partial objects, paths as names, and `$` operators.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::members::Result;

/// One comparison, with the values that `$as` has bound and the differences found.
#[derive(Clone, Default)]
pub(crate) struct Matching {
    bound: BTreeMap<String, Value>,
    pub(crate) differences: Vec<String>,
}

impl Matching {
    /// Adds a difference for everything in `actual` that `expected` does not allow.
    pub(crate) fn compare(&mut self, place: &str, expected: &Value, actual: &Value) {
        match (expected, actual) {
            (Value::Object(expected), _) => self.members(place, expected, actual),
            (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
                for (n, (wanted, found)) in wanted.iter().zip(found).enumerate() {
                    self.compare(&format!("{place}[{n}]"), wanted, found);
                }
            }
            _ if same(expected, actual) => {}
            _ => self.differ(place, &short(expected), actual),
        }
    }

    fn members(&mut self, place: &str, expected: &Map<String, Value>, actual: &Value) {
        for (name, wanted) in expected {
            if name.starts_with('$') {
                self.operator(place, name, wanted, actual);
                continue;
            }
            let place = format!("{place}.{name}");
            let absent = wanted.get("$absent").is_some();
            match lookup(actual, name) {
                Some(_) if absent => self.differ(&place, "nothing", actual),
                None if absent => {}
                Some(found) => self.compare(&place, wanted, &found),
                None => self.differ(&place, &format!("a member {}", short(wanted)), actual),
            }
        }
    }

    fn operator(&mut self, place: &str, name: &str, wanted: &Value, actual: &Value) {
        let number = actual.as_f64();
        let list = actual.as_array();
        let holds = match name {
            "$any" => !actual.is_null(),
            "$equals" => wanted == actual,
            "$not" => !self.holds(wanted, actual),
            "$one_of" => return self.one_of(place, wanted, actual),
            "$between" => number
                .zip(wanted[0].as_f64().zip(wanted[1].as_f64()))
                .is_some_and(|(found, (low, high))| (low..=high).contains(&found)),
            "$at_least" => number
                .zip(wanted.as_f64())
                .is_some_and(|(is, least)| is >= least),
            "$at_most" => number
                .zip(wanted.as_f64())
                .is_some_and(|(is, most)| is <= most),
            "$contains" => match (actual, wanted.as_str()) {
                (Value::Object(_) | Value::Array(_), Some(part)) => {
                    actual.to_string().contains(part)
                }
                _ => texts(actual, wanted).is_some_and(|(is, part)| is.contains(part)),
            },
            "$starts_with" => texts(actual, wanted).is_some_and(|(is, part)| is.starts_with(part)),
            "$length" => {
                let length = list.map(Vec::len).or(actual.as_str().map(str::len));
                let length = length.or(actual.as_object().map(Map::len));
                return match length {
                    Some(length) => {
                        self.compare(&format!("{place}.length"), wanted, &length.into())
                    }
                    None => self.differ(place, "a list, a text or an object", actual),
                };
            }
            "$distinct" => match list {
                Some(list) => {
                    let distinct: BTreeSet<_> = list.iter().map(Value::to_string).collect();
                    let place = format!("{place}: number of distinct values");
                    return self.compare(&place, wanted, &distinct.len().into());
                }
                None => false,
            },
            "$all" => match list.filter(|list| !list.is_empty()) {
                Some(list) => {
                    for (n, item) in list.iter().enumerate() {
                        self.compare(&format!("{place}[{n}]"), wanted, item);
                    }
                    return;
                }
                None => false,
            },
            "$some" => list.is_some_and(|list| list.iter().any(|item| self.holds(wanted, item))),
            "$unordered" => match (wanted.as_array(), list) {
                (Some(wanted), Some(list)) => self.unordered(wanted, list),
                _ => false,
            },
            "$as" => {
                let bound = self.bound.entry(text(wanted).to_owned());
                let bound = bound.or_insert_with(|| actual.clone()).clone();
                return match same(&bound, actual) {
                    true => {}
                    false => self.differ(place, &format!("{bound}, the {wanted} before"), actual),
                };
            }
            // Refused by `check_operators`.
            _ => false,
        };
        if !holds {
            self.differ(place, &format!("{name} {}", short(wanted)), actual);
        }
    }

    fn one_of(&mut self, place: &str, wanted: &Value, actual: &Value) {
        let choices = wanted.as_array().into_iter().flatten();
        match choices
            .into_iter()
            .find(|wanted| self.holds(wanted, actual))
        {
            Some(chosen) => self.compare(place, chosen, actual),
            None => self.differ(place, &format!("one of {}", short(wanted)), actual),
        }
    }

    /// Whether each item takes one of the wanted ones, each of them once.
    fn unordered(&self, wanted: &[Value], list: &[Value]) -> bool {
        let mut left: Vec<_> = wanted.iter().collect();
        list.iter().all(|item| {
            let found = left.iter().position(|wanted| self.holds(wanted, item));
            found.map(|at| left.remove(at)).is_some()
        }) && left.is_empty()
    }

    fn holds(&self, wanted: &Value, actual: &Value) -> bool {
        let mut trial = self.clone();
        trial.differences.clear();
        trial.compare("", wanted, actual);
        trial.differences.is_empty()
    }

    fn differ(&mut self, place: &str, expected: &str, actual: &Value) {
        let actual = short(actual);
        self.differences
            .push(format!("{place}: expected {expected}, got {actual}"));
    }
}

const OPERATORS: [&str; 16] = [
    "$absent",
    "$all",
    "$any",
    "$as",
    "$at_least",
    "$at_most",
    "$between",
    "$contains",
    "$distinct",
    "$equals",
    "$length",
    "$not",
    "$one_of",
    "$some",
    "$starts_with",
    "$unordered",
];

/// An error for a `$` member that is no operator, wherever it stands. `$equals` takes any value.
pub(crate) fn check_operators(expected: &Value) -> Result<()> {
    match expected {
        Value::Array(items) => items.iter().try_for_each(check_operators),
        Value::Object(members) => {
            members
                .iter()
                .try_for_each(|(name, value)| match name.as_str() {
                    "$equals" => Ok(()),
                    name if name.starts_with('$') && !OPERATORS.contains(&name) => {
                        Err(format!("no operator {name}"))
                    }
                    _ => check_operators(value),
                })
        }
        _ => Ok(()),
    }
}

/// Equal, where a number is its value: 1 is 1.0.
fn same(one: &Value, other: &Value) -> bool {
    let float = |value: &Value| value.as_f64().filter(|_| value.is_f64());
    let as_floats = float(one).or(float(other)).is_some() && one.as_f64() == other.as_f64();
    one == other || as_floats
}

fn texts<'a>(one: &'a Value, other: &'a Value) -> Option<(&'a str, &'a str)> {
    one.as_str().zip(other.as_str())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A value as text, cut off where it is too long to read.
pub(crate) fn short(value: &Value) -> String {
    let whole = value.to_string();
    match whole.char_indices().nth(2_000) {
        Some((end, _)) => format!("{}... ({} bytes)", &whole[..end], whole.len()),
        None => whole,
    }
}

/// The value at a path: names with dots between them, each with any number of `[2]`, `[-1]` (the
/// last), `[1..3]` and `[]` (all). After a range the rest of the path is taken of every item.
fn lookup(value: &Value, path: &str) -> Option<Value> {
    if path.is_empty() {
        return Some(value.clone());
    }
    if let Some(rest) = path.strip_prefix('[') {
        let (index, rest) = rest.split_once(']')?;
        let list = value.as_array()?;
        let place = |text: &str, default: usize| match text.parse::<i64>() {
            Ok(at) if at < 0 => list.len().checked_sub(usize::try_from(-at).ok()?),
            Ok(at) => usize::try_from(at).ok(),
            Err(_) => Some(default).filter(|_| text.is_empty()),
        };
        let range = match index.split_once("..") {
            Some((from, to)) => place(from, 0)?..place(to, list.len())?,
            None if index.is_empty() => 0..list.len(),
            None => return lookup(list.get(place(index, 0)?)?, rest),
        };
        let items = list.get(range)?.iter().map(|item| lookup(item, rest));
        return items.collect::<Option<Vec<_>>>().map(Value::Array);
    }
    let path = path.strip_prefix('.').unwrap_or(path);
    let end = path.find(['.', '[']).unwrap_or(path.len());
    lookup(value.get(&path[..end])?, &path[end..])
}

//! Recorded routes that an HTTP policy under test does not have, or may have at another place.

use std::collections::HashSet;

use reattempt::config::Fault;
use serde_json::{Map, Value};

use super::Replay;
use crate::policy::{PolicyText, as_value};

impl Replay {
    /// Recorded routes that this policy does not have.
    pub(super) fn unbound(&self, policy: &PolicyText) -> Vec<Fault> {
        let recorded = self.own_policy().and_then(Result::ok);
        let PolicyText::HttpPolicy(text) = policy else {
            return Vec::new();
        };
        if recorded.as_ref() == Some(policy) {
            return Vec::new();
        }
        let routes = |text: &str| {
            let policy = as_value(text);
            policy["routes"].as_array().cloned().unwrap_or_default()
        };
        let tested = routes(text);
        let before = match &recorded {
            Some(PolicyText::HttpPolicy(text)) => routes(text),
            _ => Vec::new(),
        };
        let names: HashSet<&str> = tested.iter().filter_map(name).collect();
        let warning = |recorded: &String| {
            let what = if let Some(number) = number(recorded) {
                let (before, now) = (before.get(number), tested.get(number));
                let same = |before: &Value, now: &Value| {
                    let conditions = |route: &Value| match &route["match"] {
                        Value::Null => Value::Object(Map::new()),
                        matching => matching.clone(),
                    };
                    name(now).is_none() && conditions(before) == conditions(now)
                };
                if before
                    .zip(now)
                    .is_some_and(|(before, now)| same(before, now))
                {
                    return None;
                }
                format!("{recorded} may not be the recorded one: give the routes names")
            } else {
                // Calls that no route matched have an empty one.
                let is_found =
                    ["", "default"].contains(&&**recorded) || names.contains(&**recorded);
                if is_found {
                    return None;
                }
                format!("has no route {recorded:?}: the calls recorded under it take the default")
            };
            Some(Fault::new("$", what))
        };
        self.recording.routes.iter().filter_map(warning).collect()
    }
}

fn name(route: &Value) -> Option<&str> {
    route["name"].as_str()
}

/// Of the name of a route without one, `routes[3]`.
fn number(name: &str) -> Option<usize> {
    let number = name.strip_prefix("routes[")?.strip_suffix(']')?;
    number.parse().ok()
}

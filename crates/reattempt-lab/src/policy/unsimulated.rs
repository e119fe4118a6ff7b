//! Members of a policy that layers look at and the lab does not.

use reattempt::config::Fault;
use serde_json::Value;

use super::{PolicyText, as_value};

const BODIES: &str = "is not simulated: calls have no bodies";
const BALANCING: &str = "is not simulated: the scenario's pick chooses the backend";

/// A warning for each of them.
pub(super) fn members(policy: &PolicyText) -> Vec<Fault> {
    match policy {
        PolicyText::ServiceConfig(text) => service_config(&as_value(text)),
        PolicyText::HttpPolicy(text) => http_policy(&as_value(text)),
        PolicyText::Kv(_) => Vec::new(),
    }
}

/// The items of a list, each with its path.
fn items<'j>(json: &'j Value, name: &str) -> impl Iterator<Item = (String, &'j Value)> {
    let items = json[name].as_array().into_iter().flatten().enumerate();
    let path = format!("$.{name}");
    items.map(move |(at, item)| (format!("{path}[{at}]"), item))
}

/// The member, if it sets something.
fn member(path: &str, json: &Value, name: &str, what: &str) -> Option<Fault> {
    let is_set = !matches!(json[name], Value::Null | Value::Bool(false));
    is_set.then(|| Fault::new(format!("{path}.{name}"), what))
}

fn service_config(json: &Value) -> Vec<Fault> {
    const WAITS: &str =
        "is not simulated: an attempt that finds no connection fails at once in the lab";
    const HEALTH: &str = "is not simulated: the scenario says which backends fail";
    let of_all = [
        ("loadBalancingPolicy", BALANCING),
        ("loadBalancingConfig", BALANCING),
        ("healthCheckConfig", HEALTH),
    ];
    let mut found: Vec<Fault> = Vec::new();
    found.extend(
        of_all
            .iter()
            .filter_map(|(name, what)| member("$", json, name, what)),
    );
    for (path, entry) in items(json, "methodConfig") {
        let of_entry = [
            ("waitForReady", WAITS),
            ("maxRequestMessageBytes", BODIES),
            ("maxResponseMessageBytes", BODIES),
        ];
        found.extend(
            of_entry
                .iter()
                .filter_map(|(name, what)| member(&path, entry, name, what)),
        );
    }
    found
}

fn http_policy(json: &Value) -> Vec<Fault> {
    const KEYS: &str =
        "is not simulated: calls have no headers; say idempotent in the scenario's call instead";
    const HOSTS: &str = "is not simulated: calls of a scenario have no host, and never match \
                         (a replay finds the route by its name)";
    let default = [("$.default".to_owned(), &json["default"])];
    let mut found = Vec::new();
    for (path, route) in items(json, "routes").chain(default) {
        let of_route = [
            ("bodyTimeout", BODIES),
            ("bodyLimit", BODIES),
            ("idempotencyKey", KEYS),
        ];
        let matching = format!("{path}.match");
        found.extend(member(&matching, &route["match"], "host", HOSTS));
        found.extend(
            of_route
                .iter()
                .filter_map(|(name, what)| member(&path, route, name, what)),
        );
    }
    found
}

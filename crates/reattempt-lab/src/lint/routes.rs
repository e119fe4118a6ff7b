//! The routes of a policy.

use std::sync::Arc;

use reattempt::RoutePolicy;
use reattempt::config::Form;
use serde_json::Value;

use crate::policy::{Parsed, PolicyText, Simulated, as_value};

/// The routes of a new copy of a policy: its throttles are full.
pub(super) fn policies(text: &PolicyText, by: &Simulated) -> Vec<Arc<RoutePolicy>> {
    let parsed = text.parse(by);
    let routes = parsed.map_or(Vec::new(), |parsed| routes(&parsed, text));
    routes.into_iter().map(|route| route.policy).collect()
}

pub(super) const KV: &str = "kv";

/// A route of a policy.
pub(super) struct Route {
    pub(super) path: String,
    /// Where its throttle stands, which other routes may have too.
    pub(super) throttle: Option<String>,
    /// Of the policies of its calls: an entry of a service config has one for each of its names.
    pub(super) names: Vec<String>,
    /// The first of them.
    pub(super) policy: Arc<RoutePolicy>,
}

pub(super) fn routes(parsed: &Parsed, text: &PolicyText) -> Vec<Route> {
    let found = |path: String, policy: &Arc<RoutePolicy>| Route {
        path,
        throttle: None,
        names: vec![policy.name().to_owned()],
        policy: Arc::clone(policy),
    };
    match (parsed, text) {
        (Parsed::Http(policies), PolicyText::HttpPolicy(text)) => {
            let json = as_value(text);
            let count = json["routes"].as_array().map_or(0, Vec::len);
            let path = |at: usize| match at {
                at if at < count => format!("$.routes[{at}]"),
                _ => "$.default".to_owned(),
            };
            let throttle = |at: usize| {
                let route = json["routes"].get(at).unwrap_or(&json["default"]);
                route["throttle"].as_str().and_then(place_of_throttle)
            };
            let policies = policies.iter().enumerate();
            let route = |(at, policy)| Route {
                throttle: throttle(at),
                ..found(path(at), policy)
            };
            policies.map(route).collect()
        }
        (Parsed::Grpc(config), PolicyText::ServiceConfig(text)) => {
            let json = as_value(text);
            let entries = json["methodConfig"].as_array().cloned().unwrap_or_default();
            let policy = |name: &Value| {
                let part = |part: &str| name[part].as_str().unwrap_or_default().to_owned();
                let method = format!("/{}/{}", part("service"), part("method"));
                Arc::clone(&config.method(&method).policy)
            };
            let entry = |(at, entry): (usize, &Value)| {
                let names = entry["name"].as_array().map_or(&[][..], Vec::as_slice);
                let names = names.iter().map(|name| policy(name).name().to_owned());
                Route {
                    throttle: Some("$.retryThrottling".to_owned()),
                    names: names.collect(),
                    ..found(format!("$.methodConfig[{at}]"), &policy(&entry["name"][0]))
                }
            };
            entries.iter().enumerate().map(entry).collect()
        }
        (Parsed::Kv(strategy), _) => {
            let policy = RoutePolicy::new(KV).retry(Arc::clone(strategy));
            vec![found("$".to_owned(), &Arc::new(policy))]
        }
        _ => Vec::new(),
    }
}

/// Where the throttle with this name stands in an HTTP policy, as the reader of documents writes
/// it: not every name may follow a dot.
fn place_of_throttle(name: &str) -> Option<String> {
    let path = Form::new("the policy").read("null", |place, _| {
        Some(place.field("throttles").field(name).path())
    });
    path.ok().map(|(path, _)| path)
}

//! Which route of a policy a call takes.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use http::Request;
use reattempt::{Route, RoutePolicy};

use super::Parsed;
use crate::load::CallKind;

/// The routes of a policy: by method and path, and by the names that a recording has of them.
#[derive(Debug)]
pub(crate) struct Routes<'a> {
    pub(super) parsed: &'a Parsed,
    /// Made for the first name that is looked up; of two routes with one name the first.
    named: OnceCell<HashMap<&'a str, &'a Arc<RoutePolicy>>>,
}

impl<'a> Routes<'a> {
    pub(crate) const fn of(parsed: &'a Parsed) -> Self {
        Self {
            parsed,
            named: OnceCell::new(),
        }
    }

    /// The policy of the route that a call takes.
    pub(crate) fn policy(&self, kind: &CallKind) -> Option<Arc<RoutePolicy>> {
        match (self.parsed, &kind.route) {
            (Parsed::Grpc(config), None) => config.route(&request(kind)),
            (Parsed::Http(policies), None) => policies.route(&request(kind)),
            (Parsed::Grpc(config), Some(name)) => {
                // The name of an entry is that of a method, or of a service.
                let config = if name.contains('/') {
                    config.method(name)
                } else {
                    config.method(&format!("{name}/"))
                };
                Some(Arc::clone(&config.policy))
            }
            (Parsed::Http(policies), Some(name)) => {
                let named = self.named.get_or_init(|| {
                    let mut named = HashMap::new();
                    for policy in policies.iter() {
                        named.entry(policy.name()).or_insert(policy);
                    }
                    named
                });
                let found = named.get(&**name).or_else(|| named.get("default"));
                found.map(|policy| Arc::clone(policy))
            }
            (Parsed::Kv(_), _) => None,
        }
    }
}

/// A request of this kind.
pub(super) fn request(kind: &CallKind) -> Request<()> {
    let request = Request::builder().method(&*kind.method).uri(&*kind.path);
    // Both were checked when the scenario was read.
    request.body(()).unwrap_or_default()
}

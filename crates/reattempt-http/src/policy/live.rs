//! A table that is replaced while calls go on.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use http::Request;
use reattempt::{Route, RoutePolicy};

use super::HttpPolicies;
use crate::json::{Fault, Faults};

/// A table of policies that is replaced live, with the throttles that it carries along. Clones
/// share the table.
///
/// [`update`](Self::update) reads a text first and puts it in force only when it can be used: then
/// table and throttles change in one step. A call keeps the policy it started with. Throttles of
/// the same name go over to the new table and keep the fraction to which they are filled; hedge
/// budgets of routes of the same name keep what was saved. A name that is gone is forgotten.
///
/// ```
/// use reattempt::RouteLayer;
/// use reattempt_http::{HttpPolicies, LiveHttpPolicies};
///
/// let live = LiveHttpPolicies::new(HttpPolicies::parse(r#"{"default": {"timeout": "5s"}}"#)?.policies);
/// let layer = RouteLayer::new(live.clone());
/// assert!(live.update(r#"{"default": {"timeout": "5m"}}"#).is_err()); // nothing has changed
/// let warnings = live.update(r#"{"default": {"timeout": "2s"}}"#)?;
/// assert!(warnings.is_empty());
/// # drop(layer);
/// # Ok::<(), reattempt_http::json::Faults>(())
/// ```
#[derive(Clone)]
pub struct LiveHttpPolicies(Arc<Shared>);

struct Shared {
    /// Held while a newer table is made of the one in force.
    updating: Mutex<()>,
    current: RwLock<Arc<HttpPolicies>>,
}

impl LiveHttpPolicies {
    /// Begins with this table. Newer ones are read with its options.
    #[must_use]
    pub fn new(policies: HttpPolicies) -> Self {
        Self(Arc::new(Shared {
            updating: Mutex::new(()),
            current: RwLock::new(Arc::new(policies)),
        }))
    }

    /// Reads a table and puts it in force for calls that start from now on. Gives the warnings; a
    /// text that cannot be used changes nothing, and the error says all that is wrong with it.
    pub fn update(&self, text: &str) -> Result<Vec<Fault>, Faults> {
        let updating = &self.0.updating;
        let _updating = updating.lock().unwrap_or_else(PoisonError::into_inner);
        let parsed = self.load().successor(text)?;
        let next = Arc::new(parsed.policies);
        let old = {
            let current = &self.0.current;
            let mut current = current.write().unwrap_or_else(PoisonError::into_inner);
            parsed.carried.reconfigure();
            std::mem::replace(&mut *current, next)
        };
        // Perhaps the last hold on a large table: freed while nobody waits for the lock.
        drop(old);
        Ok(parsed.warnings)
    }

    /// The table in force.
    #[must_use]
    pub fn load(&self) -> Arc<HttpPolicies> {
        let current = self.0.current.read();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for LiveHttpPolicies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveHttpPolicies")
            .field(&self.load())
            .finish()
    }
}

impl<B> Route<Request<B>> for LiveHttpPolicies {
    fn route(&self, request: &Request<B>) -> Option<Arc<RoutePolicy>> {
        let current = self.0.current.read();
        current
            .unwrap_or_else(PoisonError::into_inner)
            .route(request)
    }
}

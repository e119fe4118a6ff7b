//! A table that can be replaced at runtime.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use http::Request;
use reattempt::config::{Fault, Faults};
use reattempt::{Route, RoutePolicy, Routes};

use super::HttpPolicies;

/// A table of policies that can be replaced at runtime, together with its throttles. Clones share
/// the table.
///
/// [`update`](Self::update) parses a text first and applies it only if it is valid: the whole table
/// is swapped at once. A call keeps the policy that it started with. Throttles with an
/// unchanged name are carried over and keep their fill fraction; hedge budgets of routes with an
/// unchanged name keep their balance. Removed names are dropped.
///
/// ```
/// use reattempt::RouteLayer;
/// use reattempt_http::{HttpPolicies, LiveHttpPolicies};
///
/// let first = HttpPolicies::parse(r#"{"default": {"timeout": "5s"}}"#)?.policies;
/// let live = LiveHttpPolicies::new(first);
/// let layer = RouteLayer::new(live.clone());
/// assert!(live.update(r#"{"default": {"timeout": "5m"}}"#).is_err()); // nothing has changed
/// let warnings = live.update(r#"{"default": {"timeout": "2s"}}"#)?;
/// assert!(warnings.is_empty());
/// # drop(layer);
/// # Ok::<(), reattempt::config::Faults>(())
/// ```
#[derive(Clone)]
pub struct LiveHttpPolicies(Arc<Shared>);

struct Shared {
    /// Held while a new table is built from the current one.
    updating: Mutex<()>,
    current: Routes<HttpPolicies>,
}

impl LiveHttpPolicies {
    /// Starts with this table. Later ones are parsed with its options.
    #[must_use]
    pub fn new(policies: HttpPolicies) -> Self {
        Self(Arc::new(Shared {
            updating: Mutex::new(()),
            current: Routes::new(policies),
        }))
    }

    /// Parses a table and applies it to calls that start from now on. Returns the warnings; an
    /// invalid text changes nothing, and the error contains all its faults.
    pub fn update(&self, text: &str) -> Result<Vec<Fault>, Faults> {
        let updating = &self.0.updating;
        let _updating = updating.lock().unwrap_or_else(PoisonError::into_inner);
        let parsed = self.load().successor(text)?;
        // Calls in flight share the throttles that are carried over: with their old policies they
        // use the new parameters from here on.
        parsed.carried.reconfigure();
        self.0.current.swap(parsed.policies);
        Ok(parsed.warnings)
    }

    /// Follows a file: loads it now, and again whenever its content changes; a path, or a
    /// [`Follow`](reattempt::config::follow::Follow) with an interval. A bad update keeps the last
    /// good table and is logged at WARN with its first faults. See [`reattempt::config::follow`].
    ///
    /// The file is followed until the returned handle is dropped, or the last clone of this one.
    ///
    /// # Errors
    /// If the file cannot be read or has faults now; then nothing changes, and nothing is followed.
    ///
    /// ```
    /// use reattempt_http::LiveHttpPolicies;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let name = format!("reattempt-policies-{}", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// # std::fs::write(&path, r#"{"default": {"timeout": "5s"}}"#)?;
    /// let live = LiveHttpPolicies::default();
    /// let following = live.follow(&path).await?;
    /// for warning in following.warnings() {
    ///     eprintln!("{warning}");
    /// }
    /// let layer = reattempt::RouteLayer::new(live.clone());
    /// # std::fs::remove_file(&path)?;
    /// # drop(layer);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "tokio")]
    pub async fn follow(
        &self,
        file: impl Into<reattempt::config::follow::Follow>,
    ) -> Result<reattempt::config::follow::Following, reattempt::config::follow::FollowError> {
        let update = |shared: &Arc<Shared>, text: &str| Self(Arc::clone(shared)).update(text);
        file.into().start(&self.0, update).await
    }

    /// The current table.
    #[must_use]
    pub fn load(&self) -> Arc<HttpPolicies> {
        self.0.current.load()
    }
}

/// An empty table: every call is left to the layers' own settings.
impl Default for LiveHttpPolicies {
    fn default() -> Self {
        Self::new(HttpPolicies::default())
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
        self.0.current.route(request)
    }
}

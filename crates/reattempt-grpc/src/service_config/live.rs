//! The service config of one server name, which can be replaced while calls are in progress.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use reattempt::config::{Fault, Faults};
use reattempt::{Route, RoutePolicy, Routes, TokenBucket};

use super::document::Document;
use super::{Options, ServiceConfig};

/// The service config in force for one server name, and its token bucket. Clones share both, so
/// channels to the same server use one.
///
/// [`update`](Self::update) parses and validates a text first, and then changes the bucket's
/// parameters and swaps the config. An invalid text changes nothing: the last good config stays
/// (A21). A call keeps the policy it started with for all its attempts; the bucket belongs to the
/// server name, so it uses the new parameters from then on.
///
/// - **Fill.** The bucket keeps its fill fraction through every update. Under a config without
///   `retryThrottling` it neither counts nor throttles; the next config that has it continues with
///   the earlier fraction.
/// - **No config.** The default config applies until there is a config, and after
///   [`use_default`](Self::use_default). Without a default, calls are neither retried nor hedged.
///
/// ```
/// use reattempt::RouteLayer;
/// use reattempt_grpc::service_config::{LiveServiceConfig, Options};
///
/// let live = LiveServiceConfig::with_default(
///     r#"{"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}"#,
///     Options::new(),
/// )?;
/// let layer = RouteLayer::new(live.clone());
///
/// // Later, with each text from the resolver:
/// let refused = live
///     .update(r#"{"methodConfig": [{"name": [{}], "timeout": "soon"}]}"#)
///     .unwrap_err();
/// assert_eq!(refused.faults()[0].path, "$.methodConfig[0].timeout");
/// let warnings = live.update(
///     r#"{"methodConfig": [{"name": [{}], "timeout": "2s"}], "colour": "red"}"#,
/// )?;
/// assert_eq!(warnings[0].path, "$.colour");
/// # drop(layer);
/// # Ok::<(), reattempt::config::Faults>(())
/// ```
#[derive(Clone)]
pub struct LiveServiceConfig(Arc<Shared>);

struct Shared {
    options: Options,
    default: Document,
    /// The bucket of the server name, created by the first config that needs one. Locked while a
    /// config is put in force.
    bucket: Mutex<Option<Arc<TokenBucket>>>,
    current: Routes<ServiceConfig>,
    /// The warnings of the last update. A resolver sends the same config again and again.
    warned: Mutex<Vec<Fault>>,
}

impl LiveServiceConfig {
    /// Without a config and without a default.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self::beginning_with(Document::empty(&options), options)
    }

    /// With a default config, which applies until there is another.
    pub fn with_default(text: &str, options: Options) -> Result<Self, Faults> {
        let default = Document::parse(text, &options)?;
        options.log(&default.warnings);
        Ok(Self::beginning_with(default, options))
    }

    fn beginning_with(default: Document, options: Options) -> Self {
        let bucket = default.throttling.and_then(|numbers| numbers.bucket());
        Self(Arc::new(Shared {
            options,
            current: Routes::new(default.config(bucket.clone(), None)),
            default,
            bucket: Mutex::new(bucket),
            warned: Mutex::default(),
        }))
    }

    /// Parses a config and puts it in force for calls that start from now on. Returns the warnings,
    /// and logs those of what has no effect ([`Options::log_warnings`]), unless the last update had
    /// the same ones. An invalid text changes nothing, and the error lists all its faults.
    pub fn update(&self, text: &str) -> Result<Vec<Fault>, Faults> {
        let warnings = self.replace(text)?;
        let warned = self.0.warned.lock();
        let mut warned = warned.unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *warned, warnings.clone());
        drop(warned);
        if before != warnings {
            self.0.options.log(&warnings);
        }
        Ok(warnings)
    }

    fn replace(&self, text: &str) -> Result<Vec<Fault>, Faults> {
        let document = Document::parse(text, &self.0.options)?;
        self.put_in_force(&document);
        Ok(document.warnings)
    }

    /// The resolver found no config, or no [choice](super::choices) applies to this client: the
    /// default config applies (A21).
    pub fn use_default(&self) {
        self.put_in_force(&self.0.default);
    }

    /// Follows a file: loads it now, and again whenever its content changes; a path, or a
    /// [`Follow`](reattempt::config::follow::Follow) with an interval. A bad update keeps the last
    /// good config and is logged at WARN with its first faults. See [`reattempt::config::follow`].
    ///
    /// The file is followed until the returned handle is dropped, or the last clone of this one.
    ///
    /// # Errors
    /// If the file cannot be read or has faults now; then nothing changes, and nothing is followed.
    ///
    /// ```
    /// use reattempt_grpc::service_config::LiveServiceConfig;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = std::env::temp_dir().join(format!("reattempt-config-{}", std::process::id()));
    /// # std::fs::write(&path, r#"{"methodConfig": []}"#)?;
    /// let live = LiveServiceConfig::default();
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
        let replace = |shared: &Arc<Shared>, text: &str| Self(Arc::clone(shared)).replace(text);
        let following = file.into().start(&self.0, replace).await?;
        // Those of every later text are logged where the file is followed.
        self.0.options.log(&following.warnings());
        Ok(following)
    }

    /// The config in force.
    #[must_use]
    pub fn load(&self) -> Arc<ServiceConfig> {
        self.0.current.load()
    }

    fn put_in_force(&self, document: &Document) {
        let bucket = &self.0.bucket;
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let in_use = document.throttling.and_then(|numbers| {
            if bucket.is_none() {
                *bucket = numbers.bucket();
            }
            bucket.clone()
        });
        let next = document.config(in_use.clone(), Some(&self.load()));
        if let (Some(numbers), Some(bucket)) = (document.throttling, &in_use) {
            numbers.reconfigure(bucket);
        }
        self.0.current.swap(next);
    }
}

impl Default for LiveServiceConfig {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl fmt::Debug for LiveServiceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveServiceConfig")
            .field(&self.load())
            .finish()
    }
}

impl<B> Route<http::Request<B>> for LiveServiceConfig {
    fn route(&self, request: &http::Request<B>) -> Option<Arc<RoutePolicy>> {
        self.0.current.route(request)
    }
}

//! The service config of one server name, replaced while calls go on.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use reattempt::{Route, RoutePolicy, TokenBucket};

use super::document::Document;
use super::{ConfigFault, InvalidServiceConfig, Options, ServiceConfig};

/// The service config in force for one server name, and the token bucket of that name. Clones share
/// both, so channels to the same server share one.
///
/// [`update`](Self::update) reads and checks a text first and then, in one step, changes the config
/// and the numbers of the bucket. A text that cannot be used changes nothing: the last good config
/// stays (A21). A call keeps the policy with which it started, for all its attempts; the bucket is
/// the one of the name, so it counts by the new numbers from then on.
///
/// - **Fill.** The bucket keeps the fraction to which it is filled, through every update. A config
///   without `retryThrottling` neither counts nor throttles; the next one that has it goes on with
///   the fraction of before.
/// - **No config.** Until there is one, and after [`use_default`](Self::use_default), the default
///   config holds; without one calls are neither retried nor hedged.
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
/// // Later, whatever the resolver brings:
/// let refused = live
///     .update(r#"{"methodConfig": [{"name": [{}], "timeout": "soon"}]}"#)
///     .unwrap_err();
/// assert_eq!(refused.faults()[0].path, "$.methodConfig[0].timeout");
/// let warnings = live.update(
///     r#"{"methodConfig": [{"name": [{}], "timeout": "2s"}], "colour": "red"}"#,
/// )?;
/// assert_eq!(warnings[0].path, "$.colour");
/// # drop(layer);
/// # Ok::<(), reattempt_grpc::service_config::InvalidServiceConfig>(())
/// ```
#[derive(Clone)]
pub struct LiveServiceConfig(Arc<Shared>);

struct Shared {
    options: Options,
    default: Document,
    /// The bucket of the name, from the first config on that asks for one. Held while a config is
    /// put in force.
    bucket: Mutex<Option<Arc<TokenBucket>>>,
    current: RwLock<Arc<ServiceConfig>>,
}

impl LiveServiceConfig {
    /// Without a config yet, and without a default.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self::beginning_with(Document::empty(&options), options)
    }

    /// With this default config: it holds until there is another.
    pub fn with_default(text: &str, options: Options) -> Result<Self, InvalidServiceConfig> {
        let default = Document::parse(text, &options)?;
        Ok(Self::beginning_with(default, options))
    }

    fn beginning_with(default: Document, options: Options) -> Self {
        let bucket = default.throttling.and_then(|numbers| numbers.bucket());
        Self(Arc::new(Shared {
            options,
            current: RwLock::new(Arc::new(default.config(bucket.clone()))),
            default,
            bucket: Mutex::new(bucket),
        }))
    }

    /// Reads a config and puts it in force for calls that start from now on. Gives the warnings; a
    /// text that cannot be used changes nothing, and the error says all that is wrong with it.
    pub fn update(&self, text: &str) -> Result<Vec<ConfigFault>, InvalidServiceConfig> {
        let document = Document::parse(text, &self.0.options)?;
        self.put_in_force(&document);
        Ok(document.warnings)
    }

    /// The resolver found no config, or no [choice](super::choices) was for this client: the
    /// default one holds (A21).
    pub fn use_default(&self) {
        self.put_in_force(&self.0.default);
    }

    /// The config in force.
    #[must_use]
    pub fn load(&self) -> Arc<ServiceConfig> {
        let current = self.0.current.read();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
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
        let next = Arc::new(document.config(in_use.clone()));
        let old = {
            let current = &self.0.current;
            let mut current = current.write().unwrap_or_else(PoisonError::into_inner);
            if let (Some(numbers), Some(bucket)) = (document.throttling, &in_use) {
                numbers.reconfigure(bucket);
            }
            std::mem::replace(&mut *current, next)
        };
        // Perhaps the last hold on a large config: freed while no call waits for the lock.
        drop(old);
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
        let current = self.0.current.read();
        current
            .unwrap_or_else(PoisonError::into_inner)
            .route(request)
    }
}

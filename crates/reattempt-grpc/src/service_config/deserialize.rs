//! A service config inside of a program's own settings.

use reattempt::config;
use serde::{Deserialize, Deserializer};

use super::ServiceConfig;

/// With feature `serde`, a service config can stand in a program's own settings: TOML, YAML, or any
/// other format. All faults are in the message of one error.
///
/// ```
/// use std::time::Duration;
/// use reattempt_grpc::service_config::ServiceConfig;
///
/// #[derive(Debug, serde::Deserialize)]
/// struct Settings {
///     grpc: ServiceConfig,
/// }
///
/// let settings: Settings = toml::from_str(r#"
///     [grpc.retryThrottling]
///     maxTokens = 10
///     tokenRatio = 0.1
///
///     [[grpc.methodConfig]]
///     name = [{ service = "shop.Cart" }]
///     timeout = "5s"
/// "#)?;
/// let policy = &settings.grpc.method("/shop.Cart/Add").policy;
/// assert_eq!(policy.timeout(), Some(Duration::from_secs(5)));
///
/// let error = toml::from_str::<Settings>(r#"
///     [grpc.retryThrottling]
///     maxTokens = 0
/// "#).unwrap_err();
/// let all = error.message();
/// assert!(all.contains("$.retryThrottling.maxTokens: must be an integer from 1 to 1000, got 0"));
/// assert!(all.contains("$.retryThrottling.tokenRatio: is missing"));
/// # Ok::<(), toml::de::Error>(())
/// ```
impl<'de> Deserialize<'de> for ServiceConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        config::deserialize(deserializer, Self::parse)
    }
}

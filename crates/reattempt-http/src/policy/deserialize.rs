//! Policies inside of a program's own settings.

use reattempt::config;
use serde::{Deserialize, Deserializer};

use super::{FORM, HttpPolicies, Parsed};

/// With feature `serde`, policies can stand in a program's own settings: TOML, YAML, or any other
/// format. All faults are in the message of one error. Warnings of what has no effect are logged;
/// to have them, deserialize [`Parsed`].
///
/// ```
/// use std::time::Duration;
/// use http::Request;
/// use reattempt::Route;
/// use reattempt_http::HttpPolicies;
///
/// #[derive(Debug, serde::Deserialize)]
/// struct Settings {
///     listen: String,
///     retries: HttpPolicies,
/// }
///
/// let settings: Settings = toml::from_str(r#"
///     listen = "127.0.0.1:80"
///
///     [[retries.routes]]
///     name = "reads"
///     match = { methods = ["GET"], prefix = "/v1/" }
///     retry = { maxAttempts = 3 }
///     timeout = "2s"
///
///     [retries.default]
///     timeout = "5s"
/// "#)?;
/// let reads = settings.retries.route(&Request::get("/v1/items").body(())?);
/// assert_eq!(reads.unwrap().timeout(), Some(Duration::from_secs(2)));
///
/// let error = toml::from_str::<Settings>(r#"
///     listen = "127.0.0.1:80"
///     retries.default = { timeout = "5m", retry = { maxAttempts = 0 } }
/// "#).unwrap_err();
/// let all = error.message();
/// assert!(all.contains("$.default.retry.maxAttempts: must be an integer from 1 to 1000, got 0"));
/// assert!(all.contains("$.default.timeout: must be a duration"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'de> Deserialize<'de> for HttpPolicies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Parsed { policies, warnings } = Parsed::deserialize(deserializer)?;
        config::log_warnings(FORM.subject, &warnings);
        Ok(policies)
    }
}

/// Policies with their warnings, with feature `serde`.
impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        config::deserialize(deserializer, HttpPolicies::parse)
    }
}

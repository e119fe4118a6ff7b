//! An error map inside of a program's own settings.

use reattempt::config;
use serde::{Deserialize, Deserializer};

use super::ErrorMap;

/// With feature `serde`, an error map can stand in a program's own settings: TOML, YAML, or any
/// other format. The names of statuses are strings there. All faults are in the message of one
/// error; skipped entries are in [`ErrorMap::faults`].
///
/// ```
/// use reattempt_couchbase::ErrorMap;
///
/// #[derive(serde::Deserialize)]
/// struct Settings {
///     error_map: ErrorMap,
/// }
///
/// let settings: Settings = toml::from_str(r#"
///     [error_map]
///     version = 2
///     revision = 1
///
///     [error_map.errors.F1]
///     name = "BUSY"
///     attrs = ["temp", "retry-later"]
/// "#)?;
/// assert!(settings.error_map.get(0xf1).unwrap().attributes().retry());
/// # Ok::<(), toml::de::Error>(())
/// ```
impl<'de> Deserialize<'de> for ErrorMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        config::deserialize(deserializer, |text| Self::parse(text.as_bytes()))
    }
}

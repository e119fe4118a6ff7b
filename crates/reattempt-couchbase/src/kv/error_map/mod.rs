//! The KV error map: the server's description of statuses that a client does not know (RFC 0013).

mod attributes;
#[cfg(feature = "serde")]
mod deserialize;
mod parse;
mod retry_spec;
#[cfg(test)]
mod tests;

use reattempt::config::{Fault, Faults};

pub use attributes::Attributes;
pub use retry_spec::{RetrySpec, SpecStrategy};

/// The version to request from a server with GET_ERROR_MAP. Maps of any version are parsed.
pub const REQUEST_VERSION: u16 = 2;

/// The maximum size of a map in bytes; today's largest has 40 KiB.
pub const MAX_BYTES: usize = 1 << 20;

/// A server's error map (RFC 0013, Parsing the Error Map).
///
/// Versions 1 and 2 are supported; of higher versions, the known members are used. Unknown
/// attributes are ignored. An entry that cannot be parsed is skipped and
/// [reported](ErrorMap::faults); the other entries are used.
///
/// ```
/// use reattempt_couchbase::ErrorMap;
///
/// let map = ErrorMap::parse(br#"{"version": 2, "revision": 1, "errors": {
///     "F1": {"name": "BUSY", "desc": "come back", "attrs": ["temp", "retry-later", "new"]},
///     "zz": {"attrs": []}
/// }}"#)?;
/// assert!(map.get(0xf1).unwrap().attributes().retry());
/// assert_eq!(
///     map.faults()[0].to_string(),
///     "$.errors.zz: the key must be a status in hex, 0 to ffff; the entry is skipped"
/// );
/// # Ok::<_, reattempt::config::Faults>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMap {
    version: u64,
    revision: u64,
    /// Sorted, with each entry at the same index: a binary search in a few hundred bytes finds one.
    statuses: Box<[u16]>,
    entries: Box<[ErrorMapEntry]>,
    faults: Vec<Fault>,
}

impl ErrorMap {
    /// Parses a map.
    ///
    /// # Errors
    /// Every reason why it cannot be used: it is too large, not JSON, without object `errors`, or
    /// has a `version` or `revision` that is no whole number. The connection then continues without
    /// a map.
    pub fn parse(json: &[u8]) -> Result<Self, Faults> {
        let (map, faults) = parse::FORM.read(json, parse::map)?;
        Ok(Self { faults, ..map })
    }

    /// The version of the format; 1 if the map has none.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The revision of its contents; 0 if the map has none.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// The entry of a status.
    #[must_use]
    pub fn get(&self, status: u16) -> Option<&ErrorMapEntry> {
        let at = self.statuses.binary_search(&status).ok()?;
        self.entries.get(at)
    }

    /// The number of statuses in the map.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if it has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The faults that did not prevent the use of the map, and the members that are not known.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }
}

/// A map's entry for one status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMapEntry {
    name: Option<Box<str>>,
    description: Option<Box<str>>,
    attributes: Attributes,
    retry: Option<RetrySpec>,
}

impl ErrorMapEntry {
    /// The name, if there is one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The description, if there is one.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The attributes of the status.
    #[must_use]
    pub const fn attributes(&self) -> Attributes {
        self.attributes
    }

    /// The retry specification of the status. Used only by
    /// [`ErrorMapStrategy`](super::ErrorMapStrategy).
    #[must_use]
    pub const fn retry_spec(&self) -> Option<&RetrySpec> {
        self.retry.as_ref()
    }
}

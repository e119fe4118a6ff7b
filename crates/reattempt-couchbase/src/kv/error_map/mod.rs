//! The KV error map: what a server says of statuses that a client does not know (RFC 0013).

mod attributes;
mod fault;
mod parse;
mod retry_spec;
#[cfg(test)]
mod tests;

pub use attributes::Attributes;
pub use fault::{ErrorMapError, ErrorMapFault};
pub use retry_spec::{RetrySpec, SpecStrategy};

/// The version to ask a server for with GET_ERROR_MAP. Answers of any version are read.
pub const REQUEST_VERSION: u16 = 2;

/// The most bytes of a map that are read; today's largest has 40 KiB.
pub const MAX_BYTES: usize = 1 << 20;

/// A server's error map (RFC 0013, Parsing the Error Map).
///
/// Versions 1 and 2 are read, and of higher ones what is understood of them. Unknown attributes are
/// ignored. An entry that cannot be read is skipped and [reported](ErrorMap::faults), and the rest
/// of the map is used.
///
/// ```
/// use reattempt_couchbase::ErrorMap;
///
/// let map = ErrorMap::parse(br#"{"version": 2, "revision": 1, "errors": {
///     "F1": {"name": "BUSY", "desc": "come back", "attrs": ["temp", "retry-later", "of-tomorrow"]},
///     "zz": {"attrs": []}
/// }}"#)?;
/// assert!(map.get(0xf1).unwrap().attributes().retry());
/// assert_eq!(
///     map.faults()[0].to_string(),
///     "$.errors.zz: the key must be a status in hex, 0 to ffff; the entry is skipped"
/// );
/// # Ok::<_, reattempt_couchbase::kv::ErrorMapError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ErrorMap {
    version: u64,
    revision: u64,
    /// In order, and each one's entry at the same place: a handful of steps through a few hundred
    /// bytes finds one.
    statuses: Box<[u16]>,
    entries: Box<[ErrorMapEntry]>,
    faults: Vec<ErrorMapFault>,
}

impl ErrorMap {
    /// Reads a map.
    ///
    /// # Errors
    /// If it is too large, not JSON, or has no object of `errors`. The connection then goes on
    /// without a map.
    pub fn parse(json: &[u8]) -> Result<Self, ErrorMapError> {
        // There is no refusal without a reason.
        Self::check(json).map_err(|mut refused| refused.swap_remove(0))
    }

    /// Reads a map as [`ErrorMap::parse`] does, for who wants all reasons why it cannot be used.
    ///
    /// # Errors
    /// All of them, at least one.
    pub fn check(json: &[u8]) -> Result<Self, Vec<ErrorMapError>> {
        parse::map(json)
    }

    /// The format's version; 1 if the map does not say.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The revision of its contents; 0 if the map does not say.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// What it says of a status.
    #[must_use]
    pub fn get(&self, status: u16) -> Option<&ErrorMapEntry> {
        let at = self.statuses.binary_search(&status).ok()?;
        self.entries.get(at)
    }

    /// How many statuses it knows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if it knows none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What was wrong with it and did not keep it from being used.
    #[must_use]
    pub fn faults(&self) -> &[ErrorMapFault] {
        &self.faults
    }
}

/// What a map says of one status.
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

    /// What the server says about the status.
    #[must_use]
    pub const fn attributes(&self) -> Attributes {
        self.attributes
    }

    /// How the server would have it retried. Used by [`ErrorMapStrategy`](super::ErrorMapStrategy)
    /// only.
    #[must_use]
    pub const fn retry_spec(&self) -> Option<&RetrySpec> {
        self.retry.as_ref()
    }
}

//! The vbucket of a key, and the node that owns a vbucket.

/// The maximum number of vbuckets: the hash has fifteen bits.
pub(super) const MAX_VBUCKETS: usize = 1 << 15;

/// The vbucket of a key among this many vbuckets: fifteen middle bits of the key's CRC-32.
///
/// The key is the document's key, without a collection prefix. `None` if there are no vbuckets.
///
/// ```
/// use reattempt_couchbase::cluster_config::vbucket_of;
///
/// assert_eq!(vbucket_of(b"foo", 1024), Some(115));
/// ```
#[must_use]
pub fn vbucket_of(key: &[u8], vbuckets: usize) -> Option<u16> {
    KeyHash::of(key).vbucket(vbuckets)
}

/// The part of a key that determines its vbucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHash(u16);

impl KeyHash {
    pub(super) fn of(key: &[u8]) -> Self {
        // The cast is exact: fifteen bits remain.
        Self(((crc32fast::hash(key) >> 16) & 0x7fff) as u16)
    }

    pub(super) fn vbucket(self, vbuckets: usize) -> Option<u16> {
        let vbucket = usize::from(self.0).checked_rem(vbuckets)?;
        u16::try_from(vbucket).ok()
    }
}

/// Where one configuration places a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The key's vbucket.
    pub vbucket: u16,
    /// The node that owns it, as an index into `ClusterConfig::nodes`; `None` while no node does.
    pub node: Option<usize>,
}

/// The node that owns each vbucket, now and, during a rebalance, after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VbucketMap {
    /// The node of each entry of the server list.
    servers: Box<[usize]>,
    current: Copies,
    forward: Option<Copies>,
}

/// The servers of all copies of all vbuckets, `width` of them for each: the active one, then
/// replicas; -1 means none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Copies {
    pub(super) width: usize,
    pub(super) servers: Box<[i32]>,
}

impl VbucketMap {
    /// Every server number in `current` and `forward` is within `servers`; the parser ensures it.
    pub(super) fn new(servers: Vec<usize>, current: Copies, forward: Option<Copies>) -> Self {
        Self {
            servers: servers.into(),
            current,
            forward,
        }
    }

    /// The number of vbuckets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.current.servers.len() / self.current.width.max(1)
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.current.servers.is_empty()
    }

    /// The number of copies per vbucket in the map, including the active one.
    #[must_use]
    pub const fn copies(&self) -> usize {
        self.current.width
    }

    /// The key's current vbucket and node; `None` if there are no vbuckets.
    #[must_use]
    pub fn route(&self, key: &[u8]) -> Option<Route> {
        self.route_hash(KeyHash::of(key))
    }

    pub(super) fn route_hash(&self, hash: KeyHash) -> Option<Route> {
        let vbucket = hash.vbucket(self.len())?;
        let node = self.node(vbucket, 0);
        Some(Route { vbucket, node })
    }

    /// The node with a copy of the vbucket: copy 0 is the active one, 1 the first replica.
    #[must_use]
    pub fn node(&self, vbucket: u16, copy: usize) -> Option<usize> {
        self.server(&self.current, vbucket, copy)
    }

    /// True during a rebalance that will change the map (a fast-forward map exists).
    #[must_use]
    pub const fn is_changing(&self) -> bool {
        self.forward.is_some()
    }

    /// The node with a copy of the vbucket after the rebalance; `None` also without a rebalance.
    #[must_use]
    pub fn forward_node(&self, vbucket: u16, copy: usize) -> Option<usize> {
        self.server(self.forward.as_ref()?, vbucket, copy)
    }

    fn server(&self, copies: &Copies, vbucket: u16, copy: usize) -> Option<usize> {
        if copy >= copies.width {
            return None;
        }
        let at = usize::from(vbucket) * copies.width + copy;
        let server = usize::try_from(*copies.servers.get(at)?).ok()?;
        self.servers.get(server).copied()
    }
}

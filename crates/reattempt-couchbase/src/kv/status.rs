//! Statuses of the key-value service.

use std::fmt;

use super::{Attributes, ErrorMap, Opcode};

/// A status: bytes 6 and 7 of a response frame.
///
/// A status with a name is *known*: the client's own rules apply, and the server's error map is not
/// used (RFC 0013, Questions: settings of the SDK take precedence).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(pub u16);

macro_rules! statuses {
    ($($name:ident = $code:literal;)*) => {
        impl Status {
            $(#[doc = concat!("`", stringify!($name), "` (`", stringify!($code), "`).")]
            pub const $name: Self = Self($code);)*

            /// All known statuses, in order.
            pub const KNOWN: &'static [Self] = &[$(Self($code)),*];

            /// The name of a known status.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    SUCCESS = 0x00;
    KEY_ENOENT = 0x01;
    KEY_EEXISTS = 0x02;
    E2BIG = 0x03;
    EINVAL = 0x04;
    NOT_STORED = 0x05;
    DELTA_BADVAL = 0x06;
    NOT_MY_VBUCKET = 0x07;
    NO_BUCKET = 0x08;
    LOCKED = 0x09;
    STREAM_NOT_FOUND = 0x0a;
    OPAQUE_NO_MATCH = 0x0b;
    EWOULD_THROTTLE = 0x0c;
    ECONFIG_ONLY = 0x0d;
    NOT_LOCKED = 0x0e;
    CAS_VALUE_INVALID = 0x0f;
    AUTH_STALE = 0x1f;
    AUTH_ERROR = 0x20;
    AUTH_CONTINUE = 0x21;
    ERANGE = 0x22;
    ROLLBACK = 0x23;
    EACCESS = 0x24;
    NOT_INITIALIZED = 0x25;
    ENCRYPTION_KEY_NOT_AVAILABLE = 0x26;
    CHECKSUM_MISMATCH = 0x27;
    EXPIRY_OVERFLOW = 0x28;
    LOCK_EXPIRY_OVERFLOW = 0x29;
    RATE_LIMITED_NETWORK_INGRESS = 0x30;
    RATE_LIMITED_NETWORK_EGRESS = 0x31;
    RATE_LIMITED_MAX_CONNECTIONS = 0x32;
    RATE_LIMITED_MAX_COMMANDS = 0x33;
    SCOPE_SIZE_LIMIT_EXCEEDED = 0x34;
    BUCKET_SIZE_LIMIT_EXCEEDED = 0x35;
    BUCKET_RESIDENT_RATIO_TOO_LOW = 0x36;
    BUCKET_DATA_SIZE_TOO_BIG = 0x37;
    BUCKET_DISK_SPACE_TOO_LOW = 0x38;
    BUCKET_PAUSED = 0x50;
    CANCELLED = 0x51;
    UNKNOWN_FRAME_INFO = 0x80;
    UNKNOWN_COMMAND = 0x81;
    ENOMEM = 0x82;
    NOT_SUPPORTED = 0x83;
    EINTERNAL = 0x84;
    EBUSY = 0x85;
    ETMPFAIL = 0x86;
    XATTR_EINVAL = 0x87;
    UNKNOWN_COLLECTION = 0x88;
    NO_COLLECTIONS_MANIFEST = 0x89;
    CANNOT_APPLY_COLLECTIONS_MANIFEST = 0x8a;
    COLLECTIONS_MANIFEST_IS_AHEAD = 0x8b;
    UNKNOWN_SCOPE = 0x8c;
    DCP_STREAM_ID_INVALID = 0x8d;
    DURABILITY_INVALID_LEVEL = 0xa0;
    DURABILITY_IMPOSSIBLE = 0xa1;
    SYNC_WRITE_IN_PROGRESS = 0xa2;
    SYNC_WRITE_AMBIGUOUS = 0xa3;
    SYNC_WRITE_RE_COMMIT_IN_PROGRESS = 0xa4;
    RANGE_SCAN_CANCELLED = 0xa5;
    RANGE_SCAN_MORE = 0xa6;
    RANGE_SCAN_COMPLETE = 0xa7;
    VB_UUID_NOT_EQUAL = 0xa8;
    SUBDOC_PATH_ENOENT = 0xc0;
    SUBDOC_PATH_MISMATCH = 0xc1;
    SUBDOC_PATH_EINVAL = 0xc2;
    SUBDOC_PATH_E2BIG = 0xc3;
    SUBDOC_DOC_E2DEEP = 0xc4;
    SUBDOC_VALUE_CANTINSERT = 0xc5;
    SUBDOC_DOC_NOTJSON = 0xc6;
    SUBDOC_NUM_ERANGE = 0xc7;
    SUBDOC_DELTA_EINVAL = 0xc8;
    SUBDOC_PATH_EEXISTS = 0xc9;
    SUBDOC_VALUE_ETOODEEP = 0xca;
    SUBDOC_INVALID_COMBO = 0xcb;
    SUBDOC_MULTI_PATH_FAILURE = 0xcc;
    SUBDOC_SUCCESS_DELETED = 0xcd;
    SUBDOC_XATTR_INVALID_FLAG_COMBO = 0xce;
    SUBDOC_XATTR_INVALID_KEY_COMBO = 0xcf;
    SUBDOC_XATTR_UNKNOWN_MACRO = 0xd0;
    SUBDOC_XATTR_UNKNOWN_VATTR = 0xd1;
    SUBDOC_XATTR_CANT_MODIFY_VATTR = 0xd2;
    SUBDOC_MULTI_PATH_FAILURE_DELETED = 0xd3;
    SUBDOC_INVALID_XATTR_ORDER = 0xd4;
    SUBDOC_XATTR_UNKNOWN_VATTR_MACRO = 0xd5;
    SUBDOC_CAN_ONLY_REVIVE_DELETED_DOCUMENTS = 0xd6;
    SUBDOC_DELETED_DOCUMENT_CANT_HAVE_VALUE = 0xd7;
    SUBDOC_FIELD_NOT_BINARY_VALUE = 0xd8;
}

impl Status {
    /// True if the client has its own rule for it; the error map is used only for the others.
    #[must_use]
    pub const fn is_known(self) -> bool {
        self.name().is_some()
    }

    /// True if this operation succeeded: success; for authentication and range scans, also an
    /// intermediate step; for sub-document operations, also a deleted document read with its
    /// attributes.
    ///
    /// For any other operation these are not success: nothing was read or written, whatever the
    /// value contains.
    #[must_use]
    pub const fn is_success_of(self, opcode: Opcode) -> bool {
        match self {
            Self::SUCCESS => true,
            Self::AUTH_CONTINUE => matches!(opcode, Opcode::SASL_AUTH | Opcode::SASL_STEP),
            Self::RANGE_SCAN_MORE | Self::RANGE_SCAN_COMPLETE => {
                matches!(opcode, Opcode::RANGE_SCAN_CONTINUE)
            }
            Self::SUBDOC_SUCCESS_DELETED => opcode.is_subdoc(),
            _ => false,
        }
    }

    /// True if the connection is unusable after this status and has to be closed.
    ///
    /// Of the known statuses: no bucket, not initialized, an internal error and a stale
    /// authentication. For an unknown status the map decides, by `conn-state-invalidated` and
    /// `special-handling` (RFC 0013, Processing Chain).
    #[must_use]
    pub fn closes_connection(self, map: Option<&ErrorMap>) -> bool {
        if self.is_known() {
            return matches!(
                self,
                Self::NO_BUCKET | Self::NOT_INITIALIZED | Self::EINTERNAL | Self::AUTH_STALE
            );
        }
        self.attributes(map).close_connection()
    }

    /// True if the node failed, rather than answered the request: out of memory, an internal error,
    /// not initialized, or a durable write whose outcome is unknown.
    #[must_use]
    pub const fn is_servers_failure(self) -> bool {
        matches!(
            self,
            Self::ENOMEM | Self::EINTERNAL | Self::NOT_INITIALIZED | Self::SYNC_WRITE_AMBIGUOUS
        )
    }

    /// The map's attributes of an unknown status; none for a known one.
    #[must_use]
    pub fn attributes(self, map: Option<&ErrorMap>) -> Attributes {
        if self.is_known() {
            return Attributes::NONE;
        }
        map.and_then(|map| map.get(self.0))
            .map_or(Attributes::NONE, super::ErrorMapEntry::attributes)
    }
}

impl From<u16> for Status {
    fn from(code: u16) -> Self {
        Self(code)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "0x{:04x}", self.0),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

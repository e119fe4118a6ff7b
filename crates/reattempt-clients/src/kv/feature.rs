//! Features that a client asks for with HELLO and a node grants.

/// HELLO feature: TCP_NODELAY.
pub const FEATURE_TCP_NODELAY: u16 = 0x03;
/// HELLO feature: extended statuses and the error map.
pub const FEATURE_XERROR: u16 = 0x07;
/// HELLO feature: SELECT_BUCKET.
pub const FEATURE_SELECT_BUCKET: u16 = 0x08;
/// HELLO feature: the JSON datatype.
pub const FEATURE_JSON: u16 = 0x0b;
/// HELLO feature: responses may arrive out of order.
pub const FEATURE_UNORDERED: u16 = 0x0e;
/// HELLO feature: responses carry the server duration.
pub const FEATURE_TRACING: u16 = 0x0f;
/// HELLO feature: requests may carry framing extras.
pub const FEATURE_ALT_REQUEST: u16 = 0x10;
/// HELLO feature: keys carry collection ids.
pub const FEATURE_COLLECTIONS: u16 = 0x12;
/// HELLO feature: throttled requests are answered instead of delayed.
pub const FEATURE_NON_BLOCKING_THROTTLING: u16 = 0x1b;
/// HELLO feature: GET_CLUSTER_CONFIG may carry the known version.
pub const FEATURE_KNOWN_VERSION: u16 = 0x1d;
/// HELLO feature: a status 0x07 does not repeat a configuration that was already sent.
pub const FEATURE_DEDUPE_NMVB: u16 = 0x1e;

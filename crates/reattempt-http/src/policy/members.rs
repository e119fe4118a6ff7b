//! The members of each object in a table. The parser knows no others, and
//! `docs/policy-reference.md` has all of them: a test compares the two.

pub(super) const TABLE: &[&str] = &[
    "routes",
    "default",
    "throttles",
    "budgets",
    "admission",
    "health",
];

/// Of a route, besides [`SETTINGS`].
pub(super) const ROUTE: &[&str] = &["name", "match"];

/// Of a route and of the default.
pub(super) const SETTINGS: &[&str] = &[
    "retry",
    "hedge",
    "retryAfter",
    "refused",
    "timeout",
    "attemptTimeout",
    "bodyTimeout",
    "bodyLimit",
    "idempotencyKey",
    "throttle",
];

pub(super) const MATCH: &[&str] = &["methods", "path", "prefix", "pattern", "query", "host"];

pub(super) const RETRY: &[&str] = &[
    "preset",
    "maxAttempts",
    "backoff",
    "statuses",
    "safeStatuses",
    "transportErrors",
    "onDeadline",
];

pub(super) const BACKOFF: &[&str] = &["initial", "multiplier", "max", "jitter"];

pub(super) const HEDGE: &[&str] = &[
    "maxAttempts",
    "delay",
    "extraLoadPercent",
    "statuses",
    "transportErrors",
    "budget",
    "budgetPercent",
    "onlyIdempotent",
    "onDeadline",
];

/// Of a hedge's `delay` that learns.
pub(super) const HEDGE_DELAY: &[&str] = &["percentile", "min", "max"];

pub(super) const RETRY_AFTER: &[&str] = &[
    "honour",
    "milliseconds",
    "rateLimits",
    "cap",
    "beyondCap",
    "spread",
];

/// Of a throttle that is a token bucket.
pub(super) const TOKENS: &[&str] = &["maxTokens", "tokenRatio"];

/// Of a throttle that is a retry budget.
pub(super) const RATIO: &[&str] = &["retryRatio", "minPerSecond", "window"];

/// Of a throttle that is the quota of a preset.
pub(super) const QUOTA: &[&str] = &["preset"];

/// Of a throttle that is a governor.
pub(super) const GOVERNOR: &[&str] = &["governor"];

pub(super) const BUDGET: &[&str] = &["percent"];

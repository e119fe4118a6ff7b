//! The attributes of an entry (RFC 0013, Error Attributes).

use std::fmt;
use std::ops::BitOr;

/// A set of attributes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Attributes(u32);

macro_rules! attributes {
    ($($(#[$meta:meta])* $name:ident = $bit:literal, $word:literal;)*) => {
        impl Attributes {
            $($(#[$meta])* pub const $name: Self = Self(1 << $bit);)*

            pub(super) const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$name)),*];
        }
    };
}

attributes! {
    /// `success`: no error at all.
    SUCCESS = 0, "success";
    /// `item-only`: about the document's own state.
    ITEM_ONLY = 1, "item-only";
    /// `invalid-input`: the request itself is wrong.
    INVALID_INPUT = 2, "invalid-input";
    /// `fetch-config`: the client's configuration may be outdated.
    FETCH_CONFIG = 3, "fetch-config";
    /// `conn-state-invalidated`: the connection has to be reconnected.
    CONN_STATE_INVALIDATED = 4, "conn-state-invalidated";
    /// `auth`: not authenticated or not allowed.
    AUTH = 5, "auth";
    /// `special-handling`: needs specific handling; otherwise the connection has to be closed.
    SPECIAL_HANDLING = 6, "special-handling";
    /// `support`: not supported here.
    SUPPORT = 7, "support";
    /// `temp`: transient, which alone does not make it retryable.
    TEMP = 8, "temp";
    /// `internal`: an error in the server.
    INTERNAL = 9, "internal";
    /// `retry-now`: may be retried immediately.
    RETRY_NOW = 10, "retry-now";
    /// `retry-later`: may be retried after a delay.
    RETRY_LATER = 11, "retry-later";
    /// `subdoc`: about sub-documents.
    SUBDOC = 12, "subdoc";
    /// `dcp`: about replication.
    DCP = 13, "dcp";
    /// `auto-retry`: retried by the entry's retry specification.
    AUTO_RETRY = 14, "auto-retry";
    /// `item-locked`: the document is locked.
    ITEM_LOCKED = 15, "item-locked";
    /// `item-deleted`: the document is deleted.
    ITEM_DELETED = 16, "item-deleted";
    /// `rate-limit`: the user exceeds a limit (version 2).
    RATE_LIMIT = 17, "rate-limit";
    /// `system-constraint`: a system limit is reached (version 2).
    SYSTEM_CONSTRAINT = 18, "system-constraint";
    /// `guard-rail`: a guard rail of the bucket is reached (version 2).
    GUARD_RAIL = 19, "guard-rail";
    /// `no-retry`: must not be retried (version 2).
    NO_RETRY = 20, "no-retry";
}

impl Attributes {
    /// No attribute.
    pub const NONE: Self = Self(0);

    /// The attribute of this name; `None` if it is unknown, which the caller ignores.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        let found = Self::WORDS.iter().find(|(name, _)| *name == word)?;
        Some(found.1)
    }

    /// True if all of `other` are in the set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// True if the request may be retried: `retry-now`, `retry-later` or `auto-retry`, and not
    /// `no-retry`, which takes precedence.
    #[must_use]
    pub const fn retry(self) -> bool {
        let asks = self.any(Self(
            Self::RETRY_NOW.0 | Self::RETRY_LATER.0 | Self::AUTO_RETRY.0,
        ));
        asks && !self.contains(Self::NO_RETRY)
    }

    /// True if a newer configuration should be fetched, whether or not the request is retried.
    #[must_use]
    pub const fn fetch_config(self) -> bool {
        self.contains(Self::FETCH_CONFIG)
    }

    /// True if the request was answered, and the node did not fail: the fault is the document's or
    /// the caller's, or one of its limits was reached, or there is none.
    pub(crate) const fn is_answer(self) -> bool {
        self.any(Self(
            Self::SUCCESS.0
                | Self::ITEM_ONLY.0
                | Self::INVALID_INPUT.0
                | Self::AUTH.0
                | Self::SUPPORT.0
                | Self::SUBDOC.0
                | Self::ITEM_LOCKED.0
                | Self::ITEM_DELETED.0
                | Self::RATE_LIMIT.0
                | Self::GUARD_RAIL.0,
        ))
    }

    /// True if a client that does not know the status has to close the connection:
    /// `conn-state-invalidated`, or `special-handling` without specific handling.
    #[must_use]
    pub const fn close_connection(self) -> bool {
        self.any(Self(
            Self::CONN_STATE_INVALIDATED.0 | Self::SPECIAL_HANDLING.0,
        ))
    }
}

impl BitOr for Attributes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let present = Self::WORDS.iter().filter(|(_, bit)| self.contains(*bit));
        f.debug_set()
            .entries(present.map(|(name, _)| name))
            .finish()
    }
}

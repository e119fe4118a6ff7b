//! The headers that say when to send again, read in one pass.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::HttpPushback;
use super::rate_limit;
use super::value::{digits, until_date};

static RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
/// Milliseconds; sent by AWS services.
static AMZ_RETRY_AFTER: HeaderName = HeaderName::from_static("x-amz-retry-after");
static RATE_LIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
static X_RATE_LIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
/// The maximum back-off of 20 s plus the 5 s that the SDKs wait at most beyond theirs.
const MOST_AMZ: Duration = Duration::from_secs(25);

/// The combined value of some headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Word {
    #[default]
    Nothing,
    /// Present, but no value is valid.
    Unreadable,
    After(Duration),
}

/// What the headers say that are read.
#[derive(Clone, Copy)]
pub(super) struct Words {
    pub(super) retry_after: Word,
    pub(super) reset: Word,
}

impl Word {
    /// One more value of the same header: the longest valid one counts.
    fn add(&mut self, value: &HeaderValue, read: impl Fn(&[u8]) -> Option<Duration>) {
        let value = value.as_bytes();
        // Servers' values have no space around them, because a transport trims it.
        let read = read(value).or_else(|| read(value.trim_ascii()));
        *self = match (*self, read) {
            (Self::After(one), Some(other)) => Self::After(one.max(other)),
            (Self::After(one), None) | (_, Some(one)) => Self::After(one),
            (_, None) => Self::Unreadable,
        };
    }

    /// This value, unless it has no valid one.
    pub(super) fn or(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::After(_) => self,
            Self::Nothing => other(),
            Self::Unreadable => match other() {
                Self::Nothing => self,
                other => other,
            },
        }
    }

    pub(super) const fn delay(self) -> Option<Duration> {
        match self {
            Self::After(delay) => Some(delay),
            Self::Nothing | Self::Unreadable => None,
        }
    }
}

impl HttpPushback {
    /// Reads all headers in one pass: a look-up of each name hashes it, which costs more than the
    /// pass over the few headers of a response.
    pub(super) fn words(&self, headers: &HeaderMap, rate_limits: bool) -> Words {
        let milliseconds = |text: &[u8]| digits(text).map(Duration::from_millis);
        let (mut amz, mut in_milliseconds, mut in_seconds) = <(Word, Word, Word)>::default();
        let (mut reset, mut x_reset) = <(Word, Word)>::default();
        for (name, value) in headers {
            // Names are compared as such: their text would have to be found first.
            if *name == RETRY_AFTER {
                if self.seconds != Some(false) {
                    in_seconds.add(value, |text| {
                        let seconds = digits(text).map(Duration::from_secs);
                        seconds.or_else(|| until_date(text, self.wall_clock))
                    });
                }
            } else if *name == RETRY_AFTER_MS {
                if self.milliseconds != Some(false) {
                    in_milliseconds.add(value, milliseconds);
                }
            } else if *name == AMZ_RETRY_AFTER {
                if self.amz == Some(true) {
                    amz.add(value, |text| Some(milliseconds(text)?.min(MOST_AMZ)));
                }
            } else if rate_limits && *name == RATE_LIMIT_RESET {
                let until = |text: &[u8]| rate_limit::until(text, self.wall_clock);
                reset.add(value, until);
            } else if rate_limits && *name == X_RATE_LIMIT_RESET {
                let until = |text: &[u8]| rate_limit::until(text, self.wall_clock);
                x_reset.add(value, until);
            }
        }
        Words {
            retry_after: amz.or(|| in_milliseconds).or(|| in_seconds),
            reset: reset.or(|| x_reset),
        }
    }
}

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

/// What some headers say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Word {
    #[default]
    Nothing,
    /// Present, but no value is valid.
    Unreadable,
    After(Duration),
}

impl Word {
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

/// The combined value of several headers, of which the first in rank with a valid value counts.
#[derive(Default)]
struct Ranked {
    word: Word,
    /// Of the header whose value `word` is.
    rank: u8,
}

impl Ranked {
    /// One more value of the header of this rank, `None` if it is not valid: of the same header the
    /// longest one counts.
    // Out of line: inlined, the loop over the headers would move what it keeps in each round.
    #[inline(never)]
    fn add(&mut self, rank: u8, value: Option<Duration>) {
        self.word = match (self.word, value) {
            (Word::After(_), Some(_)) if self.rank < rank => return,
            (Word::After(kept), Some(other)) if self.rank == rank => Word::After(kept.max(other)),
            (_, Some(other)) => Word::After(other),
            (Word::Nothing, None) => Word::Unreadable,
            (_, None) => return,
        };
        self.rank = rank;
    }
}

/// Reads this value. A server's has no space around it, because a transport trims it: it is
/// trimmed only if it cannot be read.
fn read(value: &HeaderValue, as_delay: impl Fn(&[u8]) -> Option<Duration>) -> Option<Duration> {
    let value = value.as_bytes();
    as_delay(value).or_else(|| as_delay(value.trim_ascii()))
}

impl HttpPushback {
    /// Reads all headers in one pass: a look-up of each name hashes it, which costs more than the
    /// pass over the few headers of a response. `limited`: whether the call ran into the limit of
    /// which `RateLimit-Reset` tells; asked last, and only if it is there.
    #[inline]
    pub(super) fn words(
        &self,
        headers: &HeaderMap,
        rate_limits: bool,
        limited: impl FnOnce() -> bool,
    ) -> Word {
        let milliseconds = |text: &[u8]| digits(text).map(Duration::from_millis);
        let until = |text: &[u8]| rate_limit::until(text, self.wall_clock);
        let (mut retry_after, mut reset) = <(Ranked, Ranked)>::default();
        for (name, value) in headers {
            // Names are compared as such: their text would have to be found first.
            if *name == RETRY_AFTER {
                if self.seconds != Some(false) {
                    let seconds_or_date = |text: &[u8]| {
                        let seconds = digits(text).map(Duration::from_secs);
                        seconds.or_else(|| until_date(text, self.wall_clock))
                    };
                    retry_after.add(2, read(value, seconds_or_date));
                }
            } else if *name == RETRY_AFTER_MS {
                if self.milliseconds != Some(false) {
                    retry_after.add(1, read(value, milliseconds));
                }
            } else if *name == AMZ_RETRY_AFTER {
                if self.amz == Some(true) {
                    let at_most = |text: &[u8]| Some(milliseconds(text)?.min(MOST_AMZ));
                    retry_after.add(0, read(value, at_most));
                }
            } else if rate_limits && *name == RATE_LIMIT_RESET {
                reset.add(0, read(value, until));
            } else if rate_limits && *name == X_RATE_LIMIT_RESET {
                reset.add(1, read(value, until));
            }
        }
        retry_after.word.or(|| {
            if reset.word == Word::Nothing || !limited() {
                return Word::Nothing;
            }
            reset.word
        })
    }
}

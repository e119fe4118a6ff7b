//! `Retry-After` and related headers: when the server allows the next attempt (RFC 9110, section
//! 10.2.3).

mod rate_limit;
#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName};
use reattempt::ServerPushback;
use reattempt::backoff::Randomness;

pub(crate) use rate_limit::remaining;

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
/// Milliseconds; sent by AWS services.
const AMZ_RETRY_AFTER: HeaderName = HeaderName::from_static("x-amz-retry-after");
/// The maximum back-off of 20 s plus the 5 s that the SDKs wait at most beyond theirs.
const MOST_AMZ: Duration = Duration::from_secs(25);

/// What to do if the server asks for more than the cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BeyondCap {
    /// Do not retry: the server would only refuse again.
    #[default]
    Stop,
    /// Retry after the cap.
    Wait,
}

/// Reads from every response from 300 up when the server allows the next attempt.
///
/// | header, the first valid one | |
/// | --- | --- |
/// | `x-amz-retry-after` | milliseconds, up to 25 s; off unless [enabled](Self::also_amz) |
/// | `retry-after-ms` | milliseconds; [`milliseconds`](Self::milliseconds) |
/// | `Retry-After` | seconds, or a date in any of HTTP's three forms |
/// | `RateLimit-Reset`, `X-RateLimit-Reset` | seconds from now, or Unix time in seconds (from 10⁹) or milliseconds (from 10¹²), or a date; [`rate_limits`](Self::rate_limits) |
///
/// Many servers send the rate limit headers with every response, so these count only if the call
/// ran into the limit: with 429; with 503 unless `(X-)RateLimit-Remaining` is above 0; with any
/// other status if it is 0.
///
/// Put it in a `PushbackLayer` below the recovery layer. Invalid values count as absent and are
/// recorded (`AttemptRecord::pushback_unreadable`), a date in the past means now, a number that is
/// too large saturates; of several values the longest counts. What a route sets takes precedence
/// over the layer's, and what it leaves unset is as the layer was built:
/// [`HttpRoute::with_pushback`](crate::HttpRoute::with_pushback).
///
/// There is no cap unless [`HttpPushback::cap`] sets one: a call without a deadline waits up to a
/// day if a server asks for it. Put a `DeadlineLayer` outside the recovery layer. And there is no
/// jitter unless [`HttpPushback::spread`] sets it: clients that receive the same instant all return
/// at that instant.
///
/// ```
/// use http::Response;
/// use reattempt::ServerPushback;
/// use reattempt::ReadPushback;
/// use reattempt_http::HttpPushback;
/// use std::time::Duration;
///
/// let answer = Response::builder()
///     .status(503)
///     .header("retry-after", "7")
///     .body(())
///     .unwrap();
/// let word = ReadPushback::<_, ()>::read(&HttpPushback::new(), Ok(&answer));
/// assert_eq!(word, Some(ServerPushback::After(Duration::from_secs(7))));
/// ```
#[derive(Clone, Debug)]
pub struct HttpPushback {
    wall_clock: fn() -> SystemTime,
    honoured: Option<bool>,
    milliseconds: Option<bool>,
    seconds: Option<bool>,
    amz: Option<bool>,
    rate_limits: Option<bool>,
    only_exhausted: Option<bool>,
    cap: Option<(Duration, BeyondCap)>,
    spread: Option<Duration>,
    randomness: Randomness,
}

/// The combined value of some headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Nothing,
    /// Present, but no value is valid.
    Unreadable,
    After(Duration),
}

impl Word {
    /// The longest valid value of this header.
    fn of(headers: &HeaderMap, name: &HeaderName, read: impl Fn(&str) -> Option<Duration>) -> Self {
        let values = headers.get_all(name).iter();
        let longest = values
            .filter_map(|value| read(value.to_str().ok()?.trim()))
            .max();
        match longest {
            Some(delay) => Self::After(delay),
            None if headers.contains_key(name) => Self::Unreadable,
            None => Self::Nothing,
        }
    }

    /// This value, unless it has no valid one.
    fn or(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::After(_) => self,
            Self::Nothing => other(),
            Self::Unreadable => match other() {
                Self::Nothing => self,
                other => other,
            },
        }
    }

    const fn delay(self) -> Option<Duration> {
        match self {
            Self::After(delay) => Some(delay),
            Self::Nothing | Self::Unreadable => None,
        }
    }
}

impl HttpPushback {
    /// With the system's clock for dates, all headers, no cap and no jitter.
    #[must_use]
    pub const fn new() -> Self {
        #[allow(
            clippy::disallowed_methods,
            reason = "an HTTP date is wall-clock time; `wall_clock` sets another clock"
        )]
        let wall_clock: fn() -> SystemTime = SystemTime::now;
        Self {
            wall_clock,
            honoured: None,
            milliseconds: None,
            seconds: None,
            amz: None,
            rate_limits: None,
            only_exhausted: None,
            cap: None,
            spread: None,
            randomness: Randomness::Thread,
        }
    }

    /// Reads only `x-amz-retry-after`, as the AWS SDKs do from version 2.1 on. It counts up to 25
    /// s; the strategy [`AwsStandard`](crate::aws::AwsStandard) bounds it further.
    #[must_use]
    pub const fn amz() -> Self {
        let mut amz = Self::new()
            .also_amz()
            .milliseconds(false)
            .rate_limits(false)
            .spread(Duration::ZERO);
        amz.seconds = Some(false);
        amz
    }

    /// Also reads `x-amz-retry-after`, up to 25 s and before the others; off by default.
    #[must_use]
    pub const fn also_amz(mut self) -> Self {
        self.amz = Some(true);
        self
    }

    /// Compares dates with this clock.
    #[must_use]
    pub const fn wall_clock(mut self, now: fn() -> SystemTime) -> Self {
        self.wall_clock = now;
        self
    }

    /// Whether server-provided delays are used; they are by default.
    #[must_use]
    pub const fn honour(mut self, honour: bool) -> Self {
        self.honoured = Some(honour);
        self
    }

    /// Whether `retry-after-ms` is read; it is by default.
    #[must_use]
    pub const fn milliseconds(mut self, read: bool) -> Self {
        self.milliseconds = Some(read);
        self
    }

    /// Whether `RateLimit-Reset` and `X-RateLimit-Reset` are read; they are by default.
    #[must_use]
    pub const fn rate_limits(mut self, read: bool) -> Self {
        self.rate_limits = Some(read);
        self
    }

    /// Reads `RateLimit-Reset` and `X-RateLimit-Reset` only if `(X-)RateLimit-Remaining` is 0,
    /// whatever the status is: for servers with further limits that these headers do not describe,
    /// such as GitHub's secondary ones.
    #[must_use]
    pub const fn only_exhausted_limits(mut self) -> Self {
        self.only_exhausted = Some(true);
        self
    }

    /// The maximum delay that is accepted from the server, and what to do beyond it.
    #[must_use]
    pub const fn cap(mut self, cap: Duration, beyond: BeyondCap) -> Self {
        self.cap = Some((cap, beyond));
        self
    }

    /// Adds a random time, uniform from 0 to `most`, to the server's delay, so that clients with
    /// the same instant do not all return at once. Never shortens the delay. It is added after the
    /// cap; zero by default.
    ///
    /// ```
    /// use http::Response;
    /// use reattempt::ServerPushback;
    /// use reattempt::ReadPushback;
    /// use reattempt_http::HttpPushback;
    /// use std::time::Duration;
    ///
    /// let reader = HttpPushback::new().spread(Duration::from_secs(2));
    /// let answer = Response::builder()
    ///     .status(503)
    ///     .header("retry-after", "7")
    ///     .body(())
    ///     .unwrap();
    /// let Some(ServerPushback::After(delay)) =
    ///     ReadPushback::<_, ()>::read(&reader, Ok(&answer))
    /// else {
    ///     panic!()
    /// };
    /// assert!(delay >= Duration::from_secs(7) && delay < Duration::from_secs(9));
    /// ```
    #[must_use]
    pub const fn spread(mut self, most: Duration) -> Self {
        self.spread = Some(most);
        self
    }

    /// The source of randomness for [`spread`](Self::spread); the thread's generator by default.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }

    /// The delay that `retry-after-ms` or `Retry-After` asks for, uncapped and without jitter.
    #[must_use]
    pub fn delay(&self, headers: &HeaderMap) -> Option<Duration> {
        self.of_retry_after(headers).delay()
    }

    fn of_retry_after(&self, headers: &HeaderMap) -> Word {
        let milliseconds = |text: &str| digits(text).map(Duration::from_millis);
        let amz = |text: &str| milliseconds(text).map(|asked| asked.min(MOST_AMZ));
        let seconds = |text: &str| {
            let seconds = digits(text).map(Duration::from_secs);
            seconds.or_else(|| until_date(text, self.wall_clock))
        };
        let read = |name: &HeaderName, reads: bool, how: &dyn Fn(&str) -> Option<Duration>| {
            if reads {
                Word::of(headers, name, how)
            } else {
                Word::Nothing
            }
        };
        read(&AMZ_RETRY_AFTER, self.amz == Some(true), &amz)
            .or(|| {
                read(
                    &RETRY_AFTER_MS,
                    self.milliseconds != Some(false),
                    &milliseconds,
                )
            })
            .or(|| read(&RETRY_AFTER, self.seconds != Some(false), &seconds))
    }

    /// What the response asks for.
    fn word<B>(&self, response: &http::Response<B>) -> Word {
        if self.honoured == Some(false) || !may_push_back(response) {
            return Word::Nothing;
        }
        let (status, headers) = (response.status().as_u16(), response.headers());
        self.of_retry_after(headers).or(|| {
            let exhausted = || remaining(headers) == Some(0);
            let at_any_time = self.only_exhausted != Some(true);
            if self.rate_limits != Some(false) && (at_any_time || exhausted()) {
                rate_limit::reset(status, headers, self.wall_clock)
            } else {
                Word::Nothing
            }
        })
    }

    pub(crate) fn pushback<B>(&self, response: &http::Response<B>) -> Option<ServerPushback> {
        let asked = self.word(response).delay()?;
        let asked = match self.cap {
            Some((cap, BeyondCap::Stop)) if asked > cap => return Some(ServerPushback::Stop),
            Some((cap, BeyondCap::Wait)) => asked.min(cap),
            _ => asked,
        };
        Some(ServerPushback::After(asked.saturating_add(self.later())))
    }

    /// Whether the response has a value, and none that is valid.
    pub(crate) fn is_unreadable<B>(&self, response: &http::Response<B>) -> bool {
        self.word(response) == Word::Unreadable
    }

    fn later(&self) -> Duration {
        let spread = self.spread.unwrap_or_default();
        if spread.is_zero() {
            return Duration::ZERO;
        }
        spread.mul_f64(self.randomness.roll().clamp(0.0, 1.0))
    }

    /// These settings, and the layer's where they leave something unset. Dates use the layer's
    /// clock.
    pub(crate) fn over(&self, layer: &Self) -> Self {
        Self {
            wall_clock: layer.wall_clock,
            honoured: self.honoured.or(layer.honoured),
            milliseconds: self.milliseconds.or(layer.milliseconds),
            seconds: self.seconds.or(layer.seconds),
            amz: self.amz.or(layer.amz),
            rate_limits: self.rate_limits.or(layer.rate_limits),
            only_exhausted: self.only_exhausted.or(layer.only_exhausted),
            cap: self.cap.or(layer.cap),
            spread: self.spread.or(layer.spread),
            randomness: match self.spread {
                Some(_) => self.randomness.clone(),
                None => layer.randomness.clone(),
            },
        }
    }
}

impl Default for HttpPushback {
    fn default() -> Self {
        Self::new()
    }
}

/// A success may state when its limits are reset, and asks for no delay.
pub(crate) fn may_push_back<B>(response: &http::Response<B>) -> bool {
    response.status().as_u16() >= 300
}

/// `1*DIGIT`, saturating.
fn digits(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

/// The time until this HTTP date; a date in the past means now.
fn until_date(text: &str, now: fn() -> SystemTime) -> Option<Duration> {
    match httpdate::parse_http_date(text) {
        Ok(date) => Some(date.duration_since(now()).unwrap_or_default()),
        Err(_) => is_before_1970(text).then_some(Duration::ZERO),
    }
}

/// Whether text that the date parser rejects is a date before 1970: the parser knows none. The
/// Gregorian calendar repeats every 400 years, including weekdays, and so every 2000.
fn is_before_1970(text: &str) -> bool {
    // The position of the year in the two formats with a four-digit year.
    let at = if text.ends_with(" GMT") { 12 } else { 20 };
    let Some(year) = text.get(at..at + 4).and_then(digits) else {
        return false;
    };
    let later = format!("{}{}{}", &text[..at], year + 2000, &text[at + 4..]);
    httpdate::parse_http_date(&later).is_ok()
}

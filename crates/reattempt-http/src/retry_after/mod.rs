//! `Retry-After` and related headers: when the server allows the next attempt (RFC 9110, section
//! 10.2.3).

mod http_date;
mod rate_limit;
#[cfg(test)]
mod tests;
mod value;
mod words;

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use reattempt::backoff::Randomness;
use reattempt::{FoundPushback, ServerPushback};

use crate::wall_clock;
pub(crate) use rate_limit::remaining;
use words::Word;

/// What to do if the server asks for more than the cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BeyondCap {
    /// Do not retry: the server would only refuse again
    /// ([`ServerPushback::TooLong`](reattempt::ServerPushback::TooLong)).
    #[default]
    Stop,
    /// Retry after the cap.
    Wait,
}

/// Reads from every response from 300 up, and from a lower status that the call's route retries
/// ([`HttpRoute::with_classifier`](crate::HttpRoute::with_classifier)), when the server allows the
/// next attempt.
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
/// other status from 300 up if it is 0.
///
/// Put it in a `PushbackLayer` below the recovery layer. Invalid values count as absent and are
/// recorded (`AttemptRecord::pushback_unreadable`); so does the reset of a limit in the past, which
/// the response contradicts. Of `Retry-After` a date in the past means now. A number that is too
/// large saturates; of several values the longest counts. What a route sets takes precedence over
/// the layer's, and what it leaves unset is as the layer was built:
/// [`HttpRoute::with_pushback`](crate::HttpRoute::with_pushback).
///
/// There is no cap unless [`HttpPushback::cap`] sets one: a call without a deadline waits up to a
/// day if a server asks for it. Put a `DeadlineLayer` outside the recovery layer. And there is no
/// jitter unless [`HttpPushback::spread`] sets it: clients that receive the same instant all return
/// at that instant.
///
/// ```
/// use http::Response;
/// use reattempt::{CallContext, ReadPushback, ServerPushback};
/// use reattempt_http::HttpPushback;
/// use std::time::Duration;
///
/// let answer = Response::builder()
///     .status(503)
///     .header("retry-after", "7")
///     .body(())
///     .unwrap();
/// let context = CallContext::default();
/// let word = ReadPushback::<_, ()>::read(&HttpPushback::new(), Ok(&answer), &context);
/// assert_eq!(word.valid(), Some(ServerPushback::After(Duration::from_secs(7))));
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
    /// Without a cap, also on a route that has one.
    uncapped: bool,
    spread: Option<Duration>,
    randomness: Randomness,
}

impl HttpPushback {
    /// With the system's clock for dates, all headers, no cap and no jitter.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            wall_clock: wall_clock::SYSTEM,
            honoured: None,
            milliseconds: None,
            seconds: None,
            amz: None,
            rate_limits: None,
            only_exhausted: None,
            cap: None,
            uncapped: false,
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
    /// whatever the status from 300 up is: for servers with further limits that these headers do
    /// not describe, such as GitHub's secondary ones.
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

    /// For backends: a server may ask for more rest than a call waits for.
    #[cfg(feature = "tokio")]
    pub(crate) const fn uncapped(mut self) -> Self {
        self.cap = None;
        self.uncapped = true;
        self
    }

    /// Adds a random time, uniform from 0 to `most`, to the server's delay, so that clients with
    /// the same instant do not all return at once. Never shortens the delay. It is added after the
    /// cap; zero by default.
    ///
    /// ```
    /// use http::Response;
    /// use reattempt::{CallContext, ReadPushback, ServerPushback};
    /// use reattempt_http::HttpPushback;
    /// use std::time::Duration;
    ///
    /// let reader = HttpPushback::new().spread(Duration::from_secs(2));
    /// let answer = Response::builder()
    ///     .status(503)
    ///     .header("retry-after", "7")
    ///     .body(())
    ///     .unwrap();
    /// let word = ReadPushback::<_, ()>::read(&reader, Ok(&answer), &CallContext::default());
    /// let Some(ServerPushback::After(delay)) = word.valid() else {
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

    /// The delay that the headers ask for which this reads, but for those of rate limits: uncapped,
    /// without jitter, and also if [`honour`](Self::honour) is off.
    #[must_use]
    pub fn delay(&self, headers: &HeaderMap) -> Option<Duration> {
        self.words(headers, false, || false).delay()
    }

    /// What the response asks for.
    fn word<B>(&self, response: &http::Response<B>) -> Word {
        if self.honoured == Some(false) {
            return Word::Nothing;
        }
        let (status, headers) = (response.status().as_u16(), response.headers());
        self.words(headers, self.rate_limits != Some(false), || {
            rate_limit::ran_out(status, headers, self.only_exhausted == Some(true))
        })
    }

    pub(crate) fn pushback<B>(&self, response: &http::Response<B>) -> FoundPushback {
        let asked = match self.word(response) {
            Word::Nothing => return FoundPushback::Absent,
            Word::Unreadable => return FoundPushback::Unreadable,
            Word::After(asked) => asked,
        };
        let asked = match self.cap {
            Some((cap, BeyondCap::Stop)) if asked > cap => {
                return FoundPushback::Valid(ServerPushback::too_long(asked));
            }
            Some((cap, BeyondCap::Wait)) => asked.min(cap),
            _ => asked,
        };
        let asked = match self.spread {
            None | Some(Duration::ZERO) => asked,
            Some(spread) => asked.saturating_add(self.later(spread)),
        };
        FoundPushback::Valid(ServerPushback::After(asked))
    }

    fn later(&self, spread: Duration) -> Duration {
        let share = self.randomness.roll().clamp(0.0, 1.0);
        Duration::try_from_secs_f64(spread.as_secs_f64() * share).unwrap_or(spread)
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
            cap: if layer.uncapped {
                layer.cap
            } else {
                self.cap.or(layer.cap)
            },
            uncapped: layer.uncapped,
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

/// A success may state when its limits are reset, and asks for no delay, unless its route retries
/// its status.
pub(crate) fn may_push_back<B>(response: &http::Response<B>) -> bool {
    response.status().as_u16() >= 300
}

//! `Retry-After`: when the server wants to be asked again (RFC 9110, section 10.2.3).

use std::time::{Duration, SystemTime};

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName};
use reattempt::pushback::ReadPushback;
use reattempt::{CallContext, ServerPushback};

use crate::HttpRoute;

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
/// Milliseconds; the services of AWS say it.
const AMZ_RETRY_AFTER: HeaderName = HeaderName::from_static("x-amz-retry-after");
/// The longest back-off of 20 s and the 5 s that the SDKs wait at most beyond theirs.
const MOST_AMZ: Duration = Duration::from_secs(25);

/// What to do when the server asks for more than the cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BeyondCap {
    /// Do not send again: the server would only refuse once more.
    #[default]
    Stop,
    /// Send again after the cap.
    Wait,
}

/// Reads `Retry-After` (seconds, or a date in any of HTTP's three forms) and `retry-after-ms` of every answer from 300 up.
///
/// Put it in a `PushbackLayer` below the recovery layer. `retry-after-ms`, being finer, goes
/// first. What cannot be read counts as absent, a date that has passed means now, a number that is too
/// large saturates; of several values the longest counts. The settings of a route beat the layer's:
/// [`HttpRoute::retry_after`].
///
/// There is no cap unless [`RetryAfter::cap`] sets one: a call without a deadline waits up to a day because a server said so. Put a
/// `DeadlineLayer` outside of the recovery layer.
///
/// ```
/// use std::time::Duration;
/// use http::Response;
/// use reattempt::ServerPushback;
/// use reattempt::pushback::ReadPushback;
/// use reattempt_http::RetryAfter;
///
/// let answer = Response::builder().status(503).header("retry-after", "7").body(()).unwrap();
/// let word = ReadPushback::<_, ()>::read(&RetryAfter::new(), Ok(&answer));
/// assert_eq!(word, Some(ServerPushback::After(Duration::from_secs(7))));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RetryAfter {
    wall_clock: fn() -> SystemTime,
    honoured: bool,
    milliseconds: bool,
    seconds: bool,
    amz: bool,
    cap: Option<(Duration, BeyondCap)>,
}

impl RetryAfter {
    /// With the system's clock for dates, `retry-after-ms` too, and no cap.
    #[must_use]
    pub const fn new() -> Self {
        #[allow(
            clippy::disallowed_methods,
            reason = "an HTTP date is wall-clock time; `wall_clock` sets another clock"
        )]
        let wall_clock: fn() -> SystemTime = SystemTime::now;
        Self {
            wall_clock,
            honoured: true,
            milliseconds: true,
            seconds: true,
            amz: false,
            cap: None,
        }
    }

    /// Reads `x-amz-retry-after` alone, as the SDKs of AWS do from version 2.1 on. It counts up to 25 s; the strategy
    /// [`AwsStandard`](crate::aws::AwsStandard) bounds it further.
    #[must_use]
    pub const fn amz() -> Self {
        let mut amz = Self::new().also_amz().milliseconds(false);
        amz.seconds = false;
        amz
    }

    /// Reads `x-amz-retry-after` too, up to 25 s and before the others; it does not by default.
    #[must_use]
    pub const fn also_amz(mut self) -> Self {
        self.amz = true;
        self
    }

    /// Reads dates against this clock.
    #[must_use]
    pub const fn wall_clock(mut self, now: fn() -> SystemTime) -> Self {
        self.wall_clock = now;
        self
    }

    /// Whether the server's word counts at all; it does by default.
    #[must_use]
    pub const fn honour(mut self, honour: bool) -> Self {
        self.honoured = honour;
        self
    }

    /// Whether `retry-after-ms` is read; it is by default.
    #[must_use]
    pub const fn milliseconds(mut self, read: bool) -> Self {
        self.milliseconds = read;
        self
    }

    /// Waits at most this long; what is to happen beyond it.
    #[must_use]
    pub const fn cap(mut self, cap: Duration, beyond: BeyondCap) -> Self {
        self.cap = Some((cap, beyond));
        self
    }

    /// The delay that these headers ask for, uncapped.
    #[must_use]
    pub fn delay(&self, headers: &HeaderMap) -> Option<Duration> {
        let longest = |name: &HeaderName, read: &dyn Fn(&str) -> Option<Duration>| {
            let values = headers.get_all(name).iter();
            values
                .filter_map(|value| read(value.to_str().ok()?.trim()))
                .max()
        };
        let milliseconds = |name: &HeaderName, read: bool| {
            let read = read.then(|| longest(name, &|text| digits(text).map(Duration::from_millis)));
            read.flatten()
        };
        let fine = milliseconds(&AMZ_RETRY_AFTER, self.amz)
            .map(|asked| asked.min(MOST_AMZ))
            .or_else(|| milliseconds(&RETRY_AFTER_MS, self.milliseconds));
        fine.or_else(|| {
            if !self.seconds {
                return None;
            }
            longest(&RETRY_AFTER, &|text| {
                digits(text).map(Duration::from_secs).or_else(|| {
                    let date = httpdate::parse_http_date(text).ok()?;
                    Some(date.duration_since((self.wall_clock)()).unwrap_or_default())
                })
            })
        })
    }
}

impl Default for RetryAfter {
    fn default() -> Self {
        Self::new()
    }
}

/// `1*DIGIT`, saturating.
fn digits(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

impl<B, E> ReadPushback<http::Response<B>, E> for RetryAfter {
    fn read(&self, outcome: Result<&http::Response<B>, &E>) -> Option<ServerPushback> {
        let response = outcome.ok()?;
        if !self.honoured || response.status().as_u16() < 300 {
            return None;
        }
        let asked = self.delay(response.headers())?;
        Some(match self.cap {
            Some((cap, BeyondCap::Stop)) if asked > cap => ServerPushback::Stop,
            Some((cap, BeyondCap::Wait)) => ServerPushback::After(asked.min(cap)),
            _ => ServerPushback::After(asked),
        })
    }

    fn read_in(
        &self,
        outcome: Result<&http::Response<B>, &E>,
        context: &CallContext,
    ) -> Option<ServerPushback> {
        match HttpRoute::of(context).and_then(HttpRoute::get_retry_after) {
            Some(of_route) => of_route.wall_clock(self.wall_clock).read(outcome),
            None => self.read(outcome),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT, RFC 9110's example.
    fn then() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
    }

    fn read(reader: RetryAfter, status: u16, headers: &[(&str, &str)]) -> Option<ServerPushback> {
        let mut response = http::Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let response = response.body(()).unwrap();
        ReadPushback::<_, ()>::read(&reader.wall_clock(then), Ok(&response))
    }

    fn after(value: &str) -> Option<Duration> {
        match read(RetryAfter::new(), 503, &[("retry-after", value)]) {
            Some(ServerPushback::After(delay)) => Some(delay),
            Some(ServerPushback::Stop) => panic!("stop"),
            None => None,
        }
    }

    #[test]
    fn seconds_and_all_three_date_forms_are_read() {
        let s = Duration::from_secs;
        assert_eq!(after("120"), Some(s(120)));
        assert_eq!(after("0"), Some(s(0)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:47 GMT"), Some(s(10)));
        assert_eq!(after("Sunday, 06-Nov-94 08:49:47 GMT"), Some(s(10)));
        assert_eq!(after("Sun Nov  6 08:49:47 1994"), Some(s(10)));
    }

    #[test]
    fn a_past_date_means_now_and_too_large_a_number_saturates() {
        assert_eq!(after("Sun, 06 Nov 1994 08:49:36 GMT"), Some(Duration::ZERO));
        let huge = after("99999999999999999999999999");
        assert_eq!(huge, Some(Duration::from_secs(u64::MAX)));
    }

    #[test]
    fn junk_counts_as_absent() {
        for junk in [
            "",
            "soon",
            "-5",
            "1.5",
            "+3",
            "1e3",
            "10 s",
            "Sun, 99 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(after(junk), None, "{junk:?}");
        }
    }

    #[test]
    fn milliseconds_go_first_unless_they_are_junk_or_switched_off() {
        let ms = |value| [("retry-after-ms", value), ("retry-after", "9")];
        let is = |word, delay| assert_eq!(word, Some(ServerPushback::After(delay)));
        is(
            read(RetryAfter::new(), 429, &ms("250")),
            Duration::from_millis(250),
        );
        is(
            read(RetryAfter::new(), 429, &ms("x")),
            Duration::from_secs(9),
        );
        let off = RetryAfter::new().milliseconds(false);
        is(read(off, 429, &ms("250")), Duration::from_secs(9));
    }

    #[test]
    fn beyond_the_cap_it_stops_or_waits_the_cap() {
        let cap = Duration::from_secs(5);
        let long = [("retry-after", "6")];
        let stop = RetryAfter::new().cap(cap, BeyondCap::Stop);
        let wait = RetryAfter::new().cap(cap, BeyondCap::Wait);
        assert_eq!(read(stop, 503, &long), Some(ServerPushback::Stop));
        assert_eq!(read(wait, 503, &long), Some(ServerPushback::After(cap)));
        let just = [("retry-after", "5")];
        assert_eq!(read(stop, 503, &just), Some(ServerPushback::After(cap)));
    }

    #[test]
    fn the_routes_settings_beat_the_layers_but_not_its_clock() {
        use reattempt::RoutePolicy;
        use std::sync::Arc;

        let response = http::Response::builder()
            .status(503)
            .header("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT")
            .body(())
            .unwrap();
        let layer = RetryAfter::new().wall_clock(then);
        let read = |data: HttpRoute| {
            let mut context = CallContext::default();
            context.stamp_policy(Arc::new(RoutePolicy::new("r").data(data)));
            ReadPushback::<_, ()>::read_in(&layer, Ok(&response), &context)
        };
        let after = |seconds| Some(ServerPushback::After(Duration::from_secs(seconds)));
        assert_eq!(read(HttpRoute::new()), after(10));
        let capped = RetryAfter::new().cap(Duration::from_secs(3), BeyondCap::Wait);
        assert_eq!(read(HttpRoute::new().retry_after(capped)), after(3));
        let deaf = RetryAfter::new().honour(false);
        assert_eq!(read(HttpRoute::new().retry_after(deaf)), None);
    }

    #[test]
    fn a_good_answer_pushes_nothing_back() {
        assert_eq!(read(RetryAfter::new(), 202, &[("retry-after", "5")]), None);
    }
}

//! A time left, as `grpc-timeout` says it.

use std::cell::RefCell;
use std::time::Duration;

use http::HeaderValue;

/// At most eight digits (gRPC over HTTP/2, Timeout).
const MOST: u64 = 99_999_999;
const DIGITS: usize = 8;
/// The digits of a time left that are sent: a thousandth is less than what timers differ by.
const DIGITS_KEPT: u32 = 4;
const UNITS: [(u8, u64); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', 1_000_000_000),
    (b'M', 60 * 1_000_000_000),
    (b'H', 3_600 * 1_000_000_000),
];

/// A time left as it is sent: in nanoseconds with four digits, rounded up, so that the server never
/// times out first. Never zero: the format requires a positive integer.
///
/// So the first attempts of calls with the same timeout have the same value, which HPACK indexes.
#[derive(Clone, Copy)]
pub(super) struct Left {
    nanos: u64,
    /// It has more than two digits, so most likely no other call has it.
    is_rest: bool,
}

impl Left {
    pub(super) fn of(left: Duration) -> Self {
        let exact = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX).max(1);
        let step = 10_u64.pow(exact.ilog10().saturating_sub(DIGITS_KEPT - 1));
        let kept = exact.div_ceil(step);
        Self {
            nanos: kept.saturating_mul(step),
            is_rest: kept % 100 != 0,
        }
    }

    pub(super) const fn duration(self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// Marks a rest as sensitive, so that HPACK does not index it: each entry evicts a header that
    /// later calls share.
    pub(super) fn value(self) -> HeaderValue {
        let nanos = self.nanos;
        if self.is_rest {
            let mut value = text(nanos);
            value.set_sensitive(true);
            return value;
        }
        // A thread that is shutting down keeps nothing.
        let shared = LAST.try_with(|last| {
            let mut last = last.try_borrow_mut().ok()?;
            if last.0 != nanos {
                *last = (nanos, text(nanos));
            }
            Some(last.1.clone())
        });
        shared.ok().flatten().unwrap_or_else(|| text(nanos))
    }
}

thread_local! {
    /// The last value that was not a rest, in nanoseconds and as a header: the next call most
    /// likely has the same.
    static LAST: RefCell<(u64, HeaderValue)> =
        const { RefCell::new((0, HeaderValue::from_static(""))) };
}

/// This many nanoseconds, rounded up to the finest unit that needs at most eight digits.
fn text(nanos: u64) -> HeaderValue {
    let (unit, mut amount) = UNITS
        .iter()
        .map(|(unit, size)| (*unit, nanos.div_ceil(*size)))
        .find(|(_, amount)| *amount <= MOST)
        .unwrap_or((b'H', MOST));
    let mut text = [unit; DIGITS + 1];
    let mut first = DIGITS;
    while first == DIGITS || amount > 0 {
        first -= 1;
        text[first] = b'0' + (amount % 10) as u8;
        amount /= 10;
    }
    HeaderValue::from_bytes(&text[first..]).unwrap_or(HeaderValue::from_static("99999999H"))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn write(left: Duration) -> HeaderValue {
        Left::of(left).value()
    }

    #[test]
    fn the_finest_unit_that_fits_is_written_rounded_up() {
        assert_eq!(write(Duration::from_millis(50)), "50000000n");
        assert_eq!(write(Duration::from_nanos(100_000_001)), "100100u");
        assert_eq!(write(Duration::from_secs(100)), "100000m");
        assert_eq!(write(Duration::ZERO), "1n");
        assert_eq!(
            write(Duration::from_secs(u64::MAX / 1_000_000_000)),
            "5124096H"
        );
        assert_eq!(write(Duration::MAX), "5124096H", "all that 64 bits can say");
        for nanos in [1, 9, 10, 9_999, 99_990_000] {
            assert_eq!(
                write(Duration::from_nanos(nanos)),
                format!("{nanos}n").as_str()
            );
        }
    }

    #[test]
    fn what_is_written_is_at_most_a_thousandth_more() {
        // Up to two years, which are sent in seconds.
        for exact in (8..64).map(|bits| u64::MAX >> bits) {
            let written = parse(&write(Duration::from_nanos(exact))).unwrap();
            assert!(written >= Duration::from_nanos(exact));
            assert!(written <= Duration::from_nanos(exact + exact / 1_000));
        }
    }

    /// HPACK indexes a value that is not sensitive.
    #[test]
    fn first_attempts_with_the_same_timeout_send_the_same_value() {
        let spent = Duration::from_micros(7);
        for timeout in [100, 250, 1_000, 1_500, 5_000, 30_000, 600_000] {
            let timeout = Duration::from_millis(timeout);
            let value = write(timeout - spent);
            assert_eq!(parse(&value), Some(timeout));
            assert!(!value.is_sensitive(), "{timeout:?}");
        }
        let rest = write(Duration::from_micros(3_791_234));
        assert_eq!(parse(&rest), Some(Duration::from_millis(3_792)));
        assert!(rest.is_sensitive());
    }
}

//! The framing extras of a response.

use std::time::Duration;

/// The framing extra with the server's throttle duration.
const THROTTLE_DURATION: usize = 3;

/// Finds the throttle duration in the framing extras. `None` if absent or if the extras are
/// truncated.
pub(super) fn throttle_duration(mut extras: &[u8]) -> Option<Duration> {
    while let Some((&head, rest)) = extras.split_first() {
        let (id, rest) = nibble(head >> 4, rest)?;
        let (len, rest) = nibble(head & 0x0f, rest)?;
        let (value, rest) = rest.split_at_checked(len)?;
        if id == THROTTLE_DURATION {
            let encoded = u16::from_be_bytes(value.try_into().ok()?);
            // At most two minutes, so the conversion is exact enough.
            let micros = f64::from(encoded).powf(1.74) / 2.0;
            return Some(Duration::from_micros(micros as u64));
        }
        extras = rest;
    }
    None
}

/// A nibble; the escape value 15 adds the next byte.
fn nibble(nibble: u8, rest: &[u8]) -> Option<(usize, &[u8])> {
    if nibble < 15 {
        return Some((usize::from(nibble), rest));
    }
    let (&more, rest) = rest.split_first()?;
    Some((15 + usize::from(more), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_duration_is_found_among_other_extras() {
        // 10_000 ^ 1.74 / 2 = 4_560_054 µs.
        let extras = [0x02, 0, 9, 0x32, 0x27, 0x10];
        let micros = throttle_duration(&extras).unwrap().as_micros();
        assert!((4_550_000..4_570_000).contains(&micros), "{micros}");
        // Preceded by an escaped id and an escaped length.
        let escaped = [&[0xff, 1, 0][..], &[7; 15], &[0x32, 0, 0]].concat();
        assert_eq!(throttle_duration(&escaped), Some(Duration::ZERO));
    }

    #[test]
    fn extras_that_break_off_say_nothing() {
        for extras in [
            &[][..],
            &[0x32],
            &[0x32, 1],
            &[0xf2],
            &[0x3f],
            &[0x33, 1, 2, 3],
        ] {
            assert_eq!(throttle_duration(extras), None, "{extras:02x?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_extras_panic_or_ask_for_more_than_the_encoding_has(
            extras in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40),
        ) {
            let asked = throttle_duration(&extras).unwrap_or_default();
            proptest::prop_assert!(asked < Duration::from_secs(130), "{asked:?}");
        }
    }
}

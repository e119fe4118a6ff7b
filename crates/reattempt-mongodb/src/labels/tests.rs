//! Reading labels and base back-offs.

use super::*;

#[test]
fn a_base_is_a_positive_number_and_saturates() {
    let ms = Duration::from_millis;
    assert_eq!(base_backoff_from_ms(50.0), Some(ms(50)));
    assert_eq!(base_backoff_from_ms(0.5), Some(Duration::from_micros(500)));
    for huge in [f64::INFINITY, f64::MAX] {
        assert_eq!(base_backoff_from_ms(huge), Some(Duration::MAX));
    }
    for nothing in [
        0.0,
        -0.0,
        -5.0,
        f64::NAN,
        f64::NEG_INFINITY,
        f64::MIN_POSITIVE,
    ] {
        assert_eq!(base_backoff_from_ms(nothing), None, "{nothing}");
    }
}

#[test]
fn labels_are_read_exactly() {
    let read = |labels: &[&str]| ErrorLabels::read(labels);
    assert_eq!(read(&[]), ErrorLabels::NONE);
    assert_eq!(
        read(&["systemoverloadederror", "RetryableWriteError"]),
        ErrorLabels::NONE
    );
    let busy = read(&["SystemOverloadedError"]);
    assert!(busy.is_overload() && !busy.is_retryable_overload());
    let all = read(&[
        "NoWritesPerformed",
        "RetryableError",
        "SystemOverloadedError",
    ]);
    assert!(all.is_retryable_overload() && all.is_no_writes_performed());
}

use super::*;

#[test]
fn evenly_mixed_slow_attempts_are_rarely_close() {
    let bursts = Bursts::new();
    // A sequence without pattern: one in twenty.
    let mut word = 1_u64;
    for counted in 1..20_000 {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if (word >> 40) % 20 == 0 {
            bursts.slow(counted);
        }
        if counted % 500 == 0 {
            bursts.share();
        }
    }
    let share = bursts.share();
    assert!((0.14..0.30).contains(&share), "{share}");
}

#[test]
fn slow_attempts_in_a_row_are_close() {
    let bursts = Bursts::new();
    for counted in 0..8000 {
        if counted % 400 < 20 {
            bursts.slow(counted);
        }
        if counted % 800 == 0 {
            bursts.share();
        }
    }
    assert_eq!(bursts.lately(), 400);
    assert_eq!(bursts.lately(), 0);
    assert!(bursts.share() > 0.8);
    bursts.forget();
    assert_eq!(bursts.share(), INDEPENDENT);
}

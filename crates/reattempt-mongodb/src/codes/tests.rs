//! The table of codes, and numbers that are not codes.

use super::*;

/// M4
#[test]
fn the_table_holds_the_eleven_codes_of_2022() {
    let mut codes = SEED_2022.map(|row| row.code);
    codes.sort_unstable();
    assert_eq!(
        codes,
        [6, 7, 89, 91, 189, 9001, 10107, 11600, 11602, 13435, 13436]
    );
}

/// M4
#[test]
fn the_later_codes_are_found_only_when_asked_for() {
    for code in [134, 262] {
        assert_eq!(find(code, false), None);
        assert_eq!(find(code, true).map(|row| i64::from(row.code)), Some(code));
    }
}

/// M4: a number that matches a code only after truncation to 32 bits is not a code.
#[test]
fn a_wide_number_is_not_cut_to_a_code() {
    assert_eq!(find(10107 + (1 << 32), true), None);
    assert_eq!(find(i64::MIN, true), None);
    assert_eq!(find(-10107, true), None);
}

/// M4, E5
#[test]
fn a_double_is_a_code_only_if_it_is_a_whole_number() {
    assert_eq!(code_from_f64(10107.0), Some(10107));
    assert_eq!(code_from_f64(-1.0), Some(-1));
    for odd in [
        10107.5,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e300,
        2_147_483_648.0,
    ] {
        assert_eq!(code_from_f64(odd), None, "{odd}");
    }
}

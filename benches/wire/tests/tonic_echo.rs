//! The benchmark program runs: one short round.

use std::process::Command;

#[test]
fn one_short_round_reports_every_contender() {
    let output = Command::new(env!("CARGO_BIN_EXE_tonic_echo"))
        .args(["64", "1"])
        .output()
        .expect("it starts");
    let text = String::from_utf8(output.stdout).expect("text");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{error}");
    for contender in ["bare channel", "tower retry", "the whole stack"] {
        let rows = text.lines().filter(|line| line.contains(contender));
        assert!(
            rows.count() >= 2,
            "{contender}, 1 and 64 in flight:\n{text}"
        );
    }
}

//! The benchmark programs run: one short round of each.

use std::process::Command;

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .expect("it starts");
    let text = String::from_utf8(output.stdout).expect("text");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{error}");
    text
}

fn rows(text: &str, of: &str) -> usize {
    text.lines().filter(|line| line.contains(of)).count()
}

#[test]
fn one_short_round_of_gets_reports_every_contender() {
    let text = said(env!("CARGO_BIN_EXE_kv_get"), &["64", "1"]);
    for contender in ["bare client", "tower retry", "the whole stack"] {
        assert_eq!(
            rows(&text, contender),
            2,
            "{contender}, 1 and 64 in flight:\n{text}"
        );
    }
}

#[test]
fn one_outage_reports_all_three_ways() {
    let text = said(env!("CARGO_BIN_EXE_kv_failover"), &["1"]);
    assert!(text.starts_with("interval 2.5s, floor 50ms"), "{text}");
    for way in ["poll only", "refresh on error only", "both"] {
        for figure in ["first read", "first write", "all that waited"] {
            let row = format!("| {way} | {figure} |");
            assert_eq!(rows(&text, &row), 1, "{row}\n{text}");
        }
    }
}

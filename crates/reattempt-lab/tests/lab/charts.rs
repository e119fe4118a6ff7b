//! The table and the picture show every policy.

use std::collections::BTreeSet;

use reattempt_lab::{Report, chart};
use serde_json::json;

use super::{once, outcome, world};

/// The same outcome under each of these names.
fn report(names: impl IntoIterator<Item = String>) -> Report {
    let same = outcome(
        world(2.0, 20.0, 1, json!({"fixed_ms": 5}), json!([])),
        once(),
    );
    let policies = names.into_iter().map(|name| (name, same.clone()));
    Report {
        policies: policies.collect(),
    }
}

/// The first column of the table.
fn names(report: &Report) -> Vec<String> {
    let table = chart::table(report);
    let rows = table.lines().skip(1).take(report.policies.len());
    let first = rows.map(|row| row.split_whitespace().next().unwrap().to_owned());
    first.collect()
}

#[test]
fn long_paths_are_different_rows_of_a_table() {
    let folder = "/etc/reattempt/policies/of/the/service";
    let file = |name: &str| format!("{folder}/{name}.json");
    let within_32 = report(["first", "second"].map(file));
    let rows = names(&within_32);
    assert!(rows[0].ends_with("/service/first.json"), "{rows:?}");
    assert!(rows[1].ends_with("/service/second.json"), "{rows:?}");

    // The end and the start are the same.
    let services = ["orders", "carts"];
    let of = |service: &str| format!("/home/someone/work/{service}/config/production/policy.json");
    assert_eq!(names(&report(services.map(of))), services.map(of));
    let most = "x".repeat(200);
    let hostile = report(["a", "b"].map(|middle| format!("{most}{middle}{most}")));
    let widest = chart::table(&hostile);
    let widest = widest.lines().map(|line| line.chars().count()).max();
    assert!(widest < Some(340), "the table has a bound: {widest:?}");
}

#[test]
fn of_no_calls_there_is_no_share() {
    let none = world(2.0, 0.0, 1, json!({"fixed_ms": 5}), json!([]));
    let report = Report {
        policies: vec![("none".to_owned(), outcome(none, once()))],
    };
    let table = chart::table(&report);
    let row = table.lines().nth(1).unwrap().split_whitespace();
    let expected = ["none", "0", "-", "-", "-", "-", "-", "0", "-"];
    assert_eq!(row.collect::<Vec<_>>(), expected, "{table}");
    assert!(chart::svg("none", &report).contains(">none: no calls</text>"));
}

#[test]
fn each_of_many_policies_has_a_line_of_its_own_look() {
    let drawn = chart::svg("many", &report((0..28).map(|nth| format!("policy {nth}"))));
    for nth in 0..28 {
        assert!(drawn.contains(&format!(">policy {nth}: 100.00 % success")));
    }
    let lines = drawn
        .lines()
        .filter(|line| line.ends_with("stroke-width=\"1.6\"/>"));
    let looks: Vec<_> = lines
        .map(|line| line.split_once("fill=").unwrap().1)
        .collect();
    assert_eq!(looks.len(), 3 * 28, "a line in each of three plots");
    assert_eq!(looks.iter().collect::<BTreeSet<_>>().len(), 28);
    assert!(looks[..7].iter().all(|look| !look.contains("dash")));
}

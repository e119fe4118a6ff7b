//! `docs/policy-reference.md` against the parser.

use std::collections::BTreeMap;
use std::path::Path;

use reattempt::admission::AdmissionSettings;
use reattempt::health::HealthPolicy;

use super::*;
use crate::policy::members;

/// The rows of each section: the member or option, and its example. `None` in a published package,
/// which has no docs.
fn page() -> Option<BTreeMap<String, Vec<(String, String)>>> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    if !docs.exists() {
        return None;
    }
    let page = std::fs::read_to_string(docs.join("policy-reference.md")).unwrap();
    let mut sections = BTreeMap::<_, Vec<_>>::new();
    let mut section = String::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            heading.clone_into(&mut section);
        } else if let Some(row) = line.strip_prefix("| `") {
            let (name, rest) = row.split_once("` | ").unwrap();
            let cells: Vec<_> = rest.trim_end_matches(" |").split(" | ").collect();
            assert_eq!(cells.len(), 4, "type, default, meaning, example: {line}");
            assert!(cells.iter().all(|cell| !cell.is_empty()), "{line}");
            let example = cells[3].trim_matches('`').to_owned();
            let rows = sections.entry(section.clone()).or_default();
            rows.push((name.to_owned(), example));
        }
    }
    Some(sections)
}

/// The section of each object, its members, and a whole table with an example in it. The base of an
/// object is what it needs besides.
type Section = (
    &'static str,
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
    fn(&str) -> String,
);

const SECTIONS: [Section; 17] = [
    ("Table", members::TABLE, &[], |members| {
        format!("{{{members}}}")
    }),
    ("Route", members::ROUTE, &[], |members| {
        format!(r#"{{"routes": [{{{members}}}]}}"#)
    }),
    ("Match", members::MATCH, &[], |members| {
        format!(r#"{{"routes": [{{"match": {{{members}}}}}]}}"#)
    }),
    ("Settings", members::SETTINGS, &[], of_default),
    ("Retry", members::RETRY, &[], |members| {
        of_default(&format!(r#""retry": {{{members}}}"#))
    }),
    ("Backoff", members::BACKOFF, &[], |members| {
        of_default(&format!(r#""retry": {{"backoff": {{{members}}}}}"#))
    }),
    (
        "Hedge",
        members::HEDGE,
        &[("delay", r#""delay": "1s""#)],
        |members| {
            // It stands for the delay.
            let members = match members.contains("extraLoadPercent") {
                true => members.replace(r#""delay": "1s""#, r#""maxAttempts": 2"#),
                false => members.to_owned(),
            };
            of_default(&format!(r#""hedge": {{{members}}}"#))
        },
    ),
    (
        "Hedge delay",
        members::HEDGE_DELAY,
        &[("percentile", r#""percentile": 95"#)],
        |members| {
            of_default(&format!(
                r#""hedge": {{"budgetPercent": 5, "delay": {{{members}}}}}"#
            ))
        },
    ),
    (
        "retryAfter",
        members::RETRY_AFTER,
        &[("cap", r#""cap": "1s""#)],
        |members| of_default(&format!(r#""retryAfter": {{{members}}}"#)),
    ),
    ("Governor", members::GOVERNOR, &[], of_throttle),
    ("Admission", AdmissionSettings::MEMBERS, &[], |members| {
        format!(r#"{{"admission": {{{members}}}}}"#)
    }),
    ("Health", HealthPolicy::MEMBERS, &[], |members| {
        format!(r#"{{"health": {{{members}}}}}"#)
    }),
    (
        "Token bucket",
        members::TOKENS,
        &[
            ("maxTokens", r#""maxTokens": 1"#),
            ("tokenRatio", r#""tokenRatio": 1"#),
        ],
        of_throttle,
    ),
    (
        "Retry budget",
        members::RATIO,
        &[("retryRatio", r#""retryRatio": 1"#)],
        of_throttle,
    ),
    ("Quota", members::QUOTA, &[], of_throttle),
    ("Hedge budget", members::BUDGET, &[], |members| {
        format!(r#"{{"budgets": {{"b": {{{members}}}}}}}"#)
    }),
    ("Options beside an HTTP policy", OPTIONS, &[], |_| {
        "{}".to_owned()
    }),
];

fn of_default(members: &str) -> String {
    format!(
        r#"{{"default": {{{members}}}, "throttles": {{"shop": {{"maxTokens": 1, "tokenRatio": 1}}}},
            "budgets": {{"spare": {{"percent": 1}}}}}}"#
    )
}

fn of_throttle(members: &str) -> String {
    format!(r#"{{"throttles": {{"t": {{{members}}}}}}}"#)
}

/// Does not compile if a field is missing.
macro_rules! fields {
    ($($field:ident),*) => {{
        const fn _all(options: &Options) {
            let Options { $($field: _),* } = options;
        }
        &[$(stringify!($field)),*]
    }};
}

const OPTIONS: &[&str] = fields!(randomness, clock, on_deadline, default_on_deadline);

#[test]
fn every_member_stands_in_the_reference_and_no_other() {
    let Some(page) = page() else { return };
    let of_grpc = "Options beside a gRPC service config";
    let known = SECTIONS.map(|(section, ..)| section);
    for section in page.keys() {
        assert!(
            known.contains(&&**section) || section == of_grpc,
            "{section}"
        );
    }
    for (section, known, ..) in SECTIONS {
        let named: Vec<_> = page[section].iter().map(|(name, _)| &**name).collect();
        assert_eq!(named, known, "{section}: the same, in the same order");
    }
}

#[test]
fn every_example_of_the_reference_is_valid() {
    let Some(page) = page() else { return };
    for (section, _, base, whole) in SECTIONS {
        for (name, example) in &page[section] {
            let others = base.iter().filter(|(other, _)| other != name);
            let members: Vec<_> = others.map(|(_, text)| *text).chain([&**example]).collect();
            let text = whole(&members.join(", "));
            let parsed = HttpPolicies::parse(&text);
            let parsed = parsed.unwrap_or_else(|faults| panic!("{section}: {example}: {faults}"));
            let idle = |warning: &&Fault| {
                warning.what.contains("not known") || warning.what.contains("no effect")
            };
            let idle: Vec<_> = parsed.warnings.iter().filter(idle).collect();
            assert!(idle.is_empty(), "{section}: {example}: {idle:?}");
            let member = example.starts_with(&format!("\"{name}\": "));
            let option = example.starts_with(&format!(".{name}("));
            assert!(member || option, "{section}: {name}: {example}");
        }
    }
}

//! `docs/policy-reference.md` against the options.

use std::path::Path;

use crate::service_config::Options;

/// Does not compile if a field is missing.
macro_rules! fields {
    ($($field:ident),*) => {{
        let Options { $($field: _),* } = Options::default();
        vec![$(stringify!($field)),*]
    }};
}

#[test]
fn every_option_stands_in_the_reference_and_no_other() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    // A published package has none.
    if !docs.exists() {
        return;
    }
    let page = std::fs::read_to_string(docs.join("policy-reference.md")).unwrap();
    let (_, section) = page
        .split_once("## Options beside a gRPC service config")
        .unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let named: Vec<_> = rows.map(|row| row.split('`').next().unwrap()).collect();
    let fields = fields!(
        max_attempts_limit,
        jitter,
        randomness,
        on_deadline,
        load_balancing_policies,
        refused,
        throttle,
        hedge_delay,
        retries,
        log_warnings
    );
    assert_eq!(named, fields);
}

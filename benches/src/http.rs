//! The cost of finding a request's policy in a table of HTTP routes.

use std::fmt::Write;
use std::hint::black_box;

use http::Request;
use reattempt::Route;
use reattempt_http::HttpPolicies;

use crate::cases::Case;

/// A table of one host: exact paths, prefixes and patterns in turn.
#[must_use]
pub fn table(routes: usize) -> HttpPolicies {
    let mut text = String::from(r#"{"routes":["#);
    for n in 0..routes {
        let path = match n % 3 {
            0 => format!(r#""pattern":"/v1/{n}/{{id}}/parts""#),
            1 => format!(r#""prefix":"/v1/{n}/""#),
            _ => format!(r#""path":"/v1/things/{n}""#),
        };
        let comma = if n == 0 { "" } else { "," };
        let route = format!(r#"{comma}{{"match":{{"host":"api.example",{path}}}}}"#);
        text.write_str(&route).expect("a string takes all");
    }
    text.push_str("]}");
    let parsed = HttpPolicies::parse(&text).expect("the table has no faults");
    parsed.policies
}

/// Looks up a request for the last route that has a path of its own.
fn last_of(routes: usize, calls: u64) -> u64 {
    let table = table(routes);
    let last = (0..routes).rfind(|n| n % 3 == 2).unwrap_or_default();
    let uri = format!("http://api.example/v1/things/{last}");
    let request = Request::get(uri).body(()).expect("a valid URI");
    (0..calls)
        .filter(|_| black_box(&table).route(black_box(&request)).is_some())
        .count() as u64
}

/// All cases.
#[must_use]
pub fn all() -> Vec<Case> {
    let case = |name, run| Case {
        name,
        run,
        future: 0,
    };
    vec![
        case("last-of-10-routes", |calls| last_of(10, calls)),
        case("last-of-1000-routes", |calls| last_of(1000, calls)),
        case("last-of-15000-routes", |calls| last_of(15_000, calls)),
    ]
}

//! The first route in the list wins, however it is found.

use super::*;

/// Conditions that overlap: every kind of path, with and without a host.
fn condition() -> impl Strategy<Value = String> {
    let path = prop_oneof![
        Just(String::new()),
        "(/(a|b|A|)){1,4}".prop_map(|path| format!(r#","path":"{path}""#)),
        "(/(a|b|A|)){1,4}".prop_map(|path| format!(r#","prefix":"{path}""#)),
        "(/(a|b|[{]x[}]|a[{]x[}]|[{][{]a[}][}])){1,3}(/[{][*]r[}])?"
            .prop_map(|path| distinct(&path))
            .prop_map(|path| format!(r#","pattern":"{path}""#)),
    ];
    let host = prop_oneof![
        3 => Just(""),
        1 => Just(r#","host":"One.example""#),
        1 => Just(r#","host":"one.example:8080""#),
        1 => Just(r#","host":"[::1]""#),
    ];
    let method = prop_oneof![3 => Just("GET"), 1 => Just("PUT")];
    (path, host, method)
        .prop_map(|(path, host, method)| format!(r#"{{"methods":["{method}"]{path}{host}}}"#))
}

/// The same pattern with a name of its own for each parameter.
fn distinct(pattern: &str) -> String {
    let mut parts = pattern.split("{x}");
    let first = parts.next().unwrap_or_default().to_owned();
    let names = parts.enumerate();
    names.fold(first, |text, (at, part)| format!("{text}{{x{at}}}{part}"))
}

fn request() -> impl Strategy<Value = Request<()>> {
    let origin = prop_oneof![
        Just(("", None)),
        Just(("", Some("one.example"))),
        Just(("http://ONE.example", None)),
        Just(("http://user@one.example:8080", Some("two.example"))),
        Just(("http://[::1]:80", None)),
    ];
    (origin, "(/(a|b|A|ab|[{]a[}]|)){1,5}|[*]").prop_map(|((origin, host), path)| {
        let path = if origin.is_empty() || path.starts_with('/') {
            path.replace('{', "%7B").replace('}', "%7D")
        } else {
            "/".to_owned()
        };
        let mut request = Request::get(format!("{origin}{path}"));
        if let Some(host) = host {
            request = request.header("host", host);
        }
        request.body(()).unwrap()
    })
}

fn table_of(conditions: &[String]) -> HttpPolicies {
    let route =
        |(at, condition): (usize, &String)| format!(r#"{{"name":"{at}","match":{condition}}}"#);
    let routes: Vec<_> = conditions.iter().enumerate().map(route).collect();
    table(&format!(r#"{{"routes":[{}]}}"#, routes.join(",")))
}

proptest! {
    #[test]
    fn the_index_finds_what_a_search_in_order_finds(
        conditions in proptest::collection::vec(condition(), 0..12),
        requests in proptest::collection::vec(request(), 1..8),
    ) {
        let table = table_of(&conditions);
        for request in requests {
            let in_order = table.table.routes.iter().find(|(matching, _)| matching.matches(&request));
            let expected = in_order.map(|(_, policy)| policy.name().to_owned());
            let found = table.route(&request).map(|policy| policy.name().to_owned());
            prop_assert_eq!(found, expected, "{:?} {:?}", request.uri(), conditions);
        }
    }
}

#[test]
fn a_path_of_very_many_segments_is_found() {
    let deep = "/a".repeat(200_000);
    let table = table(&format!(
        r#"{{"routes":[{{"name":"deep","match":{{"path":"{deep}"}}}},
            {{"name":"other","match":{{"prefix":"/a"}}}}]}}"#
    ));
    let name = |path: String| {
        let policy = table.route(&Request::get(path).body(()).unwrap());
        policy.unwrap().name().to_owned()
    };
    // `http::Uri` takes at most 64 KiB.
    assert_eq!(name("/a".repeat(30_000)), "other");
    drop(table.clone());
}

#[test]
fn few_routes_are_asked_in_a_large_table() {
    let routes: Vec<_> = (0..1000)
        .flat_map(|n| {
            [
                format!(r#"{{"path":"/v1/things/{n}"}}"#),
                format!(r#"{{"prefix":"/v1/{n}/"}}"#),
                format!(r#"{{"pattern":"/v2/{n}/{{id}}"}}"#),
                format!(r#"{{"host":"h{n}.example"}}"#),
            ]
        })
        .collect();
    let table = table_of(&routes);
    let asked = |uri: &str| {
        let count = std::cell::Cell::new(0);
        let request = Request::get(uri).body(()).unwrap();
        table.table.index.first(&request, |_, _| {
            count.set(count.get() + 1);
            false
        });
        count.get()
    };
    assert_eq!(asked("http://h7.example/v1/things/999"), 2);
    assert_eq!(asked("/v1/999/x"), 1);
    assert_eq!(asked("/v2/999/x"), 1);
    assert_eq!(asked("/elsewhere"), 0);
}

#[test]
fn a_request_for_no_path_is_not_one_for_a_path_of_that_text() {
    let table = table(r#"{"routes":[{"match":{"path":"/*"}},{"match":{"path":"/"}}]}"#);
    for uri in ["*", "one.example:80"] {
        let request = Request::options(uri).body(()).unwrap();
        assert!(table.route(&request).is_none(), "{uri}");
    }
    let request = Request::get("/*").body(()).unwrap();
    assert!(table.route(&request).is_some());
}

#[cfg(feature = "tokio")]
mod follow;
mod governor;
mod hedge_timing;
mod hosts;
mod index;
mod reference;
mod shared;
mod throttles;

use std::time::Duration;

use http::Request;
use proptest::prelude::*;
use reattempt::throttle::Settled;
use reattempt::{Failure, Recovery, RetryThrottle, Route, RoutePolicy, Stage, reason};

use super::*;
use crate::{HttpRoute, IdempotencyKeys};

const FAILURE: Failure = Failure::new(reason::UNKNOWN, Stage::Response);

fn lines(faults: &[Fault]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

fn faults(text: &str) -> Vec<String> {
    HttpPolicies::parse(text).map_or_else(|faults| lines(faults.faults()), |_| Vec::new())
}

fn warnings(text: &str) -> Vec<String> {
    lines(&HttpPolicies::parse(text).unwrap().warnings)
}

fn table(text: &str) -> HttpPolicies {
    HttpPolicies::parse(text).unwrap().policies
}

/// A table with one policy for every call.
fn only(members: &str) -> Arc<RoutePolicy> {
    let table = table(&format!(r#"{{"default":{{{members}}}}}"#));
    table.route(&Request::new(())).unwrap()
}

fn name_for(table: &HttpPolicies, method: &str, uri: &str) -> Option<String> {
    let request = Request::builder().method(method).uri(uri).body(()).unwrap();
    Some(table.route(&request)?.name().to_owned())
}

#[test]
fn every_fault_is_reported_at_once_with_its_path() {
    let text = r#"{
        "routes": [
            {"name": "a", "match": {"methods": ["get", 5], "path": "x", "prefix": "/p", "host": "h:0"},
             "retry": {"maxAttempts": 0, "backoff": {"initial": "0.1", "multiplier": 0, "jitter": "some"},
                       "statuses": [503, 99, "x"], "safeStatuses": 7, "transportErrors": "yes", "onDeadline": "wait"},
             "hedge": {"maxAttempts": 9, "budgetPercent": 0.05, "onDeadline": 7},
             "timeout": "0s", "attemptTimeout": 1, "bodyLimit": -1, "idempotencyKey": 1, "throttle": "no"},
            {"name": "a", "match": {"methods": [], "pattern": "/{a}{b}"},
             "retryAfter": {"honour": 1, "cap": "-1s", "beyondCap": "panic", "rateLimits": "x", "spread": 2}},
            7,
            {"match": {"query": {"watch": false, "n": 5, "ok": "yes"}}},
            {"match": {"query": {"watch": null}}},
            {"match": {"query": "watch=true"}}
        ],
        "default": {"hedge": [], "throttle": "t"},
        "throttles": {"t": {"maxTokens": 1001, "tokenRatio": 0.0009}, "u": {"maxTokens": 1.5}}
    }"#;
    let duration = "must be a duration such as \"0.1s\" (at most nine decimal places), got";
    let above =
        "must be a duration greater than 0 such as \"0.1s\" (at most nine decimal places), got";
    let parameter = "must be the parameter's value as a string, or true for any value, got";
    let a = "$.routes[0]";
    let expected = [
        format!("{a}.match.methods[0]: must be a method in capitals such as \"GET\", got \"get\""),
        format!("{a}.match.methods[1]: must be a method in capitals such as \"GET\", got 5"),
        format!("{a}.match.path: must be a path without query that starts with \"/\", got \"x\""),
        format!("{a}.match: has more than one of path, prefix and pattern: only one may be set"),
        format!("{a}.match.host: must be a host with a port from 1 to 65535, got \"h:0\""),
        format!("{a}: has both retry and hedge: only one may be set"),
        format!("{a}.throttle: must be the name of one of throttles (there are \"t\", \"u\"), got \"no\""),
        format!("{a}.retry.maxAttempts: must be an integer from 1 to 1000, got 0"),
        format!("{a}.retry.backoff.initial: {duration} \"0.1\""),
        format!("{a}.retry.backoff.multiplier: must be a number greater than 0, got 0"),
        format!("{a}.retry.backoff.jitter: must be \"full\" or \"none\" or \"proportional\" or \"decorrelated\", got \"some\""),
        format!("{a}.retry.statuses[1]: must be a status from 100 to 999, got 99"),
        format!("{a}.retry.statuses[2]: must be a status from 100 to 999, got \"x\""),
        format!("{a}.retry.transportErrors: must be true or false, got \"yes\""),
        format!("{a}.retry.safeStatuses: must be an array of statuses, got 7"),
        format!("{a}.retry.onDeadline: must be \"giveUp\" or \"cap\", got \"wait\""),
        format!("{a}.hedge.maxAttempts: must be an integer from 1 to 8, got 9"),
        format!("{a}.hedge.delay: is missing: a duration is needed"),
        format!("{a}.hedge.budgetPercent: must be a number from 0.1 to 100 with at most one decimal place, got 0.05"),
        format!("{a}.hedge.onDeadline: must be \"giveUp\" or \"cap\", got 7"),
        format!("{a}.timeout: {above} \"0s\""),
        format!("{a}.attemptTimeout: {above} 1"),
        format!("{a}.bodyLimit: must be a whole number of bytes below 2^32, got -1"),
        format!("{a}.idempotencyKey: must be true, false or \"generate\", got 1"),
        "$.routes[1].name: \"a\" is the name of another route already".to_owned(),
        "$.routes[1].match.methods: must name at least one method".to_owned(),
        "$.routes[1].match.pattern: must be a pattern such as \"/users/{id}\" or \"/files/{*rest}\", \
         got \"/{a}{b}\": Only one parameter is allowed per path segment".to_owned(),
        "$.routes[1].retryAfter.honour: must be true or false, got 1".to_owned(),
        "$.routes[1].retryAfter.rateLimits: must be true or false, got \"x\"".to_owned(),
        format!("$.routes[1].retryAfter.spread: {duration} 2"),
        format!("$.routes[1].retryAfter.cap: {duration} \"-1s\""),
        "$.routes[1].retryAfter.beyondCap: must be \"stop\" or \"wait\", got \"panic\"".to_owned(),
        "$.routes[2]: must be an object, got 7".to_owned(),
        format!("$.routes[3].match.query.watch: {parameter} false"),
        format!("$.routes[3].match.query.n: {parameter} 5"),
        "$.routes[4].match.query: must name at least one parameter".to_owned(),
        "$.routes[5].match.query: must be an object, got \"watch=true\"".to_owned(),
        "$.default.hedge: must be an object, got an array".to_owned(),
        "$.throttles.t.maxTokens: must be an integer from 1 to 1000, got 1001".to_owned(),
        "$.throttles.t.tokenRatio: must be a number of at least 0.001 (decimal places beyond 3 are dropped), got 0.0009".to_owned(),
        "$.throttles.u.maxTokens: must be an integer from 1 to 1000, got 1.5".to_owned(),
        "$.throttles.u.tokenRatio: is missing: a number is needed".to_owned(),
    ];
    let found = faults(text);
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn a_multiplier_that_no_float_holds_is_a_fault_at_its_path() {
    for number in ["1e400", "1e-400"] {
        let text =
            format!(r#"{{"default": {{"retry": {{"backoff": {{"multiplier": {number}}}}}}}}}"#);
        let path = "$.default.retry.backoff.multiplier";
        let fault = format!("{path}: must be a number that a 64-bit float can hold, got {number}");
        assert!(faults(&text).contains(&fault), "{:?}", faults(&text));
    }
}

#[test]
fn what_is_not_the_form_at_all_is_one_fault() {
    assert_eq!(
        faults("{\"routes\": }"),
        ["$: is not JSON: no JSON value starts like this (byte 11)"]
    );
    assert_eq!(faults("[]"), ["$: must be an object, got an array"]);
    assert_eq!(
        faults(r#"{"routes": {}, "routes": []}"#),
        [
            "$.routes: is there twice",
            "$.routes: must be an array of routes, got an object"
        ]
    );
    assert_eq!(
        faults(r#"{"routes": [{"name": "default"}]}"#),
        ["$.routes[0].name: \"default\" is the name of the default"]
    );
    assert_eq!(
        faults(r#"{"routes": [{"name": "routes[1]"}, {}]}"#),
        ["$.routes[0].name: \"routes[1]\" is of the form of routes without a name"]
    );
    assert_eq!(
        faults(r#"{"default": {"throttle": "t"}}"#),
        ["$.default.throttle: must be the name of one of throttles (there are none), got \"t\""]
    );
}

#[test]
fn what_is_not_known_has_no_effect_and_is_said() {
    let text = r#"{"version": 1, "default": {"match": {}, "retry": {"max": 2}},
        "throttles": {"idle": {"maxTokens": 1, "tokenRatio": 1, "why": 0}}}"#;
    assert_eq!(
        warnings(text),
        [
            "$.version: is not known and has no effect",
            "$.default.match: is not known and has no effect",
            "$.default.retry.max: is not known and has no effect",
            "$.throttles.idle: no route uses it",
            "$.throttles.idle.why: is not known and has no effect",
        ]
    );
}

/// As in YAML's `retry:` without a value.
#[test]
fn a_null_that_switches_retries_off_is_said() {
    let once = "is null, which counts as absent: calls are sent once";
    let text =
        r#"{"routes": [{"match": {"path": "/a"}, "hedge": null}], "default": {"retry": null}}"#;
    assert_eq!(
        warnings(text),
        [
            format!("$.routes[0].hedge: {once}"),
            format!("$.default.retry: {once}; write {{}} for the defaults"),
        ]
    );
    let none: [&str; 0] = [];
    let text = r#"{"default": {"retry": {}, "hedge": null, "timeout": null}}"#;
    assert_eq!(warnings(text), none);
}

/// In YAML the lines below such a name were all removed.
#[test]
fn a_null_that_changes_what_is_sent_is_said() {
    let absent = "is null, which counts as absent";
    let text = r#"{"routes": [{"match": null, "retry": {}}], "default": null}"#;
    assert_eq!(
        warnings(text),
        [
            format!(
                "$.default: {absent}: a request without a route is retried as the layer is set; \
                 write {{}} to send it once"
            ),
            format!("$.routes[0].match: {absent}: every request matches"),
        ]
    );
    assert_eq!(
        warnings(r#"{"routes": null, "default": {}}"#),
        [format!("$.routes: {absent}: no request has a route")]
    );
}

/// Without `retry` or `hedge` a route is sent once: its throttle holds nothing back.
#[test]
fn a_throttle_of_routes_that_never_send_again_is_said() {
    let bucket = r#"{"maxTokens": 10, "tokenRatio": 0.1}"#;
    let text = format!(
        r#"{{"routes": [{{"name": "writes", "match": {{"path": "/a"}}, "throttle": "both"}}],
            "default": {{"throttle": "once"}}, "throttles": {{"once": {bucket}, "both": {bucket}}}}}"#
    );
    let said = "no route that uses it has retry or hedge: there is nothing that it can refuse";
    let none: [&str; 0] = [];
    assert_eq!(warnings(&text), none, "retries are switched off");
    let text = text.replace(r#""default": {"#, r#""default": {"retry": {}, "#);
    assert_eq!(warnings(&text), [format!("$.throttles.both: {said}")]);
    let text = text.replace(r#""throttle": "once""#, r#""throttle": "both""#);
    assert_eq!(warnings(&text), ["$.throttles.once: no route uses it"]);
}

/// What the guide publishes in an emergency keeps the names that the file has.
#[test]
fn a_name_without_a_use_is_right_while_retries_are_off() {
    let none: [&str; 0] = [];
    let text = r#"{"default": {}, "budgets": {"spare": {"percent": 5}},
        "throttles": {"shop": {"maxTokens": 10, "tokenRatio": 0.1}}}"#;
    assert_eq!(warnings(text), none);
}

/// A condition that was misspelt leaves no route that matches every request.
#[test]
fn a_condition_that_is_not_known_is_never_met() {
    let text = r#"{"routes": [
        {"name": "orders", "match": {"paths": ["/orders"], "methods": ["GET"]}, "retry": {}},
        {"name": "all", "Match": {"path": "/orders"}, "retry": {}},
        {"name": "rest", "match": {"prefix": "/", "query2": null}, "retry": {}}]}"#;
    assert_eq!(
        warnings(text),
        [
            "$.routes[0].match.paths: is not known and has no effect",
            "$.routes[0].match: has a condition that is not known: no request matches",
            "$.routes[1].Match: is not known and has no effect: write match",
            "$.routes[1]: has \"Match\" and no match: no request matches",
            "$.routes[2].match.query2: is not known and has no effect",
        ]
    );
    let table = table(text);
    for uri in ["/orders", "/other"] {
        let request = Request::get(uri).body(()).unwrap();
        assert_eq!(table.route(&request).unwrap().name(), "rest");
    }
}

#[test]
fn policies_that_can_amplify_load_are_warned_of() {
    let of = |policy: &str| {
        warnings(&format!(
            r#"{{"routes": [{{"match": {{"methods": ["GET"]}}, {policy}}}],
               "throttles": {{"t": {{"maxTokens": 10, "tokenRatio": 0.1}}}}}}"#
        ))
        .into_iter()
        .filter(|line| line.contains("amplify"))
        .map(|line| line.split(": ").next().unwrap_or_default().to_owned())
        .collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(of(r#""retry": {"maxAttempts": 3}"#), none);
    assert_eq!(
        of(r#""retry": {"maxAttempts": 4}"#),
        ["$.routes[0].retry.maxAttempts"]
    );
    // `HttpClientLayer` adds a bucket.
    let said = warnings(r#"{"default": {"retry": {"maxAttempts": 4}}}"#);
    let no_other = "no throttle of this document holds them back, only one of the client";
    assert!(said[0].contains(no_other), "{said:?}");
    assert_eq!(of(r#""retry": {"maxAttempts": 4}, "throttle": "t""#), none);
    assert_eq!(
        of(r#""retry": {"backoff": {"initial": "0s"}}"#),
        ["$.routes[0].retry.backoff"]
    );
    assert_eq!(
        of(r#""hedge": {"delay": "0.1s", "budgetPercent": 5}"#),
        none
    );
    assert_eq!(of(r#""hedge": {"delay": "0.1s"}"#), ["$.routes[0].hedge"]);
    assert_eq!(
        of(r#""hedge": {"delay": "0s", "budgetPercent": 5}"#),
        ["$.routes[0].hedge.delay"]
    );
    let works = ["$.routes[0].retry.statuses"];
    assert_eq!(of(r#""retry": {"statuses": [503, 200]}"#), works);
    assert_eq!(of(r#""retry": {"statuses": [202, 404]}"#), none);
}

#[test]
fn a_pattern_has_as_many_parameters_as_its_router_takes() {
    let parsed = |count: usize| {
        let pattern: String = (0..count).map(|n| format!("/{{p{n}}}")).collect();
        let text = format!(r#"{{"routes": [{{"match": {{"pattern": "{pattern}"}}}}]}}"#);
        HttpPolicies::parse(&text).map_err(|faults| faults.listed())
    };
    assert!(parsed(25).is_ok());
    let literal = format!("/{}x{}", "{{".repeat(30), "}}".repeat(30));
    let text = format!(r#"{{"routes": [{{"match": {{"pattern": "{literal}"}}}}]}}"#);
    assert!(HttpPolicies::parse(&text).is_ok(), "braces of the path");
    let said = "$.routes[0].match.pattern: must have at most 25 parameters";
    assert_eq!(parsed(26).unwrap_err(), said);
}

#[test]
fn a_parameter_in_the_words_of_another_router_is_warned_of() {
    for (kind, path, part) in [
        ("pattern", "/users/:id", ":id"),
        ("pattern", "/files/*rest", "*rest"),
        ("pattern", "/files/*", "*"),
        ("prefix", "/files/*", "*"),
        ("prefix", "/api*", "api*"),
        ("path", "/v{version}/x", "v{version}"),
        ("path", "/users/{id}", "{id}"),
    ] {
        let text = format!(r#"{{"routes": [{{"match": {{"{kind}": "{path}"}}}}]}}"#);
        let warned = warnings(&text);
        let begins = format!("$.routes[0].match.{kind}: \"{part}\" is matched literally");
        assert!(
            warned.len() == 1 && warned[0].starts_with(&begins),
            "{warned:?}"
        );
    }
    let fine = r#"{"routes": [{"match": {"pattern": "/a:b/{größe}/{*rest}"}}]}"#;
    assert_eq!(warnings(fine), Vec::<String>::new());
    let encoded = warnings(r#"{"routes": [{"match": {"path": "/café"}}]}"#);
    assert_eq!(encoded.len(), 1, "{encoded:?}");
}

#[test]
fn what_contradicts_itself_is_warned_of() {
    let text = r#"{
        "routes": [
            {"match": {"prefix": "/s"}, "hedge": {"delay": "1s", "budgetPercent": 1, "onlyIdempotent": false}},
            {"retry": {"statuses": [500], "safeStatuses": [429], "backoff": {"initial": "2s", "max": "1s"}},
             "retryAfter": {"beyondCap": "wait"}, "timeout": "1s", "attemptTimeout": "1s"},
            {"match": {"path": "/"}}
        ]}"#;
    assert_eq!(
        warnings(text),
        [
            "$.routes[0].hedge.onlyIdempotent: requests that are not idempotent are hedged too: name the methods in match",
            "$.routes[1].retry.backoff.max: is below initial, so that every delay is max",
            "$.routes[1].retry.safeStatuses: 429 has no effect, because statuses does not list it",
            "$.routes[1].retryAfter.beyondCap: has no effect, because there is no cap",
            "$.routes[1].attemptTimeout: has no effect, because it is not below timeout",
            "$.routes[2]: never matches, because routes[1] matches every request",
        ]
    );
}

#[test]
fn the_first_route_that_matches_counts_and_then_the_default() {
    let text = r#"{"routes": [
        {"name": "exact", "match": {"path": "/users/me"}},
        {"name": "pattern", "match": {"pattern": "/users/{id}", "methods": ["GET", "HEAD"]}},
        {"name": "same pattern", "match": {"pattern": "/users/{name}"}},
        {"name": "rest", "match": {"pattern": "/files/{*rest}"}},
        {"name": "segments", "match": {"prefix": "/v1"}},
        {"name": "below", "match": {"prefix": "/v2/"}},
        {"name": "all posts", "match": {"methods": ["POST"]}}
    ], "default": {}}"#;
    let table = table(text);
    for (method, uri, name) in [
        ("PUT", "/users/me", "exact"),
        ("GET", "http://h/users/me?x=/y", "exact"),
        ("GET", "/users/7", "pattern"),
        ("PUT", "/users/7", "same pattern"),
        ("GET", "/users/7/", "default"),
        ("GET", "/users/", "default"),
        ("GET", "/files/a/b/c", "rest"),
        ("GET", "/v1", "segments"),
        ("GET", "/v1/x", "segments"),
        ("GET", "/v10", "default"),
        ("GET", "/v2", "default"),
        ("GET", "/v2/", "below"),
        ("POST", "/V1/x", "all posts"),
    ] {
        assert_eq!(
            name_for(&table, method, uri).as_deref(),
            Some(name),
            "{method} {uri}"
        );
    }
    assert_eq!(table.iter().count(), 8);
    let no_default = HttpPolicies::default();
    assert_eq!(
        name_for(&no_default, "GET", "/"),
        None,
        "left to the layers"
    );
}

#[test]
fn query_parameters_match_by_value_or_by_presence() {
    let table = table(
        r#"{"routes": [
        {"name": "two", "match": {"query": {"watch": "true", "limit": true}}},
        {"name": "watch", "match": {"path": "/pods", "query": {"watch": "true"}}},
        {"name": "text", "match": {"query": {"ä &": "1 =+"}}},
        {"name": "empty", "match": {"query": {"dry": ""}}}
    ], "default": {}}"#,
    );
    for (uri, name) in [
        ("/pods?watch=true", "watch"),
        ("http://h/pods?a=b&watch=true&c", "watch"),
        ("/pods?watch=true&limit=5", "two"),
        ("/pods?limit&watch=true", "two"),
        ("/pods?w%61tch=tr%75e", "watch"),
        ("/pods?watch=false&watch=true", "watch"),
        ("/pods?watch=true&watch=false", "watch"),
        ("/pods", "default"),
        ("/pods?", "default"),
        ("/pods?watch", "default"),
        ("/pods?watch=false", "default"),
        ("/pods?watch=True", "default"),
        ("/pods?Watch=true", "default"),
        ("/pods?unwatch=true", "default"),
        ("/pods?a=watch=true", "default"),
        ("/nodes?watch=true", "default"),
        ("/?%C3%A4+%26=1+%3d%2B", "text"),
        ("/?%C3%A4%20%26=1%20=%2B", "text"),
        ("/?dry", "empty"),
        ("/?dry=", "empty"),
        ("/?dry=%", "default"),
    ] {
        let found = name_for(&table, "GET", uri);
        assert_eq!(found.as_deref(), Some(name), "{uri}");
    }
}

#[test]
fn a_route_by_query_is_not_for_every_request() {
    let text = r#"{"routes": [{"match": {"query": {"watch": true}}}, {"name": "other"}]}"#;
    assert_eq!(warnings(text), [""; 0]);
    assert_eq!(name_for(&table(text), "GET", "/").as_deref(), Some("other"));
}

#[test]
fn settings_reach_the_policy_exactly() {
    let policy = only(
        r#""retry": {}, "timeout": "0.000000001s", "attemptTimeout": "1.5s", "bodyLimit": 7, "idempotencyKey": true"#,
    );
    assert_eq!(policy.timeout(), Some(Duration::from_nanos(1)));
    assert_eq!(policy.attempt_timeout(), Some(Duration::from_millis(1500)));
    let http = policy.data::<HttpRoute>().unwrap();
    assert_eq!(
        (http.body_limit(), http.idempotency_key()),
        (Some(7), Some(IdempotencyKeys::Honour))
    );
    let Recovery::Retry(strategy) = policy.recovery() else {
        panic!("{policy:?}")
    };
    assert_eq!(strategy.max_attempts(), Some(3));

    let nothing = only("");
    assert!(matches!(nothing.recovery(), Recovery::None));
    let http = nothing.data::<HttpRoute>().unwrap();
    assert_eq!((http.body_limit(), http.idempotency_key()), (None, None));
    assert!(http.pushback().is_none() && nothing.throttle().is_none());

    let generates = only(r#""idempotencyKey": "generate""#);
    let http = generates.data::<HttpRoute>().unwrap();
    assert_eq!(http.idempotency_key(), Some(IdempotencyKeys::Generate));
}

#[test]
fn keys_are_generated_only_for_methods_that_the_route_has() {
    let of = |methods: &str| {
        warnings(&format!(
            r#"{{"routes": [{{"match": {{{methods}}}, "idempotencyKey": "generate"}}]}}"#
        ))
    };
    let idle =
        "$.routes[0].idempotencyKey: generates no key, because match has neither POST nor PATCH";
    assert_eq!(of(r#""methods": ["GET", "PUT"]"#), [idle]);
    for methods in [
        "",
        r#""methods": ["GET", "PATCH"]"#,
        r#""methods": ["POST"]"#,
    ] {
        assert_eq!(of(methods), [""; 0], "{methods}");
    }
    let wrong = faults(r#"{"default": {"idempotencyKey": "GENERATE"}}"#);
    let must = "must be true, false or \"generate\", got \"GENERATE\"";
    assert_eq!(wrong, [format!("$.default.idempotencyKey: {must}")]);
}

#[test]
fn ratios_count_in_exact_thousandths() {
    let text = r#"{"default": {"throttle": "t"}, "throttles": {"t": {"maxTokens": 10, "tokenRatio": 0.5469}}}"#;
    let table = table(text);
    let bucket = table.throttle("t").unwrap();
    bucket.settled(Settled::Failure(&FAILURE));
    bucket.settled(Settled::Success);
    assert_eq!(bucket.milli_tokens(), Some(9546));
}

const SHARED: &str = r#"{
    "routes": [
        {"name": "a", "match": {"path": "/a", "methods": ["GET"]}, "throttle": "t",
         "hedge": {"delay": "1s", "budgetPercent": 0.1}},
        {"name": "b", "match": {"path": "/b"}, "throttle": "t"}
    ],
    "throttles": {"t": {"maxTokens": 10, "tokenRatio": 0.1}}}"#;

fn later_of(text: &str) -> String {
    text.replace("\"maxTokens\": 10", "\"maxTokens\": 100")
        .replace("\"budgetPercent\": 0.1", "\"budgetPercent\": 50")
}

#[test]
fn throttles_are_shared_by_name_and_updates_keep_their_fill() {
    let live = LiveHttpPolicies::new(table(SHARED));
    let first = live.load();
    let throttle = |table: &HttpPolicies, uri: &str| {
        let policy = table.route(&Request::get(uri).body(()).unwrap()).unwrap();
        Arc::clone(policy.throttle().unwrap())
    };
    throttle(&first, "/b").settled(Settled::Failure(&FAILURE));
    assert_eq!(throttle(&first, "/a").milli_tokens(), Some(9000));
    assert!(
        throttle(&first, "/a").spend(None),
        "the first hedge is free"
    );
    assert!(!throttle(&first, "/a").spend(None), "the budget is spent");

    let broken = later_of(SHARED).replace("0.1}}", "0.1}, \"t\": 1}");
    assert!(live.update(&broken).is_err());
    assert_eq!(
        throttle(&first, "/b").milli_tokens(),
        Some(9000),
        "an invalid text changes nothing"
    );

    assert!(Arc::ptr_eq(&live.load(), &first));

    live.update(&later_of(SHARED)).unwrap();
    let second = live.load();
    assert_eq!(
        throttle(&second, "/b").milli_tokens(),
        Some(90_000),
        "nine tenths of the new"
    );
    assert!(
        !throttle(&second, "/a").spend(None),
        "spent tokens stay spent"
    );
    (0..2).for_each(|_| throttle(&second, "/a").settled(Settled::Success));
    assert!(throttle(&second, "/a").spend(None), "at the new rate");
}

proptest! {
    #[test]
    fn no_text_panics_and_no_request_either(
        text in ".{0,80}",
        member in "(routes|default|throttles|match|retry|hedge|pattern|prefix|host)",
        value in "[\\[\\]{}\",:*/a-z0-9.-]{0,30}",
        path in "/[a-z0-9/%{}*-]{0,20}",
    ) {
        let _ = HttpPolicies::parse(&text);
        let _ = HttpPolicies::parse(&format!(r#"{{"routes": [{{"match": {{"{member}": "{value}"}}}}]}}"#));
        let quoted = path.replace('"', "");
        if let Ok(parsed) = HttpPolicies::parse(&format!(r#"{{"routes": [{{"match": {{"pattern": "{quoted}"}}}}]}}"#)) {
            let request = Request::builder().uri("/a/b-c").body(()).unwrap();
            let _ = parsed.policies.route(&request);
        }
    }
}

/// A text of 200 KB caused gigabytes of messages, because each fault repeated its context.
#[test]
fn what_is_said_of_a_hostile_document_stays_in_proportion_to_it() {
    let most = |faults: Vec<String>| faults.iter().map(String::len).max().unwrap();
    let unknown: Vec<_> = (0..1000).map(|n| format!("\"m{n}\":0")).collect();
    let long = "x".repeat(100_000);
    let text = format!(r#"{{"throttles":{{"{long}":{{{}}}}}}}"#, unknown.join(","));
    assert!(most(faults(&text)) < 1000);
    let names: Vec<_> = (0..5000)
        .map(|n| format!(r#""t{n}":{{"maxTokens":1,"tokenRatio":1}}"#))
        .collect();
    let routes: Vec<_> = (0..500)
        .map(|n| format!(r#"{{"throttle":"u{n}"}}"#))
        .collect();
    let text = format!(
        r#"{{"routes":[{}],"throttles":{{{}}}}}"#,
        routes.join(","),
        names.join(",")
    );
    assert_eq!(faults(&text).len(), 500);
    assert!(most(faults(&text)) < 1000);
}

/// A long name is truncated at a character boundary.
#[test]
fn long_names_are_cut_in_paths() {
    let text = format!(r#"{{"{}":1,"{}":1}}"#, "é".repeat(65), "a".repeat(64));
    let said = warnings(&text);
    assert!(
        said[0].starts_with(&format!("$[\"{}…\"]:", "é".repeat(64))),
        "{}",
        said[0]
    );
    assert!(
        said[1].starts_with(&format!("$.{}:", "a".repeat(64))),
        "{}",
        said[1]
    );
}

#[cfg(feature = "serde")]
#[test]
fn in_settings_of_ones_own_what_has_no_effect_is_logged() {
    let listener = reattempt::test_util::listen();
    toml::from_str::<HttpPolicies>("default = { retry = { max_attempts = 1 } }").unwrap();
    let heard = listener.warnings();
    assert_eq!(heard.len(), 1, "{heard:?}");
    let fault = "$.default.retry.max_attempts: is not known and has no effect: write maxAttempts";
    assert!(heard[0].contains(fault), "{heard:?}");
}

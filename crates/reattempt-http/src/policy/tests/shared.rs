//! Presets, and what routes share by name.

use reattempt::{RetryView, Stage, reason};

use super::*;
use crate::reasons::{HTTP_SERVICE_UNAVAILABLE, HTTP_TOO_MANY_REQUESTS};

const BEFORE: &str = r#"{
    "routes": [
        {"name": "own", "match": {"path": "/own"}, "retry": {"preset": "aws-standard-2.1"}},
        {"name": "one", "match": {"path": "/one"}, "retry": {"preset": "aws-standard-2.0"}, "throttle": "s3"},
        {"name": "two", "match": {"path": "/two"}, "retry": {}, "throttle": "s3"},
        {"name": "reads", "match": {"path": "/reads", "methods": ["GET"]}, "hedge": {"delay": "1s", "budget": "spare"}},
        {"name": "finds", "match": {"path": "/finds", "methods": ["GET"]}, "hedge": {"delay": "1s", "budget": "spare"}, "throttle": "s3"}
    ],
    "throttles": {"s3": {"preset": "aws-standard-2.0"}},
    "budgets": {"spare": {"percent": 0.1}}
}"#;

fn of(table: &HttpPolicies, uri: &str) -> Arc<RoutePolicy> {
    table.route(&Request::get(uri).body(()).unwrap()).unwrap()
}

fn after(policy: &RoutePolicy) -> bool {
    let failure = Failure::new(HTTP_SERVICE_UNAVAILABLE, Stage::Response);
    policy.throttle().unwrap().spend(Some(&failure))
}

#[test]
fn a_preset_adds_a_quota_unless_the_route_names_one() {
    let parsed = HttpPolicies::parse(BEFORE).unwrap();
    assert_eq!(lines(&parsed.warnings), Vec::<String>::new());
    let table = parsed.policies;
    let left = |name| table.quota(name).map(|quota| quota.tokens());
    assert!(after(&of(&table, "/own")));
    assert_eq!(
        (left("own"), left("s3"), left("one")),
        (Some(486), Some(500), None)
    );
    assert!(after(&of(&table, "/one")) && after(&of(&table, "/two")));
    assert_eq!((left("own"), left("s3")), (Some(486), Some(490)));
    assert!(table.throttle("s3").is_none(), "no token bucket");
}

#[test]
fn a_clone_shares_its_table_and_a_successor_its_state() {
    let table = table(BEFORE);
    let clone = table.clone();
    assert!(Arc::ptr_eq(&table.table, &clone.table));
    assert!(Arc::ptr_eq(table.admission(), clone.admission()));
    let replaced = clone.successor(BEFORE).unwrap().policies;
    assert!(!Arc::ptr_eq(&table.table, &replaced.table));
    let quota = |table: &HttpPolicies| Arc::clone(table.quota("own").unwrap());
    assert!(Arc::ptr_eq(&quota(&table), &quota(&replaced)));
    let shown = format!("{clone:?}");
    assert!(shown.starts_with("HttpPolicies { routes: [(Matching {"));
}

#[test]
fn a_budget_is_shared_by_the_routes_that_name_it() {
    let table = table(BEFORE);
    let spends = |uri: &str| of(&table, uri).throttle().unwrap().spend(None);
    assert!(spends("/reads"), "the first hedge is free");
    assert!(!spends("/finds") && !spends("/reads"), "for both of them");
    assert_eq!(
        table.quota("s3").unwrap().tokens(),
        500,
        "a refusal of the budget costs nothing"
    );
    let budget = table.budget("spare").unwrap();
    assert_eq!(budget.milli_tokens(), Some(0));
    for route in ["reads", "finds"] {
        let of_route = table.hedge_budget(route).unwrap();
        assert!(Arc::ptr_eq(of_route, budget), "{route}");
        assert!(table.budget(route).is_none(), "it has no budget of its own");
    }
}

#[test]
fn an_update_keeps_what_is_left_of_quotas_and_budgets() {
    let live = LiveHttpPolicies::new(table(BEFORE));
    let first = live.load();
    assert!(after(&of(&first, "/own")) && after(&of(&first, "/one")));
    assert!(of(&first, "/reads").throttle().unwrap().spend(None));
    live.update(&BEFORE.replace("0.1", "50")).unwrap();
    let second = live.load();
    let left = |name| second.quota(name).map(|quota| quota.tokens());
    assert_eq!((left("own"), left("s3")), (Some(486), Some(495)));
    let reads = of(&second, "/reads");
    assert!(
        !reads.throttle().unwrap().spend(None),
        "spent tokens stay spent"
    );
    (0..2).for_each(|_| reads.throttle().unwrap().settled(Settled::Success));
    assert!(reads.throttle().unwrap().spend(None), "at the new rate");

    // Other parameters, or another kind of throttle: nothing is carried over.
    live.update(&BEFORE.replace("standard-2.0", "standard-2.1"))
        .unwrap();
    assert_eq!(live.load().quota("s3").unwrap().tokens(), 500);
    let bucket = r#""s3": {"maxTokens": 4, "tokenRatio": 1}"#;
    let with_bucket = BEFORE.replace(r#""s3": {"preset": "aws-standard-2.0"}"#, bucket);
    live.update(&with_bucket).unwrap();
    assert!(live.load().quota("s3").is_none());
    assert_eq!(
        live.load().throttle("s3").unwrap().milli_tokens(),
        Some(4000)
    );
}

/// The delay of a route's strategy after its first failure, with the maximum of full jitter.
fn first_delay(members: &str, reason: reattempt::RetryReason) -> Duration {
    let text = format!(r#"{{"default": {{"retry": {{{members}}}}}}}"#);
    let options = Options::new().randomness(reattempt::backoff::Randomness::Fixed(1.0));
    let table = HttpPolicies::parse_with(&text, &options).unwrap().policies;
    let policy = table.route(&Request::new(())).unwrap();
    let Recovery::Retry(strategy) = policy.recovery() else {
        panic!("{policy:?}")
    };
    let failure = Failure::new(reason, Stage::Response);
    #[allow(clippy::disallowed_methods, reason = "a base for arithmetic")]
    let now = std::time::Instant::now();
    match strategy.decide(&RetryView::new(&failure, now)) {
        reattempt::Decision::After(delay) => delay,
        other => panic!("{other:?}"),
    }
}

/// The longest of full jitter is the delay; A6's share of a proportional one is a fifth.
#[test]
fn a_back_off_has_the_jitter_that_it_names() {
    for (jitter, millis) in [
        ("full", 100),
        ("none", 100),
        ("proportional", 120),
        ("decorrelated", 300),
    ] {
        let backoff = format!(r#""backoff": {{"initial": "0.1s", "jitter": "{jitter}"}}"#);
        let delay = first_delay(&backoff, reason::UNKNOWN);
        assert_eq!(delay, Duration::from_millis(millis), "{jitter}");
    }
}

#[test]
fn what_a_route_says_beside_a_preset_beats_it() {
    let ms = Duration::from_millis;
    let preset = r#""preset": "aws-standard-2.1""#;
    assert_eq!(first_delay(preset, reason::UNKNOWN), ms(50));
    assert_eq!(first_delay(preset, HTTP_TOO_MANY_REQUESTS), ms(1000));
    assert_eq!(
        first_delay(r#""preset": "aws-standard-2.0""#, reason::UNKNOWN),
        ms(1000)
    );
    let quicker = format!(r#"{preset}, "backoff": {{"initial": "0.025s"}}"#);
    assert_eq!(first_delay(&quicker, reason::UNKNOWN), ms(25));
    assert_eq!(first_delay(&quicker, HTTP_TOO_MANY_REQUESTS), ms(1000));

    let policy = only(&format!(r#""retry": {{{preset}}}"#));
    let Recovery::Retry(strategy) = policy.recovery() else {
        panic!("{policy:?}")
    };
    assert_eq!(strategy.max_attempts(), Some(3));
    let status = |policy: &RoutePolicy| {
        let http = policy.data::<HttpRoute>().unwrap();
        let retried = http.classifier().unwrap().retryable_statuses();
        retried.iter().collect::<Vec<_>>()
    };
    assert_eq!(status(&policy), [429, 500, 502, 503, 504]);
    let policy = only(&format!(
        r#""retry": {{{preset}, "maxAttempts": 9, "statuses": [503]}}"#
    ));
    assert_eq!(status(&policy), [503]);
    let Recovery::Retry(strategy) = policy.recovery() else {
        panic!("{policy:?}")
    };
    assert_eq!(strategy.max_attempts(), Some(9));
}

#[test]
fn faults_of_presets_and_budgets_are_reported() {
    let text = r#"{
        "routes": [
            {"retry": {"preset": "aws-standard-3"}, "throttle": "a"},
            {"match": {"methods": ["GET"]}, "hedge": {"delay": "1s", "budget": "none", "budgetPercent": 5}}
        ],
        "throttles": {"a": {"preset": "aws-standard-2.1", "maxTokens": 5}, "b": {"preset": 2}},
        "budgets": {"spare": {}, "more": {"percent": 101}}
    }"#;
    let names = r#"must be "aws-standard-2.0" or "aws-standard-2.1", got"#;
    let percent = "must be a number from 0.1 to 100 with at most one decimal place, got 101";
    let mut found = faults(text);
    let mut expected = [
        format!(r#"$.routes[0].retry.preset: {names} "aws-standard-3""#),
        r#"$.routes[1].hedge.budget: must be the name of one of budgets (there are "spare", "more"), got "none""#.to_owned(),
        "$.routes[1].hedge: has both budget and budgetPercent: only one may be set".to_owned(),
        "$.throttles.a.maxTokens: cannot be set together with preset, which defines it".to_owned(),
        format!("$.throttles.b.preset: {names} 2"),
        "$.budgets.spare.percent: is missing: a number is needed".to_owned(),
        format!("$.budgets.more.percent: {percent}"),
    ];
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(
        warnings(r#"{"budgets": {"idle": {"percent": 1}}}"#),
        ["$.budgets.idle: no route uses it"]
    );
}

/// Another route before it moves it to another place.
#[test]
fn an_unnamed_route_keeps_its_own_quota() {
    let quota = r#""retry": {"preset": "aws-standard-2.1"}"#;
    let route = |path: &str| format!(r#"{{"match": {{"path": "{path}"}}, {quota}}}"#);
    let text = |paths: &[&str]| {
        let routes: Vec<_> = paths.iter().map(|path| route(path)).collect();
        format!(r#"{{"routes": [{}]}}"#, routes.join(", "))
    };
    let live = LiveHttpPolicies::new(table(&text(&["/a", "/b"])));
    assert!(after(&of(&live.load(), "/a")));
    let left = |name: &str| live.load().quota(name).map(|quota| quota.tokens());
    assert_eq!(
        (left("routes[0]"), left("routes[1]")),
        (Some(486), Some(500))
    );
    live.update(&text(&["/new", "/a", "/b"])).unwrap();
    let three = ["routes[0]", "routes[1]", "routes[2]"].map(left);
    assert_eq!(three, [Some(500), Some(486), Some(500)]);
    live.update(&text(&["/b"])).unwrap();
    assert_eq!(left("routes[0]"), Some(500));
}

/// Members of an object have no order.
#[test]
fn the_order_of_conditions_does_not_matter_to_a_quota() {
    let route = |conditions: &str| {
        format!(r#"{{"match": {{{conditions}}}, "retry": {{"preset": "aws-standard-2.1"}}}}"#)
    };
    let one = route(r#""methods": ["GET", "PUT"], "query": {"a": "1", "b": true}"#);
    let other = route(r#""query": {"b": true, "a": "1"}, "methods": ["PUT", "GET"]"#);
    let live = LiveHttpPolicies::new(table(&format!(r#"{{"routes": [{one}]}}"#)));
    assert!(after(&of(&live.load(), "/?a=1&b")));
    // The second one with these conditions never matches, and has a quota of its own.
    live.update(&format!(r#"{{"routes": [{other}, {one}]}}"#))
        .unwrap();
    let left = |name: &str| live.load().quota(name).map(|quota| quota.tokens());
    assert_eq!(
        (left("routes[0]"), left("routes[1]")),
        (Some(486), Some(500))
    );
    live.update(&format!(r#"{{"routes": [{one}, {other}]}}"#))
        .unwrap();
    assert_eq!(
        (left("routes[0]"), left("routes[1]")),
        (Some(486), Some(500))
    );
}

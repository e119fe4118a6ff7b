//! The contract's fields and readings, one by one.

use reattempt_lab::{Outcome, Report, chart};
use serde_json::{Value, json};

use super::{http, near, once, outcome, run, world};

fn fixed(ms: f64) -> Value {
    json!({ "fixed_ms": ms })
}

fn retry(attempts: u32) -> Value {
    let backoff = json!({"initial": "0.05s", "jitter": "none"});
    http(json!({"retry": {"maxAttempts": attempts, "backoff": backoff}}))
}

/// Reading 1
#[test]
fn errors_take_no_service_time_unless_after_service() {
    let took = |fault: Value| {
        let mut scenario = world(20.0, 50.0, 1000, fixed(40.0), json!([fault]));
        scenario["rtt_ms"] = json!(2);
        outcome(scenario, retry(2)).latency_ms.p50
    };
    // Every first attempt of a call fails until second 10; what counts is the mean of neither.
    assert_eq!(took(json!({"kind": "error", "share": 0})), Some(42.0));
    let waits = |after: bool| {
        let fault = json!({"kind": "error", "after_service": after});
        let scenario = world(20.0, 50.0, 1, fixed(40.0), json!([fault]));
        outcome(scenario, once()).waited_ms
    };
    assert_eq!(waits(false), 0.0, "no queue place is taken");
    assert!(
        waits(true) > 100.0,
        "the queue is full of attempts that fail"
    );
}

/// Readings 1, 4 and 8
#[test]
fn silent_attempts_end_only_by_a_limit() {
    let silent = || world(10.0, 20.0, 1, fixed(1.0), json!([{"kind": "silent"}]));
    let seen = outcome(silent(), retry(3));
    assert_eq!(seen.ended["never"], seen.calls);
    assert_eq!((seen.success, seen.attempts), (0.0, seen.calls));
    let mut limited = silent();
    limited["call"] = json!({"timeout_ms": 100});
    assert_eq!(outcome(limited, retry(3)).ended["deadline"], seen.calls);
    let each = http(json!({"retry": {"maxAttempts": 3}, "attemptTimeout": "0.02s"}));
    let timed = outcome(silent(), each);
    assert_eq!(
        (timed.ended["attempts"], timed.attempts),
        (seen.calls, 3 * seen.calls)
    );
}

/// Reading 4
#[test]
fn a_refused_connection_takes_a_round_trip() {
    let mut scenario = world(10.0, 20.0, 1000, fixed(10.0), json!([]));
    scenario["rtt_ms"] = json!(30);
    scenario["backends"] = json!([
        {"servers": 1000, "latency": {"fixed_ms": 10}, "faults": [{"kind": "refuse"}]},
        {"servers": 1000, "latency": {"fixed_ms": 10}},
    ]);
    let seen = outcome(scenario, json!({"service_config": {}}));
    let refused_first = "30 ms refused, 40 ms served";
    assert_eq!(seen.latency_ms.max, Some(70.0), "{refused_first}");
    assert_eq!(seen.latency_ms.p50.unwrap().min(40.0), 40.0);
    assert!(
        seen.kinds.transparent > 50 && seen.kinds.retry == 0,
        "reading 11"
    );
    assert_eq!(seen.success, 1.0);
}

/// Reading 2
#[test]
fn a_limiter_starts_full_and_fills_at_its_rate() {
    let limit = json!([{"kind": "limit", "per_s": 10, "burst": 50}]);
    let seen = outcome(world(20.0, 200.0, 1000, fixed(1.0), limit), once());
    let served = seen.success * seen.calls as f64;
    near(served, 250.0, 0.01, "the burst and ten a second");
}

/// Reading 2
#[test]
fn without_workers_attempts_wait_until_they_are_back() {
    let capacity = json!([{"from_s": 2, "to_s": 4, "kind": "capacity", "servers": 0}]);
    let seen = outcome(world(8.0, 20.0, 100, fixed(10.0), capacity), once());
    assert_eq!(seen.success, 1.0);
    assert!((1900.0..2012.0).contains(&seen.latency_ms.max.unwrap()));
    assert_eq!(seen.by_second[1].p99_ms, Some(10.0));
    let gone = json!([{"from_s": 2, "kind": "capacity", "servers": 0}]);
    let seen = outcome(world(8.0, 20.0, 100, fixed(10.0), gone), once());
    assert!(seen.ended["never"] > 90);
}

#[test]
fn slow_and_overlapping_faults_count_while_they_last() {
    let slow = json!([{"from_s": 2, "to_s": 4, "kind": "slow", "factor": 3}]);
    let seen = outcome(world(6.0, 20.0, 100, fixed(10.0), slow), once());
    let p99: Vec<f64> = seen.by_second.iter().filter_map(|row| row.p99_ms).collect();
    assert_eq!(p99, [10.0, 10.0, 30.0, 30.0, 10.0, 10.0]);
}

/// Reading 5
#[test]
fn a_late_attempt_is_retried_only_if_idempotent() {
    let scenario = |method: &str| {
        let mut scenario = world(10.0, 20.0, 1000, fixed(50.0), json!([]));
        scenario["call"] = json!({ "method": method });
        scenario
    };
    let policy = || http(json!({"retry": {"maxAttempts": 3}, "attemptTimeout": "0.02s"}));
    assert_eq!(outcome(scenario("GET"), policy()).amplification, 3.0);
    let post = outcome(scenario("POST"), policy());
    assert_eq!(
        (post.amplification, post.ended["not_idempotent"]),
        (1.0, post.calls)
    );
}

#[test]
fn cancelled_work_finishes_or_stops() {
    let waited = |work: &str| {
        let mut scenario = world(60.0, 5.0, 1, fixed(1000.0), json!([]));
        scenario["call"] = json!({"timeout_ms": 100});
        scenario["cancelled_work"] = json!(work);
        outcome(scenario, once()).waited_ms
    };
    // One call a second is worked on, of five; or none waits longer than its caller.
    assert!(waited("finishes") > 10_000.0 && waited("stops") < 100.0);
}

/// Reading 9
#[test]
fn refused_attempts_are_held_back_by_their_gate() {
    let failing = || world(20.0, 50.0, 1000, fixed(10.0), json!([{"kind": "error"}]));
    let throttled = json!({"service_config": {
        "methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 2, "initialBackoff": "0.01s", "maxBackoff": "1s",
            "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}],
        "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}});
    let seen = outcome(failing(), throttled);
    assert_eq!(seen.held_back["throttled"], seen.ended["throttled"]);
    assert!(seen.amplification < 1.02);
    let own = http(json!({"hedge": {"delay": "0.005s", "budgetPercent": 10}}));
    let shared = json!({"http_policy": {"budgets": {"spare": {"percent": 10}},
        "default": {"hedge": {"delay": "0.005s", "budget": "spare"}}}});
    for hedged in [own, shared] {
        let slow = world(20.0, 50.0, 1000, fixed(10.0), json!([]));
        let seen = outcome(slow, hedged);
        let calls = seen.calls as f64;
        let held_back = seen.held_back["budget"] as f64;
        near(held_back, 0.9 * calls, 0.02, "nine of ten hedges");
        near(seen.kinds.hedge as f64, 0.1 * calls, 0.1, "one of ten");
    }
}

#[test]
fn each_client_has_its_own_throttle() {
    let attempts = |clients: u32| {
        let mut scenario = world(20.0, 100.0, 1000, fixed(1.0), json!([{"kind": "error"}]));
        scenario["clients"] = json!(clients);
        let policy = json!({"http_policy": {"default": {"retry": {"maxAttempts": 2}, "throttle": "t"},
            "throttles": {"t": {"maxTokens": 10, "tokenRatio": 0.1}}}});
        outcome(scenario, policy).kinds.retry
    };
    // From two to four retries each, until the fifth failure reaches half of the tokens.
    assert!((2..=4).contains(&attempts(1)) && (40..=80).contains(&attempts(20)));
}

/// Reading 11
#[test]
fn another_attempt_goes_to_another_backend() {
    for pick in ["random", "round_robin", "least_loaded"] {
        let mut scenario = world(20.0, 50.0, 1, fixed(1.0), json!([]));
        scenario["pick"] = json!(pick);
        scenario["backends"] = json!([
            {"servers": 100, "latency": {"fixed_ms": 1}, "faults": [{"kind": "error"}]},
            {"servers": 100, "latency": {"fixed_ms": 1}, "faults": [{"kind": "error"}]},
            {"servers": 100, "latency": {"fixed_ms": 1}},
        ]);
        let seen = outcome(scenario, retry(3));
        assert_eq!(seen.success, 1.0, "{pick}: the third attempt at the latest");
        let load = seen.amplification;
        assert!((1.8..2.3).contains(&load), "{pick}: {load}");
    }
}

/// Reading 11
#[test]
fn round_robin_has_a_turn_for_more_clients_than_backends() {
    for clients in [2, 3, 7, 100] {
        let mut scenario = world(20.0, 50.0, 1, fixed(1.0), json!([]));
        scenario["pick"] = json!("round_robin");
        scenario["clients"] = json!(clients);
        let backend = json!({"servers": 100, "latency": {"fixed_ms": 1}});
        scenario["backends"] = json!([backend.clone(), backend]);
        assert_eq!(outcome(scenario, once()).success, 1.0, "{clients}");
    }
}

#[test]
fn least_loaded_avoids_the_slow_backend() {
    let p99 = |pick: &str| {
        let mut scenario = world(60.0, 200.0, 1, fixed(1.0), json!([]));
        scenario["pick"] = json!(pick);
        let backend = |ms: f64| json!({"servers": 1, "latency": {"exponential_ms": ms}});
        scenario["backends"] = json!([backend(4.0), backend(4.0), backend(12.0)]);
        outcome(scenario, once()).latency_ms.p99.unwrap()
    };
    assert!(p99("least_loaded") * 1.5 < p99("random"));
}

/// Reading 3, and pushback in both protocols
#[test]
fn a_pushback_is_the_delay_of_the_next_attempt() {
    for policy in [
        retry(2),
        json!({"service_config": {"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 2, "initialBackoff": "9s",
            "maxBackoff": "9s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}}),
    ] {
        let mut scenario = world(10.0, 20.0, 1000, fixed(1.0), json!([]));
        scenario["backends"] = json!([
            {"servers": 100, "latency": {"fixed_ms": 1}, "faults": [{"kind": "error", "pushback_ms": 250}]},
            {"servers": 100, "latency": {"fixed_ms": 1}},
        ]);
        let seen = outcome(scenario, policy);
        assert_eq!((seen.success, seen.latency_ms.max), (1.0, Some(251.0)));
    }
}

/// Reading 12
#[test]
fn the_smaller_timeout_counts() {
    let ended = |call_ms: Value, policy_s: &str| {
        let mut scenario = world(5.0, 20.0, 1, fixed(1.0), json!([{"kind": "error"}]));
        scenario["call"] = json!({ "timeout_ms": call_ms });
        let strategy = json!({"maxAttempts": 1000, "backoff": {"initial": "0.1s", "max": "0.1s", "jitter": "none"}});
        let policy = http(json!({"retry": strategy, "timeout": policy_s}));
        outcome(scenario, policy).amplification
    };
    assert_eq!(ended(json!(450), "10s"), 5.0);
    assert_eq!(ended(json!(10_000), "0.25s"), 3.0);
    assert_eq!(ended(Value::Null, "0.25s"), 3.0);
}

/// Reading 13
#[test]
fn a_delay_beyond_the_deadline_ends_as_deadline() {
    let failing = || {
        let mut scenario = world(5.0, 20.0, 1, fixed(1.0), json!([{"kind": "error"}]));
        scenario["call"] = json!({"timeout_ms": 100});
        scenario
    };
    let grpc = json!({"service_config": {"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3,
        "initialBackoff": "90s", "maxBackoff": "90s", "backoffMultiplier": 1, "retryableStatusCodes": [14]}}]}});
    let slow =
        json!({"maxAttempts": 3, "backoff": {"initial": "1s", "max": "1s", "jitter": "none"}});
    for policy in [
        grpc,
        http(json!({"retry": slow})),
        json!({"kv": {"constant_ms": 500, "max_attempts": 3}}),
    ] {
        let seen = outcome(failing(), policy);
        let deadlines = seen.ended["deadline"] as f64;
        assert!(deadlines > 0.99 * seen.calls as f64, "{:?}", seen.ended);
    }
}

/// Reading 10
#[test]
fn recovery_is_ten_good_seconds_after_the_trouble() {
    let recovered =
        |faults: Value| outcome(world(40.0, 200.0, 100, fixed(5.0), faults), once()).recovered_s;
    let error = |from: u32, to: u32| json!({"from_s": from, "to_s": to, "kind": "error"});
    assert_eq!(recovered(json!([error(10, 15)])), Some(0.0));
    let twice =
        json!([{"from_s": 10, "to_s": 14, "kind": "capacity", "servers": 0}, error(20, 22)]);
    assert_eq!(recovered(twice), Some(0.0));
    for (faults, why) in [
        (json!([error(10, 35)]), "too few seconds are left"),
        (json!([error(0, 15)]), "nothing was before it"),
        (json!([]), "there was no trouble"),
    ] {
        assert_eq!(recovered(faults), None, "{why}");
    }
    // No call arrives in what comes after the duration.
    let later = json!([error(10, 15), error(40, 60)]);
    assert_eq!(recovered(later), Some(0.0));
    let rates = json!([{"per_s": 200}, {"from_s": 10, "per_s": 250}, {"from_s": 15, "per_s": 200}, {"from_s": 60, "per_s": 900}]);
    let mut scenario = world(40.0, 200.0, 100, fixed(5.0), json!([]));
    scenario["arrivals"] = rates;
    assert_eq!(outcome(scenario, once()).recovered_s, Some(0.0));
}

#[test]
fn seconds_without_a_call_are_no_recovery() {
    let seen = |rates: Value| {
        let error = json!([{"from_s": 20, "to_s": 30, "kind": "error"}]);
        let mut scenario = world(60.0, 100.0, 100, fixed(5.0), error);
        scenario["arrivals"] = rates;
        let seen = outcome(scenario, once());
        assert!(!seen.never_recovered);
        seen.recovered_s
    };
    let until_30 = json!([{"per_s": 100}, {"from_s": 30, "per_s": 0}]);
    assert_eq!(seen(until_30), None, "no call says that it is back");
    let again = json!([{"per_s": 100}, {"from_s": 30, "per_s": 0}, {"from_s": 45, "per_s": 100}]);
    assert_eq!(seen(again), Some(15.0), "no call arrives before");
    let pauses = json!([{"per_s": 100}, {"from_s": 31, "per_s": 0}, {"from_s": 33, "per_s": 100}]);
    assert_eq!(seen(pauses), Some(0.0), "a pause does not end the ten");
}

#[test]
fn only_success_that_never_came_back_is_never() {
    let seen = |faults: Value| {
        let mut scenario = world(40.0, 200.0, 100, fixed(5.0), faults);
        scenario["call"] = json!({"timeout_ms": 1000});
        outcome(scenario, once())
    };
    let error = |from: u32, to: u32| json!({"from_s": from, "to_s": to, "kind": "error"});
    // Workers that attempts of the fault keep for longer than the scenario.
    let lasting = json!([{"from_s": 10, "to_s": 15, "kind": "slow", "factor": 100_000}]);
    let lasting = seen(lasting);
    assert!(lasting.never_recovered && lasting.recovered_s.is_none());
    let column = |outcome: Outcome| {
        let policies = vec![("p".to_owned(), outcome)];
        let table = chart::table(&Report { policies });
        let row = table.lines().nth(1).unwrap();
        row.split_whitespace().next_back().unwrap().to_owned()
    };
    assert_eq!(column(lasting), "never");
    for faults in [
        json!([]),
        json!([error(0, 15)]),
        json!([error(10, 35)]),
        json!([error(10, 50)]),
        json!([{"kind": "error", "share": 1}, error(10, 15)]),
    ] {
        assert_eq!(column(seen(faults.clone())), "-", "{faults}");
    }
}

#[test]
fn warm_up_is_simulated_and_not_counted() {
    let mut scenario = world(10.0, 100.0, 1, fixed(9.0), json!([]));
    let all = outcome(scenario.clone(), once());
    scenario["warmup_s"] = json!(4);
    let late = outcome(scenario, once());
    assert_eq!(late.by_second.len(), 6);
    assert_eq!(late.by_second[0].second, 4);
    let of_late: u64 = all.by_second[4..].iter().map(|row| row.calls).sum();
    assert_eq!(late.calls, of_late);
    let past = "the queue is that of the same past";
    assert_eq!(all.by_second[4..], late.by_second[..], "{past}");
}

#[test]
fn seconds_long_after_the_last_call_have_no_rows() {
    let tomorrow = json!({"kind": "error", "code": 503, "pushback_ms": 50_000_000});
    let policy = http(json!({"retry": {"maxAttempts": 4}}));
    let seen = outcome(world(2.0, 3.0, 1, fixed(1.0), json!([tomorrow])), policy);
    assert_eq!(seen.attempts, 4 * seen.calls);
    let rows = &seen.by_second;
    assert!(rows.iter().all(|row| row.second < 2 + 86_400));
    let shown: u64 = rows.iter().map(|row| row.attempts).sum();
    let third = "the third of each is sent after 27 hours";
    assert_eq!(shown, 2 * seen.calls, "{third}");
}

#[test]
fn policies_meet_the_same_arrivals_and_service_times() {
    let mut scenario = world(20.0, 100.0, 1_000, json!({"exponential_ms": 20}), json!([]));
    scenario["policies"] = json!({"a": once(), "b": retry(3), "c": {"service_config": {}}, "d": {"kv": "best_effort"}});
    let report = run(&scenario);
    let first = &report.policies[0].1;
    for (name, seen) in &report.policies {
        assert_eq!(seen.by_second, first.by_second, "{name}");
        assert_eq!(seen.latency_ms, first.latency_ms, "{name}");
    }
}

#[test]
fn kinds_of_call_have_policies_of_their_own() {
    let mut scenario = world(20.0, 100.0, 1000, fixed(1.0), json!([{"kind": "error"}]));
    scenario["call"] = json!([
        {"weight": 3, "method": "/shop.Cart/Add"},
        {"weight": 1, "method": "/shop.Cart/Get", "timeout_ms": 50},
    ]);
    let policy = json!({"service_config": {"methodConfig": [{"name": [{"service": "shop.Cart", "method": "Add"}],
        "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.01s", "maxBackoff": "1s", "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"]}}]}});
    let seen = outcome(scenario, policy);
    let what = "three of four calls are sent three times";
    near(seen.amplification, 2.5, 0.03, what);
}

/// Reading 6
#[test]
fn a_tier_answers_with_the_failure_of_its_own_call() {
    let tiers = |code: u32| {
        json!({"duration_s": 5, "arrivals": [{"per_s": 20}], "rtt_ms": 2, "tiers": [
            {"backends": [{"servers": 1000, "latency": {"fixed_ms": 3}}]},
            {"policy": once(), "backends": [{"servers": 1000, "latency": {"fixed_ms": 5},
                "faults": [{"to_s": 2, "kind": "error", "code": code}]}]}]})
    };
    let backoff = json!({"initial": "0.01s"});
    let retry = json!({"maxAttempts": 2, "statuses": [500], "backoff": backoff});
    let [listed, other] =
        [500, 501].map(|code| outcome(tiers(code), http(json!({ "retry": retry }))));
    assert!(listed.kinds.retry > 20 && other.kinds.retry == 0);
    assert!(other.ended["fatal"] > 20);
    let took = "3 ms, 5 ms and two round trips";
    assert_eq!(listed.latency_ms.p50, Some(12.0), "{took}");
}

/// Reading 6
#[test]
fn a_cancellation_passes_inward_and_a_deadline_does_not() {
    let waited = |work: &str| {
        let scenario = json!({"duration_s": 60, "arrivals": [{"per_s": 5}], "cancelled_work": work,
            "call": {"timeout_ms": 100}, "tiers": [
                {"backends": [{"servers": 1000, "latency": {"fixed_ms": 1}}]},
                {"policy": once(), "backends": [{"servers": 1, "latency": {"fixed_ms": 1000}}]}]});
        outcome(scenario, once()).waited_ms
    };
    // No deadline ends the work of the inner tier.
    assert!(waited("finishes") > 5000.0 && waited("stops") < 100.0);
}

/// A budget of a share of the calls looks back over its window in virtual time.
#[test]
fn a_retry_budget_counts_in_virtual_time() {
    let tested = json!({"http_policy": {
        "default": {"retry": {"maxAttempts": 2, "backoff": {"initial": "0.01s"}}, "throttle": "t"},
        "throttles": {"t": {"retryRatio": 0.1, "minPerSecond": 0, "window": "2s"}},
    }});
    let faults = json!([{"kind": "error", "from_s": 30}]);
    let scenario = world(60.0, 50.0, 1000, fixed(5.0), faults);
    let outcome = outcome(scenario, tested);
    // With the system's clock, for which no time passes, the calls before the outage count too.
    let what = "a tenth of the calls of the outage";
    near(outcome.kinds.retry as f64, 0.1 * 1500.0, 0.2, what);
}

/// RFC 0049, Capping: as the key-value service's layers, not as HTTP's.
#[test]
fn a_constant_delay_of_key_value_calls_waits_for_the_deadline() {
    let mut scenario = world(5.0, 20.0, 100, fixed(5.0), json!([{"kind": "error"}]));
    scenario["call"] = json!({"timeout_ms": 100});
    let tested = json!({"kv": {"constant_ms": 499.5, "max_attempts": 3}});
    let outcome = outcome(scenario, tested);
    assert_eq!(outcome.ended["deadline"], outcome.calls);
    assert!(outcome.latency_ms.p50.is_none());
}

/// As in the layers: a first attempt that its caller drops is one of the calls of a budget.
#[test]
fn a_dropped_first_attempt_counts_as_a_call() {
    let retries = |timeout: u64| {
        let faults = json!([{"kind": "silent", "to_s": 10}, {"kind": "error", "from_s": 10}]);
        let mut scenario = world(11.0, 100.0, 1000, fixed(1.0), faults);
        scenario["call"] = json!({"timeout_ms": timeout});
        let tested = json!({"http_policy": {
            "default": {"retry": {"maxAttempts": 2, "backoff": {"initial": "0.01s"}}, "throttle": "t"},
            "throttles": {"t": {"retryRatio": 0.1, "minPerSecond": 0, "window": "10s"}},
        }});
        outcome(scenario, tested).kinds.retry
    };
    // The calls that were dropped earn them.
    assert!(retries(1000) > 80);
}

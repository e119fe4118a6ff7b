//! Retries multiply from hop to hop.

use serde_json::{Value, json};

use super::{http, near, once, outcome};

/// `hops` tiers whose last one always fails.
fn hops(hops: usize, inner: Option<Value>) -> Value {
    let tiers: Vec<Value> = (1..=hops)
        .map(|hop| {
            let faults = if hop == hops {
                json!([{"kind": "error"}])
            } else {
                json!([])
            };
            let backend = json!({"servers": 100_000, "latency": {"fixed_ms": 1}, "faults": faults});
            match &inner {
                Some(policy) if hop > 1 => json!({"policy": policy, "backends": [backend]}),
                _ => json!({"backends": [backend]}),
            }
        })
        .collect();
    json!({"duration_s": 20, "arrivals": [{"per_s": 50}], "tiers": tiers})
}

#[test]
fn n_hops_with_r_retries_send_one_plus_r_to_the_n() {
    for (retries, most) in [(1, 5), (2, 4), (3, 3)] {
        let retry =
            http(json!({"retry": {"maxAttempts": retries + 1, "backoff": {"initial": "0.01s"}}}));
        let seen = outcome(hops(most, None), retry);
        for (hop, tier) in seen.tiers.iter().enumerate() {
            let exact = f64::from(1 + retries).powi(hop as i32 + 1);
            assert_eq!(
                tier.amplification,
                exact,
                "hop {} with {retries} retries",
                hop + 1
            );
        }
        assert_eq!(seen.success, 0.0);
        assert_eq!(seen.amplification, f64::from(1 + retries));
    }
}

#[test]
fn throttles_leave_little_of_it() {
    let throttled = json!({"http_policy": {
        "default": {"retry": {"maxAttempts": 3, "backoff": {"initial": "0.01s"}}, "throttle": "t"},
        "throttles": {"t": {"maxTokens": 10, "tokenRatio": 0.1}},
    }});
    let seen = outcome(hops(3, None), throttled);
    for tier in &seen.tiers {
        near(tier.amplification, 1.0, 0.03, "a closed throttle");
    }
    assert!(seen.held_back["throttled"] > 900);
}

#[test]
fn one_hop_that_retries_multiplies_once() {
    let retry = http(json!({"retry": {"maxAttempts": 4, "backoff": {"initial": "0.01s"}}}));
    let seen = outcome(hops(3, Some(once())), retry);
    let tiers: Vec<f64> = seen.tiers.iter().map(|tier| tier.amplification).collect();
    assert_eq!(tiers, [4.0, 4.0, 4.0]);
}

/// The marks of the module `hop`: who has retried says so, and the hops before do not.
#[test]
fn cross_hop_marks_leave_the_attempts_of_one_hop() {
    let retry = json!({"default": {"retry": {"maxAttempts": 3, "backoff": {"initial": "0.01s"}}}});
    let tiers = |with: Value| -> Vec<f64> {
        let tested = json!({"http_policy": retry, "with": with});
        let seen = outcome(hops(4, None), tested);
        seen.tiers.iter().map(|tier| tier.amplification).collect()
    };
    assert_eq!(tiers(json!({"hop_marks": false})), [3.0, 9.0, 27.0, 81.0]);
    assert_eq!(tiers(json!({"hop_marks": true})), [1.0, 1.0, 1.0, 3.0]);
}

/// A back-off that does not fit the deadline ends the server's own call with its last failure, and
/// the server passes that on. Only a deadline that passes is answered as one.
#[test]
fn an_inner_call_that_gives_up_answers_its_last_failure() {
    let answered = |fault: Value, on_deadline: &str, status: u32| {
        let backoff = json!({"initial": "5s", "max": "5s", "jitter": "none"});
        let retry = json!({"maxAttempts": 3, "backoff": backoff, "onDeadline": on_deadline});
        let inner = http(json!({"retry": retry, "timeout": "1s"}));
        let backend =
            |faults: Value| json!({"servers": 1000, "latency": {"fixed_ms": 1}, "faults": faults});
        let scenario = json!({"duration_s": 20, "arrivals": [{"per_s": 50}], "tiers": [
            {"backends": [backend(json!([]))]},
            {"policy": inner, "backends": [backend(json!([fault]))]},
        ]});
        // Sends again what was answered so.
        let retry = json!({"maxAttempts": 2, "statuses": [status]});
        outcome(scenario, http(json!({ "retry": retry }))).amplification == 2.0
    };
    let fails = || json!({"kind": "error", "code": 503});
    let silent = || json!({"kind": "silent"});
    assert!(answered(fails(), "giveUp", 503) && !answered(fails(), "giveUp", 504));
    assert!(answered(fails(), "cap", 504) && !answered(fails(), "cap", 503));
    assert!(answered(silent(), "giveUp", 504) && !answered(silent(), "giveUp", 503));
}

//! `retryPolicy`.

use reattempt_testbed::grpc::{Script, Server, Step};
use serde_json::{Value, json};

use super::*;
use crate::{answer, assert_times, each, ms};

fn unavailable() -> Step {
    Step::trailers_only(14, "no")
}

/// R13 R70 R71
#[tokio::test]
async fn the_service_config_retries_and_every_attempt_is_told() {
    let script = Script::new()
        .then_times(2, unavailable())
        .otherwise(Step::ok("world"));
    let server = Server::start(script).await.unwrap();
    let answer = answer(configured(&server, retrying(4), json!({}))).await;
    assert_eq!(answer["code"], 0, "{answer}");
    assert_eq!(answer["responses"], json!([WORLD]));
    assert_eq!(answer["previous_attempts"], "2");
    assert_eq!(answer["reasons"], json!(["GRPC_UNAVAILABLE"]));
    assert_eq!(answer["stopped"], "success");
    assert_eq!(each(&answer, "n"), [1, 2, 3]);
    assert_eq!(each(&answer, "kind"), ["initial", "retry", "retry"]);
    assert_eq!(each(&answer, "verdict"), ["retry", "retry", "success"]);
    assert_eq!(each(&answer, "stage"), ["response", "response", "response"]);
    assert_times(&answer);
    let seen = server.seen();
    assert_eq!(previous(&seen), [None, Some(1), Some(2)]);
    assert!(seen.iter().all(|call| call.messages == ["hello"]));
    assert!(seen.iter().all(|call| call.connection == 0));
}

/// R1: a maximum above the client's limit of five is five; `max_attempts_limit` replaces the limit.
#[tokio::test]
async fn the_attempts_of_a_policy_are_capped_by_the_channel() {
    let server = Server::start(unavailable()).await.unwrap();
    for (policys, options, attempts) in [
        (2, json!({}), 2),
        (10, json!({}), 5),
        (10, json!({"max_attempts_limit": 7}), 7),
        (10, json!({"max_attempts_limit": 2}), 2),
        (10, json!({"max_attempts_limit": 1}), 1),
        (3, json!({"max_attempts_limit": 100}), 3),
        (10, json!({"enable_retries": false}), 1),
    ] {
        server.forget();
        let document = configured(&server, retrying(policys), json!({}));
        let answer = answer(with(document, "channel_options", options.clone())).await;
        assert_eq!(each(&answer, "n").len(), attempts, "{options}: {answer}");
        assert_eq!(answer["code"], 14);
        assert_eq!(answer["message"], "no", "the server's own, unchanged");
        assert_eq!(answer["stopped"], "attempts");
        assert_eq!(each(&answer, "delay_ms").last(), Some(&Value::Null));
        assert_eq!(server.seen().len(), attempts);
    }
}

/// R4 R10: codes by name in any case and by number; any other is final.
#[tokio::test]
async fn only_the_codes_of_the_policy_are_retried() {
    let server = Server::start(Script::new()).await.unwrap();
    let codes = json!(["unavailable", "Aborted", 13, 8.0]);
    for code in 1..=16 {
        let script = Script::new()
            .then(Step::trailers_only(code, ""))
            .otherwise(Step::ok("world"));
        server.set_script(script);
        let document = configured(&server, policy(2, "0.001s", codes.clone()), json!({}));
        let answer = answer(document).await;
        let retried = [14, 10, 13, 8].contains(&code);
        assert_eq!(answer["code"], if retried { 0 } else { code }, "{answer}");
        let verdict = if retried { "retry" } else { "fatal" };
        assert_eq!(each(&answer, "verdict")[0], verdict);
    }
}

/// R11: full jitter below `initialBackoff * backoffMultiplier^(n-1)`, at most `maxBackoff`, which
/// also bounds the first delay.
#[tokio::test]
async fn delays_are_within_the_bounds_of_the_jitter_and_waited_out() {
    let server = Server::start(unavailable()).await.unwrap();
    let mut below = [0; 4];
    for seed in 0..8 {
        let mut config = retrying(5);
        let policy = &mut config["methodConfig"][0]["retryPolicy"];
        policy["initialBackoff"] = "0.02s".into();
        policy["maxBackoff"] = "0.05s".into();
        policy["backoffMultiplier"] = json!(2);
        let document = with(configured(&server, config, json!({})), "seed", json!(seed));
        let answer = answer(document).await;
        let (starts, ends) = (each(&answer, "start_ms"), each(&answer, "end_ms"));
        let delays = each(&answer, "delay_ms");
        for (at, bound) in [20.0, 40.0, 50.0, 50.0].into_iter().enumerate() {
            let delay = ms(&delays[at]);
            assert!((0.0..bound).contains(&delay), "{answer}");
            below[at] += usize::from(delay < bound / 2.0);
            let waited = ms(&starts[at + 1]) - ms(&ends[at]);
            assert!(waited >= delay - 0.1, "{answer}");
        }
    }
    // Of thirty-two random delays neither all are small nor all are large.
    let small: usize = below.iter().sum();
    assert!((1..32).contains(&small), "{below:?}");
}

/// The same seed gives the same delays; any number is a seed.
#[tokio::test]
async fn a_seed_repeats_the_jitter() {
    let server = Server::start(unavailable()).await.unwrap();
    for seed in [json!(7), json!(-7), json!(0.5), json!(u64::MAX)] {
        let mut delays = Vec::new();
        for _ in 0..2 {
            let document = configured(&server, retrying(3), json!({}));
            delays.push(each(
                &answer(with(document, "seed", seed.clone())).await,
                "delay_ms",
            ));
        }
        assert!(delays[0][0].is_number(), "{delays:?}");
        assert_eq!(delays[0], delays[1]);
    }
}

/// R10: response headers commit the call.
#[tokio::test]
async fn a_failure_after_the_head_is_not_retried() {
    let server = Server::start(Script::new()).await.unwrap();
    for (step, responses) in [
        (Step::headers_then_status(14), json!([])),
        (Step::ok("world").status(14, ""), json!([WORLD])),
        (
            Step::headers_then_status(14).end_after(millis(50)),
            json!([]),
        ),
    ] {
        server.forget();
        server.set_script(step);
        let answer = answer(configured(&server, retrying(4), json!({}))).await;
        assert_eq!(answer["code"], 14);
        assert_eq!(answer["stopped"], "committed");
        assert_eq!(answer["responses"], responses);
        assert_eq!(each(&answer, "verdict"), ["fatal"]);
        assert_eq!(each(&answer, "reason"), ["GRPC_UNAVAILABLE"]);
        assert_eq!(each(&answer, "stage"), ["response"]);
        assert_eq!(server.seen().len(), 1);
    }
}

/// R9: service and method, then service, then default; entries are not merged.
#[tokio::test]
async fn the_most_special_entry_decides() {
    let server = Server::start(unavailable()).await.unwrap();
    let entry = |name: Value, attempts: u32| {
        let mut entry = retrying(attempts)["methodConfig"][0].clone();
        entry["name"] = json!([name]);
        entry
    };
    let config = json!({"methodConfig": [
        entry(json!({}), 2),
        entry(json!({"service": "test.Echo"}), 3),
        entry(json!({"service": "test.Echo", "method": "Call"}), 4),
        {"name": [{"service": "test.Echo", "method": "Once"}]},
    ]});
    for (method, attempts) in [
        ("/test.Echo/Call", 4),
        ("/test.Echo/Other", 3),
        ("/other.Echo/Call", 2),
        ("/test.Echo/Once", 1),
    ] {
        let mut document = configured(&server, config.clone(), json!({}));
        document["calls"][0]["method"] = method.into();
        let answer = answer(document).await;
        assert_eq!(each(&answer, "n").len(), attempts, "{method}: {answer}");
    }
}

/// R62: without a policy only requests that the server never saw are retried.
#[tokio::test]
async fn without_a_service_config_a_failure_is_the_calls() {
    let server = Server::start(unavailable()).await.unwrap();
    let answer = answer(one(&server, json!({}))).await;
    assert_eq!(answer["code"], 14);
    assert_eq!(answer["stopped"], "fatal");
    assert_eq!(answer["reasons"], json!([]));
    assert_eq!(each(&answer, "verdict"), ["fatal"]);
    assert_eq!(each(&answer, "reason"), ["GRPC_UNAVAILABLE"]);
    assert_eq!(server.seen_count(), 1);
}

/// Reasons are a set in order of first occurrence; a final failure is not a retry reason.
#[tokio::test]
async fn reasons_are_those_of_retries() {
    let script = Script::new()
        .then(Step::trailers_only(10, ""))
        .then(Step::trailers_only(14, ""))
        .then(Step::trailers_only(10, ""))
        .otherwise(Step::trailers_only(5, ""));
    let server = Server::start(script).await.unwrap();
    let config = policy(5, "0.001s", json!([14, 10]));
    let answer = answer(configured(&server, config, json!({}))).await;
    let reasons = json!(["GRPC_ABORTED", "GRPC_UNAVAILABLE"]);
    assert_eq!(answer["reasons"], reasons);
    assert_eq!(answer["stopped"], "fatal");
    assert_eq!(
        each(&answer, "verdict"),
        ["retry", "retry", "retry", "fatal"]
    );
    assert_eq!(each(&answer, "reason")[3], "GRPC_NOT_FOUND");
}

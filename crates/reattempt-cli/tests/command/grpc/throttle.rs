//! `retryThrottling`: one bucket for all calls of the document.

use reattempt_testbed::grpc::{Script, Server, Step};
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, each};

fn unavailable() -> Step {
    Step::trailers_only(14, "no")
}

/// The answers of `count` calls in sequence.
async fn calls(server: &Server, config: Value, count: usize) -> Vec<Value> {
    let calls = (0..count).map(|_| json!({}));
    answers(with(several(server, calls), "service_config", config)).await
}

fn attempts(answers: &[Value]) -> Vec<usize> {
    answers
        .iter()
        .map(|answer| each(answer, "n").len())
        .collect()
}

fn stopped(answers: &[Value]) -> Vec<&str> {
    let stopped = answers.iter().map(|answer| answer["stopped"].as_str());
    stopped.map(Option::unwrap_or_default).collect()
}

/// R20 R21 R26: the bucket is asked after the failure is counted, the last failure of a call counts
/// too, and a refused call returns the server's failure at once.
#[tokio::test]
async fn failures_drain_the_bucket_and_half_of_it_is_the_threshold() {
    let server = Server::start(unavailable()).await.unwrap();
    let config = throttled(retrying(3), 8, 0.1);
    let answers = calls(&server, config, 3).await;
    // 7, 6, 5 | 4: not more than half | 3
    assert_eq!(attempts(&answers), [3, 1, 1]);
    assert_eq!(stopped(&answers), ["attempts", "throttled", "throttled"]);
    assert!(
        answers
            .iter()
            .all(|answer| answer["code"] == 14 && answer["message"] == "no")
    );
}

/// R21 R23: successes fill it, also of methods without a policy; other failures do not change it.
#[tokio::test]
async fn successes_fill_the_bucket_and_qualified_failures_drain_it() {
    let script = Script::new()
        .then_times(2, unavailable())
        .then_times(3, Step::trailers_only(5, ""))
        .then_times(2, Step::ok("world"))
        .then(unavailable())
        .otherwise(Step::ok("world"));
    let server = Server::start(script).await.unwrap();
    let mut config = throttled(retrying(2), 4, 0.6);
    config["methodConfig"][0]["name"] = json!([{"service": "test.Echo"}]);
    let methods = ["test.Echo", "test.Echo", "test.Echo", "free.Echo"].map(String::from);
    let free = ["free.Echo", "free.Echo", "test.Echo"].map(String::from);
    let services = methods.into_iter().chain(free);
    let mut document = several(&server, services.clone().map(|_| json!({})));
    for (at, service) in services.enumerate() {
        document["calls"][at]["method"] = format!("/{service}/Call").into();
    }
    let answers = answers(with(document, "service_config", config)).await;
    // 3, 2 | three final ones | 2.6, 3.2 | 2.2: more than half.
    assert_eq!(attempts(&answers), [2, 1, 1, 1, 1, 1, 2], "{answers:?}");
}

/// R23: the status decides, not the head: a call that fails later is a failure.
#[tokio::test]
async fn an_answer_counts_by_its_status_in_the_trailers() {
    let script = Script::new()
        .then_times(3, Step::headers_then_status(14))
        .then(unavailable())
        .then_times(2, Step::ok("world"))
        .then(unavailable())
        .otherwise(Step::ok("world"));
    let server = Server::start(script).await.unwrap();
    let answers = calls(&server, throttled(retrying(2), 6, 1.0), 7).await;
    // 5, 4, 3 | 2: refused | 3, 4 | 3: refused.
    assert_eq!(attempts(&answers), [1, 1, 1, 1, 1, 1, 1]);
    assert_eq!(answers[3]["stopped"], "throttled", "{answers:?}");
    assert_eq!(answers[6]["stopped"], "throttled", "{answers:?}");
}

/// R22: a stop counts on any code; a delay on a final code does not.
#[tokio::test]
async fn a_stop_counts_on_any_code() {
    for (value, then) in [("-1", 1), ("5", 2)] {
        let script = Script::new()
            .then_times(2, Step::trailers_only(5, "").pushback(value))
            .then(unavailable())
            .otherwise(Step::ok("world"));
        let server = Server::start(script).await.unwrap();
        let answers = calls(&server, throttled(retrying(2), 4, 0.1), 3).await;
        assert_eq!(attempts(&answers), [1, 1, then], "{value}: {answers:?}");
    }
}

/// R24: requests that the server never saw do not count.
#[tokio::test]
async fn transparent_retries_do_not_count() {
    let script = Script::new()
        .then(Step::refuse_stream())
        .then(unavailable())
        .otherwise(Step::ok("world"));
    let server = Server::start(script).await.unwrap();
    // One failure leaves 2, two would leave 1.
    let answers = calls(&server, throttled(retrying(2), 3, 0.1), 1).await;
    assert_eq!(attempts(&answers), [3], "{answers:?}");
}

/// R8: the ratio is counted in thousandths, truncated.
#[tokio::test]
async fn the_ratio_is_cut_at_the_third_place() {
    let fail_then_fill = |successes| {
        Script::new()
            .then_times(2, unavailable())
            .then_times(successes, Step::ok("world"))
            .then(unavailable())
            .otherwise(Step::ok("world"))
    };
    // 4 - 2 = 2 + n * ratio - 1 > 2 requires more than one token.
    for (ratio, successes, retried) in [(0.5006, 2, false), (0.501, 2, true)] {
        let server = Server::start(fail_then_fill(successes)).await.unwrap();
        let config = throttled(retrying(2), 4, ratio);
        let answers = calls(&server, config, successes + 2).await;
        let last = answers.last().unwrap();
        assert_eq!(each(last, "n").len() == 2, retried, "{ratio}: {answers:?}");
    }
}

/// R23 R25: concurrent calls share the bucket.
#[tokio::test]
async fn parallel_calls_share_the_bucket() {
    let server = Server::start(unavailable()).await.unwrap();
    let calls = (0..20).map(|_| json!({}));
    let document = with(several(&server, calls), "concurrency", json!("parallel"));
    let config = throttled(retrying(5), 10, 0.1);
    let answers = answers(with(document, "service_config", config)).await;
    // Of ten tokens at most the first four failures allow a retry; with a bucket per call, every
    // one.
    assert!((20..=24).contains(&server.seen_count()), "{answers:?}");
    assert!(
        stopped(&answers)
            .iter()
            .all(|stopped| *stopped == "throttled")
    );
}

/// R46: the first attempt is always sent; a hedge is refused at the time it is due, and the failure
/// is returned.
#[tokio::test]
async fn a_drained_bucket_holds_hedges_back() {
    let server = Server::start(unavailable()).await.unwrap();
    let config = throttled(hedging(4, "0.05s"), 4, 0.1);
    let drained = calls(&server, config.clone(), 2).await;
    // 3: one hedge | 2: none.
    assert_eq!(attempts(&drained), [2, 1], "{drained:?}");
    assert_eq!(stopped(&drained), ["throttled", "throttled"]);

    // A hedge in flight continues, and later hedges are refused when they are due.
    server.forget();
    let script = Script::new()
        .then_times(2, unavailable())
        .otherwise(Step::ok("world").after(millis(300)));
    server.set_script(script);
    let slow = calls(&server, config, 2).await;
    assert_eq!(attempts(&slow), [2, 1], "{slow:?}");
    assert_eq!(slow[1]["code"], 0, "{slow:?}");
}

/// R46 (js never asks): other calls drain the bucket before a planned hedge is due.
#[tokio::test]
async fn a_planned_hedge_asks_the_bucket_when_it_is_due() {
    let server = Server::start(Script::handler(|call| match call.header("x-fail") {
        Some(_) => unavailable(),
        None => Step::ok("world").after(millis(900)),
    }))
    .await
    .unwrap();
    let fail = json!({"metadata": {"x-fail": "1"}, "start_delay_ms": 50});
    let document = several(&server, [json!({"call": "slow"}), fail.clone(), fail]);
    let document = with(document, "concurrency", json!("parallel"));
    let config = throttled(hedging(2, "0.5s"), 4, 0.1);
    let answers = answers(with(document, "service_config", config)).await;
    let slow = answers.iter().find(|answer| answer["call"] == "slow");
    let slow = slow.unwrap();
    assert_eq!(slow["code"], 0);
    assert_eq!(each(slow, "n").len(), 1, "{slow}");
}

#[tokio::test]
async fn a_call_that_is_not_retried_is_not_throttled() {
    let server = Server::start(Step::trailers_only(5, "")).await.unwrap();
    let config = throttled(retrying(2), 1, 0.1);
    let answer = answer(configured(&server, config, json!({}))).await;
    assert_eq!(answer["stopped"], "fatal");
}

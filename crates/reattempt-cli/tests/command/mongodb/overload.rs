//! Overloaded servers (client backpressure): which errors are retried, how often, and after which
//! delays.

use bson::Bson;
use reattempt_testbed::mongodb::Step;
use serde_json::{Value, json};

use super::*;
use crate::{answer, answers, each, ms};

fn always(node: &Node, command: &'static str, step: Step) {
    node.script()
        .handler(move |seen| (seen.name == command).then(|| step.clone()));
}

fn delays(answer: &Value) -> Vec<f64> {
    let delays = each(answer, "delay_ms").into_iter();
    delays
        .filter(|delay| !delay.is_null())
        .map(|delay| ms(&delay))
        .collect()
}

/// Two retries, each after a random share of twice the base, then of four times the base.
#[tokio::test]
async fn an_overloaded_server_is_asked_at_most_three_times() {
    let node = node(1).await;
    always(&node, "find", overloaded());
    let answers = answers(with(
        current(&node.uri(), (0..5).map(|_| find())),
        "concurrency",
        json!("parallel"),
    ))
    .await;
    for answer in &answers {
        assert_failed(answer, 3, 462, "last");
        assert_eq!(answer["stopped"], "attempts");
        assert_eq!(answer["reasons"], json!(["MONGODB_SYSTEM_OVERLOADED"]));
        assert_eq!(
            answer["labels"],
            json!(["SystemOverloadedError", "RetryableError"])
        );
        let delays = delays(answer);
        assert!(delays[0] <= 200.0 && delays[1] <= 400.0, "{answer}");
        let starts = each(answer, "start_ms");
        let ends = each(answer, "end_ms");
        for (n, delay) in delays.iter().enumerate() {
            assert!(ms(&starts[n + 1]) - ms(&ends[n]) >= delay - 2.0, "{answer}");
        }
    }
    let all: std::collections::BTreeSet<_> =
        answers.iter().flat_map(delays).map(f64::to_bits).collect();
    assert!(all.len() > 5, "the shares are random: {answers:?}");
    assert_eq!(sent(&node).len(), 15);
}

/// The seed of the document makes them repeatable.
#[tokio::test]
async fn a_seed_makes_the_delays_repeatable() {
    let node = node(1).await;
    always(&node, "find", overloaded());
    let seeded = |seed| with(current(&node.uri(), [find()]), "seed", json!(seed));
    let (one, other, third) = (
        answer(seeded(7)).await,
        answer(seeded(7)).await,
        answer(seeded(8)).await,
    );
    assert_eq!(delays(&one), delays(&other));
    assert_ne!(delays(&one), delays(&third));
}

/// `baseBackoffMS` above zero, of any number type, replaces the 100 ms.
#[tokio::test]
async fn the_server_may_say_another_base() {
    let node = node(1).await;
    for (base, most) in [
        (Bson::Int32(2), 4.0),
        (Bson::Int64(2), 4.0),
        (Bson::Double(2.0), 4.0),
        (Bson::Int32(0), 200.0),
        (Bson::Int32(-5), 200.0),
        (Bson::String("2".to_owned()), 200.0),
        (Bson::Double(f64::NAN), 200.0),
    ] {
        always(
            &node,
            "find",
            overloaded().with("baseBackoffMS", base.clone()),
        );
        let calls = (0..6).map(|_| find());
        let answers = answers(with(
            current(&node.uri(), calls),
            "concurrency",
            json!("parallel"),
        ))
        .await;
        let first: Vec<_> = answers.iter().map(|answer| delays(answer)[0]).collect();
        let second: Vec<_> = answers.iter().map(|answer| delays(answer)[1]).collect();
        assert!(
            first.iter().all(|delay| *delay <= most),
            "{base}: {first:?}"
        );
        assert!(
            second.iter().all(|delay| *delay <= 2.0 * most),
            "{base}: {second:?}"
        );
        if most > 4.0 {
            assert!(
                second.iter().any(|delay| *delay > 8.0),
                "{base}: {second:?}"
            );
        }
    }
}

/// A delay that would exceed the limit is not started: the server's error is raised at once.
#[tokio::test]
async fn no_wait_passes_the_limit() {
    let node = node(1).await;
    always(&node, "find", overloaded().with("baseBackoffMS", i64::MAX));
    for (options, call) in [
        ("timeoutMS=1000", find()),
        ("", json!({"op": "find", "timeout_ms": 1000})),
    ] {
        // With this seed the share is not small.
        let document = with(current(&uri(&node, options), [call]), "seed", json!(1));
        let answer = answer(document).await;
        assert_failed(&answer, 1, 462, "first");
        assert_eq!(answer["timeout"], Value::Null);
        assert!(ms(&answer["elapsed_ms"]) < 900.0, "{answer}");
    }
}

/// `maxAdaptiveRetries`: a number, zero, and one at which the exponent alone would overflow (E10).
#[tokio::test]
async fn max_adaptive_retries_says_how_often() {
    let node = node(1).await;
    always(&node, "find", overloaded().with("baseBackoffMS", 0.01));
    for (retries, attempts) in [(0, 1), (1, 2), (2, 3), (5, 6), (9, 10)] {
        let target = uri(&node, &format!("maxAdaptiveRetries={retries}"));
        let answer = answer(current(&target, [find()])).await;
        let from = if attempts == 1 { "first" } else { "last" };
        assert_failed(&answer, attempts, 462, from);
        assert_eq!(answer["stopped"], "attempts");
    }
    let target = uri(&node, "maxAdaptiveRetries=40");
    let call = json!({"op": "find", "timeout_ms": 3000});
    let answer = answer(current(&target, [call])).await;
    assert!(each(&answer, "n").len() > 12, "{answer}");
    assert!(ms(&answer["elapsed_ms"]) < 4000.0);
    let seed = crate::answer(several(&uri(&node, "maxAdaptiveRetries=5"), [find()])).await;
    assert_failed(&seed, 1, 462, "first");
}

/// Without retries for overload all other retries are unchanged.
#[tokio::test]
async fn max_adaptive_retries_0_is_about_overload_only() {
    let node = node(1).await;
    node.script().on("find", Step::code(UNREACHABLE));
    assert_mended(&answer(current(&uri(&node, "maxAdaptiveRetries=0"), [find()])).await);
}

/// Both labels are needed; the first alone only delays a retry that is due anyway.
#[tokio::test]
async fn both_labels_are_needed() {
    let node = node(1).await;
    for label in [
        "SystemOverloadedError",
        "RetryableError",
        "systemOverloadedError",
    ] {
        node.script().on("find", Step::code(462).label(label));
        assert_failed(
            &answer(current(&node.uri(), [find()])).await,
            1,
            462,
            "first",
        );
    }
    node.script()
        .on("find", Step::code(6).label("SystemOverloadedError"));
    let answer = answer(current(&node.uri(), [find()])).await;
    assert_mended(&answer);
    assert_eq!(answer["reasons"], json!(["MONGODB_SYSTEM_OVERLOADED"]));
}

/// One overload error limits all retries of its call, including those for other errors, which have
/// no delay.
#[tokio::test]
async fn one_overload_error_limits_the_whole_call() {
    for (steps, attempts, code, target) in [
        (vec![overloaded(), Step::code(6), Step::code(7)], 3, 7, ""),
        (vec![Step::code(6), overloaded(), Step::code(7)], 3, 7, ""),
        (
            vec![Step::code(6), overloaded(), Step::code(7)],
            3,
            7,
            "timeoutMS=20000",
        ),
        (
            vec![Step::code(6), Step::code(7), Step::code(89), overloaded()],
            4,
            462,
            "timeoutMS=20000",
        ),
    ] {
        let node = node(1).await;
        for step in steps {
            node.script().on("find", step.with("baseBackoffMS", 1));
        }
        let answer = answer(current(&uri(&node, target), [find()])).await;
        assert_failed(&answer, attempts, code, "last");
        let delays = each(&answer, "delay_ms");
        for (delay, reason) in delays.iter().zip(each(&answer, "reason")) {
            assert!(
                reason == "MONGODB_SYSTEM_OVERLOADED" || delay.is_null() || *delay == 0,
                "{answer}"
            );
        }
    }
}

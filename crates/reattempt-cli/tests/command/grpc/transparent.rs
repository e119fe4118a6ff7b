//! Transparent retries.

use reattempt_testbed::grpc::{Options, Script, Server, Step};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use super::*;
use crate::{answer, answers, document, each, run, text};

fn unseen() -> [Step; 2] {
    [Step::refuse_stream(), Step::go_away()]
}

/// R61 R62 R63: once, immediately, without a policy, and uncounted.
#[tokio::test]
async fn what_the_server_never_saw_is_sent_again() {
    for step in unseen() {
        let script = Script::new().then(step).otherwise(Step::ok("world"));
        let server = Server::start(script).await.unwrap();
        let answer = answer(one(&server, json!({}))).await;
        assert_eq!(answer["code"], 0, "{answer}");
        assert_eq!(each(&answer, "kind"), ["initial", "transparent"]);
        assert_eq!(each(&answer, "verdict"), ["retry", "success"]);
        assert_eq!(each(&answer, "delay_ms"), [json!(0), Value::Null]);
        assert_eq!(answer["previous_attempts"], Value::Null);
        assert_eq!(previous(&server.seen()), [None, None]);
        assert_eq!(server.seen_count(), 2);
    }
}

/// R61: the second time the policy decides; without one the failure is returned.
#[tokio::test]
async fn the_second_time_the_policy_decides() {
    let twice = || {
        Script::new()
            .then_times(2, Step::refuse_stream())
            .otherwise(Step::ok("world"))
    };
    let server = Server::start(twice()).await.unwrap();
    let failed = answer(one(&server, json!({}))).await;
    assert_eq!(failed["code"], 14);
    assert_eq!(each(&failed, "kind"), ["initial", "transparent"]);

    server.forget();
    server.set_script(twice());
    let retried = answer(configured(&server, retrying(2), json!({}))).await;
    assert_eq!(retried["code"], 0, "{retried}");
    assert_eq!(each(&retried, "kind"), ["initial", "transparent", "retry"]);
    assert_eq!(retried["previous_attempts"], "1");
    assert_eq!(previous(&server.seen()), [None, None, Some(1)]);
}

/// R61 R63: also after a processed attempt, beyond the maximum number of attempts.
#[tokio::test]
async fn it_does_not_count_as_an_attempt() {
    for step in unseen() {
        let script = Script::new()
            .then(Step::trailers_only(14, ""))
            .then(step)
            .otherwise(Step::trailers_only(14, ""));
        let server = Server::start(script).await.unwrap();
        let answer = answer(configured(&server, retrying(2), json!({}))).await;
        assert_eq!(answer["stopped"], "attempts");
        assert_eq!(
            each(&answer, "kind"),
            ["initial", "retry", "transparent"],
            "{answer}"
        );
        assert_eq!(previous(&server.seen()), [None, Some(1), Some(1)]);
    }
}

/// R61: a proxy may send it for requests that it forwarded. Then only the policy retries, and the
/// retry counts.
#[tokio::test]
async fn an_ambiguous_refusal_is_left_to_the_policy() {
    let ambiguous = json!({"refused": "ambiguous"});
    let script = || {
        Script::new()
            .then(Step::refuse_stream())
            .otherwise(Step::ok("world"))
    };
    let server = Server::start(script()).await.unwrap();
    let document = with(
        one(&server, json!({})),
        "channel_options",
        ambiguous.clone(),
    );
    let failed = answer(document).await;
    assert_eq!(failed["code"], 14, "{failed}");
    assert_eq!(each(&failed, "stage"), ["in_flight"]);
    assert_eq!(server.seen_count(), 1);

    server.forget();
    server.set_script(script());
    let document = configured(&server, retrying(2), json!({}));
    let retried = answer(with(document, "channel_options", ambiguous.clone())).await;
    assert_eq!(retried["code"], 0, "{retried}");
    assert_eq!(each(&retried, "kind"), ["initial", "retry"]);
    assert_eq!(previous(&server.seen()), [None, Some(1)]);

    // The last stream id of a GOAWAY is still trusted.
    let script = Script::new()
        .then(Step::go_away())
        .otherwise(Step::ok("world"));
    let server = Server::start(script).await.unwrap();
    let document = with(one(&server, json!({})), "channel_options", ambiguous);
    assert_eq!(
        each(&answer(document).await, "kind"),
        ["initial", "transparent"]
    );
}

#[tokio::test]
async fn what_a_refusal_says_is_one_of_two_words() {
    let server = Server::start(Step::ok("world")).await.unwrap();
    let document = with(
        one(&server, json!({})),
        "channel_options",
        json!({"refused": "maybe"}),
    );
    let output = run(&["call", "--json"], document.to_string()).await;
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    let begins = "reattempt call: $.channel_options.refused: unknown variant `maybe`";
    assert!(said.starts_with(begins), "{said}");
}

/// Also for a method whose policy does not retry this code.
#[tokio::test]
async fn the_codes_of_a_policy_do_not_matter() {
    let script = Script::new()
        .then(Step::refuse_stream())
        .otherwise(Step::ok("world"));
    let server = Server::start(script).await.unwrap();
    let config = policy(2, "0.02s", json!(["ABORTED"]));
    let answer = answer(configured(&server, config, json!({}))).await;
    assert_eq!(answer["code"], 0, "{answer}");
}

/// A refused hedge is replaced, and the others continue.
#[tokio::test]
async fn a_refused_hedge_is_sent_again() {
    let script = Script::new()
        .then(Step::hang())
        .then(Step::refuse_stream())
        .otherwise(Step::ok("world"));
    let server = Server::start(script).await.unwrap();
    let answer = answer(configured(&server, hedging(2, "0.1s"), json!({}))).await;
    assert_eq!(answer["code"], 0, "{answer}");
    assert_eq!(each(&answer, "kind"), ["initial", "hedge", "transparent"]);
    assert_eq!(each(&answer, "verdict"), ["cancelled", "retry", "success"]);
    assert_eq!(previous(&server.seen()), [None, Some(1), Some(1)]);
}

/// Disabling retries (A6) also disables transparent ones, as in grpc-java and grpc-js.
#[tokio::test]
async fn they_can_be_switched_off() {
    let options = json!({"enable_retries": false});
    for step in unseen() {
        let script = Script::new().then(step).otherwise(Step::ok("world"));
        let server = Server::start(script).await.unwrap();
        let document = configured(&server, retrying(3), json!({}));
        let answer = answer(with(document, "channel_options", options.clone())).await;
        assert_eq!(answer["code"], 14, "{answer}");
        assert_eq!(server.seen_count(), 1);
    }
}

/// Disables retries and hedges; time limits and counting remain.
#[tokio::test]
async fn switched_off_means_one_attempt() {
    let server = Server::start(Script::new()).await.unwrap();
    let options = json!({"enable_retries": false});
    for (config, step, code) in [
        (retrying(3), Step::trailers_only(14, ""), 14),
        (hedging(3, "0s"), Step::ok("world").after(millis(100)), 0),
    ] {
        server.forget();
        server.set_script(step);
        let document = configured(&server, config, json!({}));
        let answer = answer(with(document, "channel_options", options.clone())).await;
        assert_eq!(answer["code"], code, "{answer}");
        assert_eq!(each(&answer, "kind"), ["initial"]);
        assert_eq!(server.seen().len(), 1);
    }
}

/// A GOAWAY whose last stream is this one: it is still answered, and the next call uses a new
/// connection.
#[tokio::test]
async fn a_goodbye_that_still_answers_costs_nothing() {
    let step = Step::ok("world").end_after(millis(50)).goodbye();
    let server = Server::start(step).await.unwrap();
    let answers = answers(several(&server, [json!({}), json!({})])).await;
    for answer in &answers {
        assert_eq!(answer["code"], 0, "{answer}");
        assert_eq!(each(answer, "kind"), ["initial"]);
    }
    let connections: Vec<_> = server.seen().iter().map(|call| call.connection).collect();
    assert_eq!(connections, [0, 1]);
}

/// R60: one call has the only stream when GOAWAY arrives, and others wait for it. The waiting ones
/// were not sent.
#[tokio::test]
async fn a_call_that_waits_for_a_stream_survives_a_goaway() {
    let script = Script::new()
        .then(Step::ok("world"))
        .then(Step::go_away().after(millis(900)))
        .otherwise(Step::ok("world"));
    let options = Options::new().max_concurrent_streams(1);
    let server = Server::start_with(options, script).await.unwrap();
    let calls =
        [0, 300, 450, 600].map(|delay| json!({"call": delay.to_string(), "start_delay_ms": delay}));
    let document = with(several(&server, calls), "concurrency", json!("parallel"));
    let answers = answers(document).await;
    assert_eq!(answers.len(), 4);
    for answer in &answers {
        assert_eq!(answer["code"], 0, "{answer}");
        let stages = match answer["call"].as_str().unwrap() {
            // It has the stream, and the server reports that it was not processed.
            "300" => json!(["in_flight", "response"]),
            "450" => json!(["dispatch", "response"]),
            // It waits in the client's queue: still the same attempt.
            _ => json!(["response"]),
        };
        assert_eq!(json!(each(answer, "stage")), stages, "{answer}");
        let kinds = each(answer, "kind");
        assert!(
            kinds[1..].iter().all(|kind| kind == "transparent"),
            "{answer}"
        );
    }
    assert_eq!(previous(&server.seen()), [None; 5]);
}

/// R60: one that sends no message may go out whole with its head, so GOAWAY finds it in flight, and
/// it goes by the policy.
#[tokio::test]
async fn a_call_without_messages_that_waits_goes_by_its_policy() {
    for (config, code, kinds, stages) in [
        (json!({}), 14, json!(["initial"]), json!(["in_flight"])),
        (
            retrying(2),
            0,
            json!(["initial", "retry"]),
            json!(["in_flight", "response"]),
        ),
    ] {
        let script = Script::new()
            .then(Step::ok("world"))
            .then(Step::go_away().after(millis(900)))
            .otherwise(Step::ok("world"));
        let options = Options::new().max_concurrent_streams(1);
        let server = Server::start_with(options, script).await.unwrap();
        let waits = json!({"call": "waits", "start_delay_ms": 450, "kind": "client_stream",
            "payloads": []});
        let calls = [json!({}), json!({"start_delay_ms": 300}), waits];
        let document = with(several(&server, calls), "concurrency", json!("parallel"));
        let answers = answers(with(document, "service_config", config)).await;
        let waited = answers.iter().find(|answer| answer["call"] == "waits");
        let waited = waited.unwrap();
        assert_eq!(waited["code"], code, "{waited}");
        assert_eq!(json!(each(waited, "kind")), kinds, "{waited}");
        assert_eq!(json!(each(waited, "stage")), stages, "{waited}");
    }
}

/// The connection was lost between two calls.
#[tokio::test]
async fn a_connection_that_is_gone_is_dialled_anew() {
    let server = Server::start(Step::ok("world")).await.unwrap();
    let calls = [json!({}), json!({"start_delay_ms": 300})];
    let running = tokio::spawn(answers(several(&server, calls)));
    server.wait_seen(1).await;
    tokio::time::sleep(millis(50)).await;
    server.drop_connections();
    for answer in running.await.unwrap() {
        assert_eq!(answer["code"], 0, "{answer}");
        assert_eq!(each(&answer, "kind"), ["initial"]);
    }
    assert_eq!(server.connections_accepted(), 2);
}

/// R16 R62: UNAVAILABLE at once without a policy; with one it is retried and counted.
#[tokio::test]
async fn a_refused_connection_goes_by_the_policy() {
    let target = nobody().await.to_string();
    for (options, config, kinds, stopped) in [
        (json!({}), json!({}), vec!["initial"], "fatal"),
        (
            json!({}),
            retrying(3),
            vec!["initial", "retry", "retry"],
            "attempts",
        ),
        (
            json!({}),
            hedging(2, "10s"),
            vec!["initial", "hedge"],
            "attempts",
        ),
        (
            json!({"enable_retries": false}),
            retrying(3),
            vec!["initial"],
            "attempts",
        ),
    ] {
        for fields in [json!({}), json!({"timeout_ms": 20_000})] {
            let document = document("grpc", &target, json!([call(fields)]));
            let document = with(document, "channel_options", options.clone());
            let answer = answer(with(document, "service_config", config.clone())).await;
            assert_eq!(answer["code"], 14, "{answer}");
            assert_eq!(answer["stopped"], stopped, "{answer}");
            assert_eq!(each(&answer, "kind"), kinds, "{answer}");
            assert!(
                each(&answer, "stage")
                    .iter()
                    .all(|stage| stage == "dispatch")
            );
        }
    }
}

/// R16: a connection is not established until the server sends its SETTINGS; nothing was sent on
/// it.
#[tokio::test]
async fn a_connection_that_is_closed_at_once_goes_by_the_policy() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let closing = tokio::spawn(async move {
        for _ in 0..3 {
            let (mut socket, _) = listener.accept().await.unwrap();
            // The client preface; the client sends no more until the server's SETTINGS.
            let mut read = [0; 1024];
            let count = socket.read(&mut read).await.unwrap();
            assert!(count < 110, "{count} bytes");
        }
    });
    let calls = json!([call(json!({"timeout_ms": 20_000}))]);
    let document = document("grpc", &address.to_string(), calls);
    let answer = answer(with(document, "service_config", retrying(3))).await;
    closing.await.unwrap();
    assert_eq!(answer["code"], 14, "{answer}");
    assert_eq!(each(&answer, "kind"), ["initial", "retry", "retry"]);
    assert_eq!(each(&answer, "stage"), ["dispatch"; 3], "{answer}");
}

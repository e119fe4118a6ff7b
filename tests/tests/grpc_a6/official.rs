//! Cases of the official clients' own retry tests that no other test here covers.
//! docs/conformance/grpc-official-cases.md lists all of them by name.

use super::*;
use reattempt_testbed::grpc::Options as ServerOptions;

const ALREADY_EXISTS: i32 = 6;
const INTERNAL: i32 = 13;

/// One step for each request, in order.
async fn sequence(steps: impl IntoIterator<Item = Step>) -> Server {
    start(steps.into_iter().fold(Script::new(), Script::then)).await
}

/// Sequential calls: how each ends, and how many requests the server has received by then.
async fn plays(server: &Server, config: &ServiceConfig, calls: &[(i32, usize)]) {
    let channel = Channel::new(config);
    for (number, (code, requests)) in calls.iter().enumerate() {
        let ended = channel.call(unary(server)).await;
        assert_eq!(ended.code.number(), *code, "call {number}");
        assert_eq!(server.seen_count(), *requests, "call {number}");
    }
}

/// R10, R13: grpc-go, TestRetryUnary.
#[tokio::test]
async fn the_unary_sequence_of_grpc_go() {
    let steps = (0..16).map(|request| match request {
        0 | 2 | 5 => Step::ok("pie"),
        6 | 8 | 11 => Step::trailers_only(INTERNAL, "not retryable"),
        _ => Step::trailers_only(ALREADY_EXISTS, "retryable"),
    });
    let server = sequence(steps).await;
    // Without the bucket that `config` adds.
    let config = ServiceConfig::parse(
        r#"{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":4,"initialBackoff":"0.01s",
        "maxBackoff":"0.01s","backoffMultiplier":1,"retryableStatusCodes":["ALREADY_EXISTS"]}}]}"#,
    )
    .expect("a service config");
    let calls = [
        (0, 1),
        (0, 3),
        (0, 6),
        (INTERNAL, 7),
        (INTERNAL, 9),
        (INTERNAL, 12),
        (ALREADY_EXISTS, 16),
    ];
    plays(&server, &config, &calls).await;
}

/// R20, R21, R26: grpc-go, TestRetryThrottling: ten tokens, half a token per success.
#[tokio::test]
async fn the_throttling_sequence_of_grpc_go() {
    let steps = (0..18).map(|request| match request {
        0 | 3 | 6 | 10..=14 | 16 => Step::ok("pie"),
        _ => busy(),
    });
    let server = sequence(steps).await;
    let config = retrying(4, "0.01s");
    let calls = [
        (0, 1),
        (0, 4),
        (0, 7),
        (UNAVAILABLE, 9),
        (UNAVAILABLE, 10),
        (0, 11),
        (0, 12),
        (0, 13),
        (0, 14),
        (0, 15),
        (0, 17),
        (UNAVAILABLE, 18),
    ];
    plays(&server, &config, &calls).await;
    assert_eq!(tokens(&config), Some(5_000));
}

/// R1: grpc-go, TestMaxCallAttempts.
#[tokio::test]
async fn the_clients_limit_of_attempts_caps_the_policys() {
    let default = Options::new().max_attempts_limit;
    for (policy, limit, sent) in [(9, 4, 4), (9, 7, 7), (3, 10, 3), (8, default, 5)] {
        let server = start(busy()).await;
        let text = format!(
            r#"{{"methodConfig":[{{"name":[{{}}],{}}}]}}"#,
            retry_policy(policy, "0.001s")
        );
        let options = Options::new().max_attempts_limit(limit);
        let config = ServiceConfig::parse_with(&text, &options).expect("a service config");
        Channel::new(&config).call(unary(&server)).await;
        assert_eq!(server.seen_count(), sent, "{policy} by {limit}");
    }
}

/// R15: grpc-go, TestRetryTransparentWhenCommitted: the retry waits for a stream, and is cancelled.
#[tokio::test]
async fn a_retry_that_waits_for_a_stream_can_be_cancelled() {
    let script = Script::new()
        .then(busy().pushback("1000"))
        .then(Step::hang())
        .otherwise(Step::ok("pie"));
    let options = ServerOptions::new().max_concurrent_streams(1);
    let server = Server::start_with(options, script).await.expect("a server");
    let channel = Channel::new(&retrying(2, "0.001s"));
    let (request, watch) = watched(unary(&server));
    let mut waiting = Box::pin(channel.send(request));
    tokio::select! {
        _ = &mut waiting => panic!("it is retried"),
        _ = server.wait_seen(1) => {}
    }
    // Takes the only stream while the first call waits for its pushback delay.
    let mut hanging = Box::pin(channel.send(unary(&server)));
    let retried = async {
        server.wait_seen(2).await;
        while watch.info().attempts() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        _ = &mut waiting => panic!("it has no stream"),
        _ = &mut hanging => panic!("it is not answered"),
        () = retried => {}
    }
    drop(waiting);
    drop(hanging);
    let ended = channel.call(unary(&server)).await;
    assert_eq!(ended.code, Code::Ok);
    assert_eq!(previous(&server.seen()), [None; 3], "no retry was sent");
}

/// R53: C-core, retry_send_initial_metadata_refs.
#[tokio::test]
async fn the_callers_metadata_goes_out_with_every_attempt() {
    let server = start(Script::new().then(busy()).otherwise(Step::ok("pie"))).await;
    let long = "y".repeat(300);
    let request = begin(&server)
        .header("x-short", "bar")
        .header("x-long", &long)
        .body(one_message())
        .expect("a request");
    let ended = Channel::new(&retrying(3, "0.001s")).call(request).await;
    assert_eq!(ended.code, Code::Ok);
    let seen = server.seen();
    assert_eq!(previous(&seen), [None, Some(1)]);
    for call in seen {
        assert_eq!(call.header_values("x-short"), ["bar"]);
        assert_eq!(call.header_values("x-long"), [&*long]);
    }
}

/// R10, R53: C-core, retry_streaming_succeeds_before_replay_finished: the server responds to the
/// retry when it has read the first of the replayed messages.
#[tokio::test]
async fn an_answer_before_the_replay_is_whole_commits_the_call() {
    let early = Step::ok("pie")
        .status(UNAVAILABLE, "late")
        .after_messages(1);
    let script = Script::new()
        .then(busy().after_messages(3))
        .then(early)
        .otherwise(Step::ok("not expected"));
    let server = start(script).await;
    let (request, tell) = buffer::streaming(&server);
    for message in ["one", "two", "three"] {
        tell.send(message).expect("the call is in progress");
    }
    let ended = Channel::new(&retrying(4, "0.001s")).call(request).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 2));
    assert_eq!(ended.messages, ["pie"]);
    assert_eq!(server.seen_count(), 2);
    assert_eq!(server.seen()[1].messages[0], "one");
}

/// R53: grpc-go, TestRetryStreaming, "Multiple successive requests": the first attempt fails after
/// one message, the second after two.
#[tokio::test]
async fn each_attempt_gets_the_stream_from_its_start() {
    let script = Script::new()
        .then(busy().after_messages(1))
        .then(busy().after_messages(2))
        .then(Step::echo());
    let server = start(script).await;
    let (request, tell) = buffer::streaming(&server);
    let messages = ["one", "two", "three"];
    let channel = Channel::new(&retrying(4, "0.001s"));
    let told = async {
        for (attempt, message) in messages.into_iter().enumerate() {
            within(server.wait_seen(attempt + 1)).await;
            tell.send(message).expect("the call is in progress");
        }
        drop(tell);
    };
    let (ended, ()) = tokio::join!(channel.call(request), told);
    assert_eq!(ended.code, Code::Ok);
    assert_eq!(ended.messages, messages);
    let seen: Vec<_> = server
        .seen()
        .into_iter()
        .map(|call| call.messages)
        .collect();
    assert_eq!(seen, [&messages[..1], &messages[..2], &messages[..]]);
}

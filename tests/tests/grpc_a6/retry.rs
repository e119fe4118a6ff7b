//! When a call is retried, and what ends it (R10, R13, R51).

use super::*;
use reattempt::StopReason;

/// R10
#[tokio::test]
async fn a_trailers_only_unavailable_is_sent_again() {
    let server = start(
        Script::new()
            .then_times(2, busy())
            .otherwise(Step::ok("pie")),
    )
    .await;
    let ended = Channel::new(&retrying(4, "0.01s"))
        .call(unary(&server))
        .await;
    assert_eq!(
        (ended.code, &ended.messages[..]),
        (Code::Ok, &["pie".into()][..])
    );
    let seen = server.seen();
    assert_eq!(seen.len(), 3);
    for call in seen {
        assert_eq!(
            (&call.path[..], &call.messages[..]),
            ("/shop.Cart/Add", &["apples".into()][..])
        );
    }
}

/// R9: by the path of each call; a method's own entry replaces its service's, without merging.
#[tokio::test]
async fn each_method_has_its_own_policy() {
    let config = r#"{"methodConfig":[
        {"name":[{"service":"shop.Cart"}],"retryPolicy":{"maxAttempts":2,"initialBackoff":"0.001s","maxBackoff":"0.001s",
         "backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}},
        {"name":[{"service":"shop.Cart","method":"Add"}],"retryPolicy":{"maxAttempts":3,"initialBackoff":"0.001s",
         "maxBackoff":"0.001s","backoffMultiplier":1,"retryableStatusCodes":["INVALID_ARGUMENT"]}}]}"#;
    let channel = Channel::new(&ServiceConfig::parse(config).expect("a service config"));
    for (path, code, sent) in [
        ("shop.Cart/Add", INVALID_ARGUMENT, 3),
        ("shop.Cart/Add", UNAVAILABLE, 1),
        ("shop.Cart/Remove", UNAVAILABLE, 2),
        ("shop.Till/Add", UNAVAILABLE, 1),
    ] {
        let server = start(Step::trailers_only(code, "")).await;
        let request = Request::post(format!("{}/{path}", server.uri()))
            .header("content-type", "application/grpc")
            .body(one_message())
            .expect("a request");
        channel.call(request).await;
        assert_eq!(server.seen_count(), sent, "{path} {code}");
    }
}

/// R15
#[tokio::test]
async fn a_caller_who_leaves_during_the_backoff_sends_no_more() {
    let server = start(Script::new().then(busy()).otherwise(Step::ok("pie"))).await;
    let channel = Channel::new(&retrying(4, "0.02s"));
    let (request, watch) = watched(unary(&server));
    let failed = async {
        while watch.info().records().len() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = within(failed) => {}
        _ = channel.send(request) => panic!("the back-off was skipped"),
    }
    assert_eq!(watch.info().stopped(), Some(StopReason::Cancelled));
    let other = Channel::new(&retrying(4, "0.1s"))
        .call(unary(&server))
        .await;
    assert_eq!((other.code, server.seen_count()), (Code::Ok, 2));
}

/// R10
#[tokio::test]
async fn another_code_is_the_callers() {
    let server = start(Step::trailers_only(INVALID_ARGUMENT, "no such fruit")).await;
    let ended = Channel::new(&retrying(4, "0.01s"))
        .call(unary(&server))
        .await;
    assert_eq!(ended.code, Code::InvalidArgument);
    assert_eq!(ended.info.stopped(), Some(StopReason::Fatal));
    assert_eq!(server.seen_count(), 1);
}

/// R13
#[tokio::test]
async fn the_last_failure_is_returned_as_the_server_said_it() {
    let server = start(
        Script::new()
            .then_times(2, busy())
            .otherwise(Step::trailers_only(UNAVAILABLE, "third and last")),
    )
    .await;
    let ended = Channel::new(&retrying(3, "0.01s"))
        .call(unary(&server))
        .await;
    assert_eq!(ended.code, Code::Unavailable);
    assert_eq!(ended.head["grpc-message"], "third and last");
    assert_eq!(ended.info.stopped(), Some(StopReason::Attempts));
    assert_eq!(server.seen_count(), 3);
}

/// R10, R51
#[tokio::test]
async fn response_headers_commit_the_call() {
    let server = start(
        Script::new()
            .then(Step::headers_then_status(UNAVAILABLE))
            .otherwise(Step::ok("too late")),
    )
    .await;
    let ended = Channel::new(&retrying(4, "0.01s"))
        .call(unary(&server))
        .await;
    assert_eq!(ended.code, Code::Unavailable);
    assert_eq!(ended.info.stopped(), Some(StopReason::Committed));
    assert_eq!(server.seen_count(), 1);
}

/// R10: a proxy's response has the code of its HTTP status (503: UNAVAILABLE).
#[tokio::test]
async fn a_proxys_503_is_unavailable() {
    let server = start(
        Script::new()
            .then(Step::http_status(503))
            .otherwise(Step::ok("pie")),
    )
    .await;
    let ended = Channel::new(&retrying(4, "0.01s"))
        .call(unary(&server))
        .await;
    assert_eq!(ended.code, Code::Ok);
    assert_eq!(server.seen_count(), 2);
}

/// R10: a connection that breaks in flight is UNAVAILABLE, and a retryable code is retried.
#[tokio::test]
async fn a_connection_lost_in_flight_is_retried_by_the_policy() {
    let script = || Script::new().then(Step::close()).otherwise(Step::ok("pie"));
    let server = start(script()).await;
    let ended = Channel::new(&retrying(4, "0.01s"))
        .call(unary(&server))
        .await;
    assert_eq!(ended.code, Code::Ok);
    assert_eq!(previous(&server.seen()), [None, Some(1)]);
    let server = start(script()).await;
    let failed = Channel::new(&no_policy()).send(unary(&server)).await;
    assert!(failed.is_err(), "without a policy it is the caller's");
    assert_eq!(server.seen_count(), 1);
}

//! Failures that the server's application never saw (R24, R60 to R63).

use std::net::SocketAddr;

use super::*;
use reattempt::Stage;
use reattempt_testbed::grpc::Options as ServerOptions;
use tokio::net::TcpSocket;

/// R61, R63, R24
#[tokio::test]
async fn a_refused_stream_is_sent_again_once_and_counts_nowhere() {
    let server = start(
        Script::new()
            .then(Step::refuse_stream())
            .then(busy())
            .otherwise(Step::ok("pie")),
    )
    .await;
    let config = retrying(2, "0.001s");
    let ended = Channel::new(&config).call(unary(&server)).await;
    assert_eq!(ended.code, Code::Ok, "three sends, two attempts");
    assert_eq!(previous(&server.seen()), [None, None, Some(1)]);
    assert_eq!(ended.head["grpc-previous-rpc-attempts"], "1");
    assert_eq!(tokens(&config), Some(9_500), "one failure, one success");
}

/// R61, R62: also without a policy; the second time the caller gets the failure.
#[tokio::test]
async fn a_stream_refused_twice_is_the_callers() {
    let server = start(Step::refuse_stream()).await;
    let failed = Channel::new(&no_policy()).send(unary(&server)).await;
    assert!(failed.is_err());
    assert_eq!(server.seen_count(), 2);
}

/// R61: the second time the policy decides, and it counts.
#[tokio::test]
async fn a_stream_refused_twice_goes_by_the_policy() {
    let server = start(
        Script::new()
            .then_times(2, Step::refuse_stream())
            .otherwise(Step::ok("pie")),
    )
    .await;
    let ended = Channel::new(&retrying(4, "0.001s"))
        .call(unary(&server))
        .await;
    assert_eq!(ended.code, Code::Ok);
    assert_eq!(previous(&server.seen()), [None, None, Some(1)]);
}

/// R61: once per call, also after an attempt that was processed.
#[tokio::test]
async fn a_refusal_after_a_processed_attempt_is_transparent_too() {
    let server = start(
        Script::new()
            .then(busy())
            .then(Step::refuse_stream())
            .otherwise(Step::ok("pie")),
    )
    .await;
    let ended = Channel::new(&retrying(2, "0.001s"))
        .call(unary(&server))
        .await;
    assert_eq!(ended.code, Code::Ok);
    assert_eq!(previous(&server.seen()), [None, Some(1), Some(1)]);
}

/// R61, R63: a GOAWAY whose last stream is below this one.
#[tokio::test]
async fn a_call_excluded_by_a_goaway_moves_to_another_connection() {
    let server = start(
        Script::new()
            .then(Step::go_away())
            .otherwise(Step::ok("pie")),
    )
    .await;
    let ended = Channel::new(&no_policy()).call(unary(&server)).await;
    assert_eq!(ended.code, Code::Ok);
    let seen = server.seen();
    assert_eq!(previous(&seen), [None, None]);
    assert_ne!(seen[0].connection, seen[1].connection);
    assert_eq!((ended.info.attempts(), ended.info.retries()), (2, 0));
}

/// An address that is bound but not listening: connections are refused, and no other process gets
/// the port.
fn reserved() -> (TcpSocket, SocketAddr) {
    let reserved = TcpSocket::new_v4().expect("a socket");
    reserved.set_reuseaddr(true).expect("an option");
    reserved
        .bind(([127, 0, 0, 1], 0).into())
        .expect("a free port");
    let address = reserved.local_addr().expect("its address");
    (reserved, address)
}

fn request_to(address: SocketAddr) -> (Request<Body>, RetryInfoHandle) {
    let request = Request::post(format!("http://{address}/shop.Cart/Add"))
        .header("content-type", "application/grpc")
        .body(one_message());
    watched(request.expect("a request"))
}

/// A call to an address where a server starts when `until` is done.
async fn call_and_come_up(
    channel: &Channel,
    until: impl AsyncFnOnce(&RetryInfoHandle),
) -> (Ended, Server) {
    let (_reserved, address) = reserved();
    let (request, watch) = request_to(address);
    let up = async {
        until(&watch).await;
        Server::start_with(ServerOptions::new().at(address), Step::ok("pie"))
            .await
            .expect("the server comes up")
    };
    let (answer, server) = tokio::join!(channel.send(request), up);
    (ended(answer.expect("an answer"), &watch).await, server)
}

/// R16, R62: UNAVAILABLE at once without a policy; with a policy it decides, and the failure
/// counts.
#[tokio::test]
async fn a_refused_connection_fails_fast_or_goes_by_the_policy() {
    let (_reserved, address) = reserved();
    for (config, attempts, left) in [(no_policy(), 1, 10_000), (retrying(3, "0.001s"), 3, 7_000)] {
        let (request, watch) = request_to(address);
        let failed = Channel::new(&config).send(request).await;
        assert!(failed.is_err());
        let info = watch.info();
        assert_eq!((info.attempts(), tokens(&config)), (attempts, Some(left)));
        let mut failures = info.records().filter_map(|record| record.failure);
        assert!(failures.all(|failure| failure.stage == Stage::Dispatch));
    }
}

/// R16: a call that waits for readiness succeeds with one attempt; its `grpc-timeout` is the time
/// left by then.
#[tokio::test]
async fn a_call_that_waits_for_ready_is_one_attempt() {
    let config = config(r#""timeout":"25s","waitForReady":true"#);
    let until = async |watch: &RetryInfoHandle| {
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert_eq!(watch.info().attempts(), 1);
    };
    let (ended, server) = call_and_come_up(&Channel::new(&config), until).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Ok, 1));
    let timeout = server.seen()[0].header("grpc-timeout").map(str::to_owned);
    let micros = timeout.and_then(|text| text.strip_suffix('u')?.parse::<u64>().ok());
    assert!(micros.is_some_and(|left| left <= 24_850_000), "{micros:?}");
}

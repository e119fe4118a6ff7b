//! `grpc-previous-rpc-attempts` (R70, R71).

use super::*;

/// R70, R71
#[tokio::test]
async fn each_attempt_tells_how_many_came_before_and_the_caller_hears_it() {
    let server = start(
        Script::new()
            .then_times(2, busy())
            .otherwise(Step::ok("pie")),
    )
    .await;
    let ended = Channel::new(&retrying(4, "0.01s"))
        .call(unary(&server))
        .await;
    assert_eq!(previous(&server.seen()), [None, Some(1), Some(2)]);
    assert_eq!(ended.head["grpc-previous-rpc-attempts"], "2");
}

/// R70
#[tokio::test]
async fn a_users_own_count_never_reaches_the_wire() {
    let server = start(Script::new().then(busy()).otherwise(Step::ok("pie"))).await;
    let request = begin(&server)
        .header("grpc-previous-rpc-attempts", "7")
        .header("grpc-previous-rpc-attempts", "8")
        .body(one_message())
        .expect("a request");
    Channel::new(&retrying(4, "0.01s")).call(request).await;
    let values: Vec<_> = server
        .seen()
        .iter()
        .map(|call| call.header_values("grpc-previous-rpc-attempts"))
        .collect();
    assert_eq!(values, [vec![], vec!["1".to_owned()]]);
}

/// R71: the count is this client's own; a server's word on it is not passed on.
#[tokio::test]
async fn a_count_from_the_server_does_not_reach_the_caller() {
    let server = start(Step::ok("pie").initial("grpc-previous-rpc-attempts", "9")).await;
    let ended = Channel::new(&retrying(4, "0.01s"))
        .call(unary(&server))
        .await;
    assert!(!ended.head.contains_key("grpc-previous-rpc-attempts"));
}

//! `grpc-previous-rpc-attempts` (R70, R71).

use super::*;

/// R70, R71
#[tokio::test]
async fn attempts_and_the_response_have_the_number_of_earlier_ones() {
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

/// R71: the count is this client's own; a value from the server is not passed on.
#[tokio::test]
async fn a_count_from_the_server_does_not_reach_the_caller() {
    let server = start(Step::ok("pie").initial("grpc-previous-rpc-attempts", "9")).await;
    let ended = Channel::new(&retrying(4, "0.01s"))
        .call(unary(&server))
        .await;
    assert!(!ended.head.contains_key("grpc-previous-rpc-attempts"));
}

/// R64: metadata added for one attempt below the recovery layer is not sent with the next.
#[tokio::test]
async fn metadata_of_one_attempt_does_not_leak_to_the_next() {
    let own = |attempt: u32| {
        let mut metadata = HeaderMap::new();
        if attempt != 2 {
            metadata.insert("x-pick", attempt.into());
        }
        Ok(metadata)
    };
    let retried = Script::new()
        .then_times(2, busy())
        .otherwise(Step::ok("pie"));
    let refused = Script::new()
        .then(Step::refuse_stream())
        .then(busy())
        .otherwise(Step::ok("pie"));
    let hedged = Script::new()
        .then_times(2, Step::hang())
        .otherwise(Step::ok("pie"));
    for (config, script) in [
        (retrying(4, "0.001s"), retried),
        (retrying(4, "0.001s"), refused),
        (hedging(3, "0.01s"), hedged),
    ] {
        let server = start(script).await;
        let mut channel = Channel::new(&config);
        channel.credentials = own;
        let ended = channel.call(unary(&server)).await;
        assert_eq!(ended.code, Code::Ok);
        let picks: Vec<_> = server
            .seen()
            .iter()
            .map(|call| call.header_values("x-pick"))
            .collect();
        assert_eq!(picks, [vec!["1"], vec![], vec!["3"]]);
    }
}

/// R17, R49: a failure on the client side sends nothing; a drop ends the call.
#[tokio::test]
async fn attempts_without_credentials_are_not_sent() {
    let server = start(Step::ok("pie")).await;
    let config = retrying(4, "0.001s");
    let mut channel = Channel::new(&config);
    channel.credentials = |attempt| match attempt {
        1 => Err(ControlPlaneFailure::new(Code::Unavailable, "no token")),
        _ => Ok(HeaderMap::new()),
    };
    let ended = channel.call(unary(&server)).await;
    assert_eq!(ended.code, Code::Ok);
    assert_eq!(previous(&server.seen()), [Some(1)]);
    channel.credentials = |_| Err(ControlPlaneFailure::dropped("too many calls"));
    let ended = channel.call(unary(&server)).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 1));
    assert_eq!(server.seen_count(), 1);
    assert_eq!(tokens(&config), Some(9_500));
}

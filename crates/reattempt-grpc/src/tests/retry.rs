//! Retries, deadlines and transparent retries (R10 to R14, R60 to R63).

use super::*;

/// R10, R13
#[tokio::test(start_paused = true)]
async fn only_retryable_codes_are_retried_the_last_failure_unchanged() {
    let server = Server::new([Status(Code::Unavailable)]);
    let ended = call(&retrying(3, "14"), &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 3));
    assert_eq!(ended.info.stopped(), Some(StopReason::Attempts));
    let server = Server::new([Status(Code::Internal)]);
    let ended = call(&retrying(3, "14"), &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Internal, 1));
    assert_eq!(ended.info.stopped(), Some(StopReason::Fatal));
}

/// R10
#[tokio::test(start_paused = true)]
async fn response_headers_commit_the_call() {
    let server = Server::new([Late(Code::Unavailable), Status(Code::Ok)]);
    let ended = call(&retrying(3, "14"), &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 1));
    assert_eq!(ended.info.stopped(), Some(StopReason::Committed));
}

/// R10: a head that ends the stream has no trailers that could carry a status, and does not commit.
#[tokio::test(start_paused = true)]
async fn a_head_that_ends_the_stream_without_a_status_is_unknown() {
    let server = Server::new([HeadAlone]);
    let ended = call(&retrying(3, "14"), &server, request()).await;
    assert_eq!(ended.info.stopped(), Some(StopReason::Fatal));
    assert_eq!(ended.info.attempts(), 1);
    let server = Server::new([HeadAlone, Status(Code::Ok)]);
    let ended = call(&retrying(3, "2"), &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Ok, 2));
}

/// R11
#[tokio::test(start_paused = true)]
async fn delays_double_up_to_the_maximum_and_the_jitter_is_full() {
    let server = Server::new([Status(Code::Unavailable)]);
    call(&retrying(5, "14"), &server, request()).await;
    assert_eq!(server.times(), [0, 50, 150, 350, 750]);
}

/// R80: the clock stands still between the layers.
#[tokio::test(start_paused = true)]
async fn a_timeout_of_zero_sends_nothing() {
    let server = Server::new([Status(Code::Ok)]);
    let ended = call(&config(r#""timeout":"0s""#), &server, request()).await;
    assert_eq!((ended.code, ended.at_ms), (Code::DeadlineExceeded, 0));
    assert_eq!(server.times(), [0; 0]);
    let message = ended.head[GRPC_MESSAGE].to_str().unwrap();
    assert!(message.contains("unambiguous"), "{message}");
}

/// R14, R80
#[tokio::test(start_paused = true)]
async fn the_earlier_of_both_deadlines_ends_the_call_at_its_instant() {
    let with = |timeout: &str| {
        config(&format!(
            r#""timeout":"{timeout}","retryPolicy":{{"maxAttempts":2,"initialBackoff":"9s","maxBackoff":"9s",
            "backoffMultiplier":1,"retryableStatusCodes":[14]}}"#
        ))
    };
    for (of_config, of_caller, ends) in [("0.2s", "1S", 200), ("2s", "300m", 300)] {
        let server = Server::new([Status(Code::Unavailable)]);
        let mut request = request();
        request
            .headers_mut()
            .insert(GRPC_TIMEOUT, of_caller.parse().unwrap());
        let ended = call(&with(of_config), &server, request).await;
        assert_eq!((ended.code, ended.at_ms), (Code::DeadlineExceeded, ends));
        assert_eq!(
            ended.info.attempts(),
            1,
            "nothing is sent after the deadline"
        );
        let message = ended.head[GRPC_MESSAGE].to_str().unwrap();
        assert!(message.contains("GRPC_UNAVAILABLE"), "{message}");
    }
}

/// R14
#[tokio::test(start_paused = true)]
async fn another_timers_word_on_the_deadline_is_deadline_exceeded() {
    let config = config(r#""timeout":"1s""#);
    for (at, code) in [(999, Code::Cancelled), (1000, Code::DeadlineExceeded)] {
        let server = Server::new([After(at, Box::new(Status(Code::Cancelled)))]);
        let ended = call(&config, &server, request()).await;
        assert_eq!((ended.code, ended.at_ms), (code, at.into()), "the server's");
        let server = Server::new([After(at, Box::new(Fault(TransportFault::Abandoned)))]);
        let ended = call(&config, &server, request()).await;
        assert_eq!(
            (ended.code, ended.at_ms),
            (code, at.into()),
            "the channel's"
        );
    }
    let server = Server::new([After(1000, Box::new(Status(Code::NotFound)))]);
    let ended = call(&config, &server, request()).await;
    assert_eq!(ended.code, Code::NotFound, "an answer at the very instant");
}

/// R14
#[tokio::test(start_paused = true)]
async fn a_stream_ends_at_the_deadline_with_the_status_in_trailers() {
    let server = Server::new([HangsInBody]);
    let ended = call(&config(r#""timeout":"0.5s""#), &server, request()).await;
    assert_eq!((ended.code, ended.at_ms), (Code::DeadlineExceeded, 500));
    // Trailers cannot say whose deadline passed; the watch can.
    assert_eq!(ended.info.stopped(), Some(StopReason::Deadline));
    let server = Server::new([Late(Code::DeadlineExceeded)]);
    let ended = call(&config(r#""timeout":"0.5s""#), &server, request()).await;
    assert_eq!(ended.code, Code::DeadlineExceeded);
    assert_eq!(ended.info.stopped(), Some(StopReason::Committed));
}

/// R16, R62: a connection that cannot be made fails at once with UNAVAILABLE.
#[tokio::test(start_paused = true)]
async fn a_call_without_a_policy_fails_fast_without_a_connection() {
    let server = Server::new([Fault(TransportFault::ConnectFailed)]);
    let config = config(r#""timeout":"10s""#);
    let ended = call(&config, &server, request()).await;
    assert_eq!((ended.code, ended.at_ms), (Code::Unavailable, 0));
    assert_eq!(ended.info.attempts(), 1);
    let record = ended.info.records().next().unwrap();
    assert_eq!(record.failure.unwrap().stage, Stage::Dispatch);
}

/// R16: with a policy it is retried like any UNAVAILABLE, and counted.
#[tokio::test(start_paused = true)]
async fn a_connection_that_cannot_be_made_goes_by_the_policy() {
    let refused = || vec![Fault(TransportFault::ConnectFailed)];
    let (server, policy) = (Server::new(refused()), retrying(3, "14"));
    let ended = call(&policy, &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 3));
    assert_eq!(ended.info.stopped(), Some(StopReason::Attempts));
    let previous = [None, Some("1"), Some("2")];
    assert_eq!(server.previous(), previous.map(|n| n.map(str::to_owned)));
    assert_eq!(policy.throttle().unwrap().milli_tokens(), Some(7_000));

    let (server, other) = (Server::new(refused()), retrying(3, "10"));
    let ended = call(&other, &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 1));

    let (server, hedges) = (Server::new(refused()), hedging(3, "1s", "14"));
    let ended = call(&hedges, &server, request()).await;
    assert_eq!((ended.code, ended.at_ms), (Code::Unavailable, 0));
    assert_eq!(ended.info.attempts(), 3);
    assert_eq!(hedges.throttle().unwrap().milli_tokens(), Some(7_000));
}

/// R60: while there is a backend that the call has not tried, the call moves to it, uncounted;
/// after that the policy decides.
#[tokio::test(start_paused = true)]
async fn a_refused_connection_moves_on_to_an_untried_backend() {
    let dead = || Server::new([Fault(TransportFault::ConnectFailed)]);
    let (servers, none) = ([dead(), dead(), dead()], config(r#""timeout":"10s""#));
    let ended = call_one_of(&none, &servers, request()).await;
    assert_eq!((ended.code, ended.at_ms), (Code::Unavailable, 0));
    assert_eq!((ended.info.attempts(), ended.info.retries()), (3, 0));
    assert!(servers.iter().all(|server| server.times() == [0]));

    let (servers, policy) = ([dead(), dead()], retrying(2, "14"));
    let ended = call_one_of(&policy, &servers, request()).await;
    assert_eq!(ended.code, Code::Unavailable);
    assert_eq!((ended.info.attempts(), ended.info.retries()), (3, 1));
    assert_eq!(policy.throttle().unwrap().milli_tokens(), Some(8_000));

    let servers = [dead(), Server::new([Status(Code::Ok)])];
    let ended = call_one_of(&none, &servers, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Ok, 2));
    assert_eq!(servers[1].previous(), [None]);
}

/// R24, R60, R62, R63: never sent on a connection that existed.
#[tokio::test(start_paused = true)]
async fn attempts_never_sent_cost_nothing_and_need_no_policy() {
    let unsent = Fault(TransportFault::NeverSent);
    let server = Server::new([unsent.clone(), unsent.clone(), unsent, Status(Code::Ok)]);
    let config = config(r#""waitForReady":false"#);
    let ended = call(&config, &server, request()).await;
    assert_eq!(
        (ended.code, ended.info.attempts(), ended.info.retries()),
        (Code::Ok, 4, 0)
    );
    assert_eq!(server.previous(), [None, None, None, None]);
    assert_eq!(config.throttle().unwrap().milli_tokens(), Some(10_000));
    assert!(!ended.head.contains_key(PREVIOUS_ATTEMPTS));
}

/// R9, R25: the config is chosen when the call starts and applies to all its attempts; the bucket
/// belongs to the server name.
#[tokio::test(start_paused = true)]
async fn a_call_keeps_its_config_when_a_newer_one_is_in_force() {
    let of = |attempts: u32, tokens: u32| {
        format!(
            r#"{{"methodConfig":[{{"name":[{{}}],"timeout":"{attempts}s","retryPolicy":{{"maxAttempts":{attempts},
            "initialBackoff":"0.1s","maxBackoff":"0.1s","backoffMultiplier":1,"retryableStatusCodes":[14]}}}}],
            "retryThrottling":{{"maxTokens":{tokens},"tokenRatio":1}}}}"#
        )
    };
    let live = LiveServiceConfig::new(Options::new().randomness(Randomness::Fixed(0.5)));
    live.update(&of(4, 20)).unwrap();
    let server = Server::new([Status(Code::Unavailable)]);
    let updates = async {
        tokio::time::sleep(Duration::from_millis(75)).await;
        live.update("junk").unwrap_err();
        live.update(&of(2, 200)).unwrap();
    };
    let (ended, ()) = tokio::join!(call(&live, &server, request()), updates);
    assert_eq!(
        server.times(),
        [0, 50, 100, 150],
        "four attempts all the same"
    );
    assert_eq!(ended.code, Code::Unavailable);
    let bucket = live.load().throttle().cloned().unwrap();
    // Two of twenty tokens were used, so twenty of two hundred; then two more failures.
    assert_eq!(bucket.milli_tokens(), Some(178_000));

    let ended = call(&live, &server, request()).await;
    assert_eq!(
        ended.info.attempts(),
        2,
        "the next call has the newer config"
    );
    assert_eq!(bucket.milli_tokens(), Some(176_000));
}

/// R14, R60: `on_deadline` applies to methods without a policy too.
#[tokio::test(start_paused = true)]
async fn a_method_without_a_policy_can_give_up_at_the_deadline() {
    let unsent = || Fault(TransportFault::NeverSent);
    let ended = async |on_deadline| {
        let options = Options::new().on_deadline(on_deadline);
        let text = r#"{"methodConfig":[{"name":[{}],"timeout":"0.004s"}]}"#;
        let config = ServiceConfig::parse_with(text, &options).unwrap();
        let ended = call(&config, &Server::new([unsent()]), request()).await;
        assert_eq!(ended.info.attempts(), 6);
        assert_eq!(ended.info.stopped(), Some(StopReason::Deadline));
        (ended.code, ended.at_ms)
    };
    assert_eq!(ended(OnDeadline::GiveUp).await, (Code::Unavailable, 3));
    assert_eq!(ended(OnDeadline::Cap).await, (Code::DeadlineExceeded, 4));
}

/// R61: a refused stream is retried transparently once, then the policy decides.
#[tokio::test(start_paused = true)]
async fn a_refused_stream_is_sent_again_once_per_call() {
    let refused = || Fault(TransportFault::StreamRefused);
    let server = Server::new([refused(), refused(), Status(Code::Ok)]);
    let ended = call(&config(r#""waitForReady":false"#), &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 2));
    let server = Server::new([
        Status(Code::Unavailable),
        refused(),
        refused(),
        Status(Code::Ok),
    ]);
    let ended = call(&retrying(3, "14"), &server, request()).await;
    assert_eq!(
        (ended.code, ended.info.attempts(), ended.info.retries()),
        (Code::Ok, 4, 2)
    );
    let previous = [None, Some("1"), Some("1"), Some("2")];
    assert_eq!(server.previous(), previous.map(|n| n.map(str::to_owned)));
}

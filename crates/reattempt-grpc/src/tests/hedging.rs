//! Hedging (R40 to R50).

use super::*;

/// R40
#[tokio::test(start_paused = true)]
async fn hedges_go_out_at_each_delay_and_all_at_once_without_one() {
    let slow = || After(10_000, Box::new(Status(Code::Ok)));
    let server = Server::new([slow()]);
    call(&hedging(4, "0.2s", "14"), &server, request()).await;
    assert_eq!(server.times(), [0, 200, 400, 600]);
    let server = Server::new([slow()]);
    call(&hedging(3, "0s", "14"), &server, request()).await;
    assert_eq!(server.times(), [0, 0, 0]);
}

/// R41, R42, R43
#[tokio::test(start_paused = true)]
async fn headers_commit_fatal_ends_all_non_fatal_sends_the_next() {
    let server = Server::new([Hangs, After(50, Box::new(Late(Code::Ok)))]);
    let ended = call(&hedging(4, "0.2s", "14"), &server, request()).await;
    assert_eq!(
        (ended.code, ended.at_ms, server.times()),
        (Code::Ok, 250, vec![0, 200])
    );
    let server = Server::new([Hangs, Status(Code::InvalidArgument)]);
    let ended = call(&hedging(4, "0.2s", "14"), &server, request()).await;
    assert_eq!((ended.code, ended.at_ms), (Code::InvalidArgument, 200));
    let busy = After(50, Box::new(Status(Code::Unavailable)));
    let server = Server::new([busy, Hangs, Status(Code::Ok)]);
    call(&hedging(4, "0.2s", "14"), &server, request()).await;
    assert_eq!(server.times(), [0, 50, 250], "at once, then each delay");
}

/// R44, R45
#[tokio::test(start_paused = true)]
async fn pushback_moves_the_next_hedge_and_a_stop_ends_new_ones_only() {
    let busy = Pushback(Code::Unavailable, "1000");
    let server = Server::new([busy, Hangs, Status(Code::Ok)]);
    call(&hedging(4, "0.2s", "14"), &server, request()).await;
    assert_eq!(server.times(), [0, 1000, 1200]);
    let server = Server::new([
        After(350, Box::new(Status(Code::Ok))),
        Pushback(Code::Unavailable, "-1"),
        Status(Code::Internal),
    ]);
    let ended = call(&hedging(4, "0.2s", "14"), &server, request()).await;
    assert_eq!(
        (ended.code, ended.at_ms, server.times()),
        (Code::Ok, 350, vec![0, 200])
    );
}

/// R46, R47, R50
#[tokio::test(start_paused = true)]
async fn hedges_ask_the_throttle_and_the_last_failure_is_returned() {
    let config = hedging(3, "0.2s", "14");
    let server = Server::new([Status(Code::Unavailable)]);
    let ended = call(&config, &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 3));
    assert_eq!(
        server.previous(),
        [None, Some("1".to_owned()), Some("2".to_owned())]
    );
    assert_eq!(config.throttle().unwrap().milli_tokens(), Some(7_000));
    call(&config, &server, request()).await;
    let server = Server::new([Status(Code::Unavailable)]);
    let ended = call(&config, &server, request()).await;
    assert_eq!(ended.info.attempts(), 1, "the bucket is down to its half");
}

/// R49: a balancer below may drop the call; other hedges continue, and a retried call ends.
#[tokio::test(start_paused = true)]
async fn a_drop_below_sends_no_more() {
    let server = Server::new([
        After(350, Box::new(Status(Code::Ok))),
        Drops(Code::Unavailable),
        Status(Code::Internal),
    ]);
    let ended = call(&hedging(4, "0.2s", "14"), &server, request()).await;
    assert_eq!(
        (ended.code, ended.at_ms, server.times()),
        (Code::Ok, 350, vec![0, 200])
    );
    let server = Server::new([Drops(Code::Unavailable), Status(Code::Ok)]);
    let ended = call(&retrying(4, "14"), &server, request()).await;
    assert_eq!((ended.code, server.times()), (Code::Unavailable, vec![0]));
    assert_eq!(ended.info.stopped(), Some(StopReason::Pushback));
}

/// R48
#[tokio::test(start_paused = true)]
async fn the_deadline_ends_all_hedges_and_plans_no_more() {
    let server = Server::new([Hangs]);
    let config = config(
        r#""timeout":"0.5s","hedgingPolicy":{"maxAttempts":5,"hedgingDelay":"0.2s","nonFatalStatusCodes":[14]}"#,
    );
    let ended = call(&config, &server, request()).await;
    assert_eq!((ended.code, ended.at_ms), (Code::DeadlineExceeded, 500));
    assert_eq!(server.times(), [0, 200, 400]);
}

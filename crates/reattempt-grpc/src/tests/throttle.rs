//! The token bucket (R20 to R26).

use super::*;

/// R20, R21, R26
#[tokio::test(start_paused = true)]
async fn a_drained_bucket_returns_the_failure_at_once() {
    let config = retrying(5, "14");
    let server = Server::new([Status(Code::Unavailable)]);
    let first = call(&config, &server, request()).await;
    assert_eq!(first.info.attempts(), 5);
    assert_eq!(first.info.stopped(), Some(StopReason::Attempts));
    assert_eq!(
        config.throttle().unwrap().milli_tokens(),
        Some(5_000),
        "the last counts too"
    );
    let began = Instant::now();
    let second = call(&config, &server, request()).await;
    assert_eq!(
        (second.code, second.info.attempts()),
        (Code::Unavailable, 1)
    );
    assert_eq!(second.info.stopped(), Some(StopReason::Throttled));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// R22, R23: what counts, also for methods without a policy.
#[tokio::test(start_paused = true)]
async fn the_bucket_counts_what_a6_says() {
    use TransportFault::{ConnectionReset, StreamReset};
    for (retries, step, tokens) in [
        (true, Late(Code::Ok), 5_500),
        (true, Status(Code::Ok), 5_500),
        (true, Late(Code::Unavailable), 4_000),
        (true, Late(Code::InvalidArgument), 5_000),
        (true, Status(Code::InvalidArgument), 5_000),
        (true, Pushback(Code::InvalidArgument, "-1"), 4_000),
        (true, Pushback(Code::Unavailable, "junk"), 4_000),
        (true, Breaks(None), 5_000),
        (true, Breaks(Some(ConnectionReset)), 4_000),
        (true, Breaks(Some(StreamReset(8))), 5_000),
        (false, Late(Code::Ok), 5_500),
        (false, Status(Code::Unavailable), 5_000),
        (false, Pushback(Code::Unavailable, "-1"), 4_000),
    ] {
        let config = if retries {
            retrying(2, "14")
        } else {
            config(r#""waitForReady":true"#)
        };
        let bucket = config.throttle().unwrap();
        let failure = Failure::new(reasons::GRPC_UNAVAILABLE, Stage::Response);
        (0..5).for_each(|_| bucket.settled(Settled::Failure(&failure)));
        let server = Server::new([step]);
        call(&config, &server, request()).await;
        assert_eq!(bucket.milli_tokens(), Some(tokens), "{:?}", server.times());
    }
}

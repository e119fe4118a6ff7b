//! The deadline, errors after the first rows, and a retry storm.

use super::*;

/// C7: the deadline applies while an error body arrives slowly.
#[tokio::test(start_paused = true)]
async fn a_body_that_dribbles_is_waited_for_until_the_deadline() {
    let dribble = (0..100).flat_map(|_| [Piece::Pause(ms(100)), data(" ")]);
    let began = Instant::now();
    let client = Client::of(HttpService::query()).limit(ms(450));
    let ended = client
        .call(post(), [Does::Answers(500, Pieces::of(dribble))])
        .await;
    assert_eq!(began.elapsed(), ms(450));
    assert!(
        ended.elapsed().ambiguous,
        "the statement was sent, its response is incomplete"
    );
}

/// Errors that arrive after the caller received rows: no further attempt, but not a success either.
#[tokio::test(start_paused = true)]
async fn an_error_that_comes_late_counts_as_a_failure() {
    let rows = format!(r#"{{"results": ["{}"]"#, "x".repeat(20_000));
    let late = |end: Piece| Does::Answers(200, Pieces::of([data(&rows), end]));
    let error = r#", "errors": [{"code": 23000, "msg": "m"}]}"#;
    for (end, reason, counted) in [
        (data(error), Some(reason::ANALYTICS_TEMPORARY_FAILURE), true),
        (
            data(&error.replace("23000", "24000")),
            Some(reason::UNKNOWN),
            false,
        ),
        (Piece::Breaks, Some(SOCKET_CLOSED_WHILE_IN_FLIGHT), true),
        (data("}"), None, false),
    ] {
        let mut request = read_only();
        let watch = RetryInfo::track(&mut request);
        let client = Client::of(HttpService::analytics());
        client
            .bucket
            .settled(reattempt::throttle::Settled::Failure(&Failure::new(
                reason::UNKNOWN,
                Stage::Response,
            )));
        let ended = client.call(request, [late(end)]).await;
        assert_eq!(
            (ended.sent, ended.info.stopped()),
            (1, Some(StopReason::Committed))
        );
        assert_eq!(
            client.bucket.milli_tokens(),
            Some(999_000),
            "no result is known yet"
        );
        let mut body = ended.outcome.unwrap().into_body();
        while let Some(Ok(_)) = body.frame().await {}
        let tokens = if counted {
            998_000
        } else if reason.is_none() {
            1_000_000
        } else {
            999_000
        };
        assert_eq!(client.bucket.milli_tokens(), Some(tokens), "{reason:?}");
        drop(watch);
    }
}

/// Reported when it arrives: the caller need not read on.
#[tokio::test(start_paused = true)]
async fn a_late_error_is_reported_before_the_end() {
    let rows = format!(r#"{{"results": ["{}"]"#, "x".repeat(20_000));
    let error = r#", "errors": [{"code": 23000, "msg": "m"}"#;
    let body = Pieces::of([data(&rows), data(error), Piece::Hangs]);
    let client = Client::of(HttpService::analytics());
    let ended = client.call(read_only(), [Does::Answers(200, body)]).await;
    let mut body = ended.outcome.unwrap().into_body();
    for told in [1_000_000, 999_000] {
        body.frame().await.unwrap().unwrap();
        assert_eq!(client.bucket.milli_tokens(), Some(told));
    }
}

/// C15: there is no retry queue to be capped, because a waiting call occupies only its caller; the
/// throttle limits the retries of all calls together, and each call then gets the node's own
/// response.
#[tokio::test(start_paused = true)]
async fn a_storm_of_retries_is_held_back_by_the_throttle() {
    let mut client = Client::of(HttpService::query());
    client.bucket = Arc::new(TokenBucket::new(100, 100).unwrap());
    let calls: Vec<_> = (0..1000)
        .map(|_| client.call(post(), (0..100).map(|_| fails(4040))))
        .collect();
    let mut calls: std::collections::VecDeque<_> = calls.into_iter().map(Box::pin).collect();
    let mut ended = Vec::new();
    // All of them at once.
    std::future::poll_fn(|cx| {
        calls.retain_mut(|call| match call.as_mut().poll(cx) {
            Poll::Ready(call) => {
                ended.push(call);
                false
            }
            Poll::Pending => true,
        });
        if calls.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    let sent: usize = ended.iter().map(|call| call.sent).sum();
    assert!(
        sent <= 1000 + 50,
        "{sent}: half of the tokens, and no further retry"
    );
    for call in ended {
        assert_eq!(
            (call.status(), call.info.stopped()),
            (400, Some(StopReason::Throttled))
        );
    }
}

//! A96: the retry metrics of a call.

use super::*;
use Instrument::{CallDuration, CallHedges, CallRetries, CallRetryDelay, CallTransparentRetries};

/// Checks the reported retries, transparent retries and hedges.
fn assert_counts(measured: &Measured, counts: [&[f64]; 3]) {
    let counted = [CallRetries, CallTransparentRetries, CallHedges];
    assert_eq!(counted.map(|counted| measured.values(counted)), counts);
}

/// R72: counts of zero are not reported; the delay is, as zero.
#[tokio::test(start_paused = true)]
async fn counts_of_zero_are_not_reported() {
    let measured = Measured::new();
    for end in [Status(Code::Ok), Late(Code::Ok), Status(Code::Internal)] {
        let server = Server::new([after(10, end)]);
        measured.call(&many_retries(3), &server).await;
    }
    assert_counts(&measured, [&[], &[], &[]]);
    assert_eq!(measured.recorded(CallRetryDelay), [(0.0, None); 3]);
}

/// R72: the delay is the time with no attempt active, to the millisecond.
#[tokio::test(start_paused = true)]
async fn the_delay_is_the_time_between_the_attempts() {
    let measured = Measured::new();
    let busy = |ms| after(ms, Status(Code::Unavailable));
    let pushed = after(5, Pushback(Code::Unavailable, "300"));
    let server = Server::new([busy(10), pushed, busy(30), after(40, Late(Code::Ok))]);
    measured.call(&many_retries(5), &server).await;
    assert_eq!(server.times(), [0, 60, 365, 445]);
    assert_counts(&measured, [&[3.0], &[], &[]]);
    assert_eq!(measured.recorded(CallRetryDelay), [(0.4, None)]);
    assert_eq!(measured.values(CallDuration), [0.485]);
}

/// R72
#[tokio::test(start_paused = true)]
async fn hedges_leave_no_delay_while_one_is_active() {
    let measured = Measured::new();
    let server = Server::new([Hangs, Hangs, after(50, Status(Code::Ok))]);
    measured.call(&hedging(4, "0.2s", "14"), &server).await;
    assert_counts(&measured, [&[], &[], &[2.0]]);
    assert_eq!(measured.values(CallRetryDelay), [0.0]);
    // The first attempt fails before the second is due; a pushback delays the second.
    let measured = Measured::new();
    let server = Server::new([
        after(10, Pushback(Code::Unavailable, "100")),
        after(50, Status(Code::Ok)),
    ]);
    measured.call(&hedging(4, "0.2s", "14"), &server).await;
    assert_counts(&measured, [&[], &[], &[1.0]]);
    assert_eq!(measured.values(CallRetryDelay), [0.1]);
    // The second attempt has failed, and the first is still active while the third is due.
    let measured = Measured::new();
    let pushed = Pushback(Code::Unavailable, "100");
    let server = Server::new([Hangs, pushed, after(50, Status(Code::Ok))]);
    measured.call(&hedging(4, "0.2s", "14"), &server).await;
    assert_eq!(server.times(), [0, 200, 300]);
    assert_eq!(measured.values(CallRetryDelay), [0.0]);
}

/// R72, R63
#[tokio::test(start_paused = true)]
async fn transparent_retries_are_counted_apart() {
    let measured = Measured::new();
    let refused = || Fault(TransportFault::StreamRefused);
    let server = Server::new([refused(), Status(Code::Unavailable), Status(Code::Ok)]);
    measured.call(&many_retries(5), &server).await;
    assert_counts(&measured, [&[1.0], &[1.0], &[]]);
    assert_eq!(measured.values(CallRetryDelay), [0.05]);
}

/// R72, R14: a back-off cut off by the deadline or the caller counts for the time it lasted.
#[tokio::test(start_paused = true)]
async fn a_backoff_that_was_cut_off_counts_as_far_as_it_went() {
    let config = unthrottled(
        r#""timeout":"0.2s","retryPolicy":{"maxAttempts":2,"initialBackoff":"9s","maxBackoff":"9s",
        "backoffMultiplier":1,"retryableStatusCodes":[14]}"#,
    );
    let server = Server::new([after(50, Status(Code::Unavailable))]);
    let measured = Measured::new();
    measured.call(&config, &server).await;
    let late = [(0.2, Some(Code::DeadlineExceeded))];
    assert_eq!(measured.recorded(CallDuration), late);
    assert_eq!(measured.values(CallRetryDelay), [0.15]);
    let measured = Measured::new();
    let server = Server::new([after(50, Status(Code::Unavailable))]);
    let call = measured.call(&config, &server);
    let left = tokio::time::timeout(Duration::from_millis(80), call).await;
    assert!(left.is_err());
    assert_eq!(measured.values(CallRetryDelay), [0.03]);
    assert_counts(&measured, [&[], &[], &[]]);
}

/// R72: the time that a caller takes to read a response is not delay.
#[tokio::test(start_paused = true)]
async fn time_after_the_last_attempt_is_no_delay() {
    let measured = Measured::new();
    let server = Server::new([Status(Code::Unavailable), Late(Code::Ok)]);
    let stack = measured.stack(&many_retries(3), &server);
    let head = stack.oneshot(request()).await;
    tokio::time::advance(Duration::from_secs(5)).await;
    read(head).await;
    assert_eq!(measured.values(CallRetryDelay), [0.05]);
    // Nor is the time that a layer in between takes.
    let measured = Measured::new();
    let slow = ServiceBuilder::new()
        .layer(measured.stats.call_layer())
        .and_then(|answer| async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok::<_, Infallible>(answer)
        })
        .layer(ReplayBodyLayer::new())
        .layer(standard().observer(measured.stats.observer()))
        .layer(measured.stats.attempt_layer())
        .service_fn(|_: Request<SentBody<ReplayBody<Full<Bytes>>>>| async {
            Ok::<_, Infallible>(answer(Status(Code::Internal)).unwrap())
        });
    slow.oneshot(request()).await.unwrap();
    assert_eq!(measured.values(CallDuration), [5.0]);
    assert_eq!(measured.values(CallRetryDelay), [0.0]);
}

/// R72: experimental, so off by default.
#[tokio::test(start_paused = true)]
async fn retry_metrics_are_off_unless_asked_for() {
    let measured = Measured::with(StatsOptions::new());
    let server = Server::new([Status(Code::Unavailable), Status(Code::Ok)]);
    measured.call(&many_retries(3), &server).await;
    assert_eq!(measured.retries(), (1, 0), "A6's own are always there");
    let recorded = measured.memory.0.lock().unwrap();
    let opt_in = [
        CallRetries,
        CallTransparentRetries,
        CallHedges,
        CallRetryDelay,
    ];
    assert!(
        recorded
            .iter()
            .all(|recorded| !opt_in.contains(&recorded.instrument))
    );
}

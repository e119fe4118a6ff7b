//! A66: the metrics of each attempt and of the call.

use bytes::Buf;

use super::*;
use Instrument::{AttemptDuration, AttemptReceived, AttemptSent, AttemptStarted, CallDuration};

/// R72: each attempt is an RPC of its own; the call's duration includes back-off.
#[tokio::test(start_paused = true)]
async fn attempts_are_measured_one_by_one_and_the_call_as_a_whole() {
    let measured = Measured::new();
    let server = Server::new([
        after(10, Status(Code::Unavailable)),
        after(20, Status(Code::Unavailable)),
        after(30, Status(Code::Ok)),
    ]);
    measured.call(&many_retries(5), &server).await;
    assert_eq!(measured.recorded(AttemptStarted), [(1.0, None); 3]);
    let busy = Some(Code::Unavailable);
    let durations = [(0.01, busy), (0.02, busy), (0.03, Some(Code::Ok))];
    assert_eq!(measured.recorded(AttemptDuration), durations);
    let whole = [(0.16, Some(Code::Ok))];
    assert_eq!(measured.recorded(CallDuration), whole);
    let recorded = measured.memory.0.lock().unwrap();
    assert!(
        recorded
            .iter()
            .all(|recorded| recorded.method == "shop.Cart/Add")
    );
}

/// R72: status and time are those of the trailers.
#[tokio::test(start_paused = true)]
async fn a_stream_is_measured_to_its_trailers() {
    for (step, code) in [
        (Late(Code::Ok), Code::Ok),
        (Late(Code::Internal), Code::Internal),
        (Breaks(None), Code::Internal),
        (
            Breaks(Some(TransportFault::StreamReset(8))),
            Code::Cancelled,
        ),
        (Fault(TransportFault::ConnectionReset), Code::Unavailable),
    ] {
        let measured = Measured::new();
        let server = Server::new([after(10, step)]);
        let stack = measured.stack(&config(r#""waitForReady":true"#), &server);
        let answer = stack.oneshot(request()).await;
        let streams = answer.is_ok();
        assert_eq!(measured.recorded(CallDuration).is_empty(), streams);
        if streams {
            tokio::time::advance(Duration::from_millis(5)).await;
        }
        read(answer).await;
        let took = if streams { 0.015 } else { 0.01 };
        for duration in [AttemptDuration, CallDuration] {
            assert_eq!(measured.recorded(duration), [(took, Some(code))]);
        }
    }
}

/// R72: a stream that ended with its head need not be read; without a status it is UNKNOWN.
#[tokio::test(start_paused = true)]
async fn a_stream_that_ended_unread_is_unknown_not_cancelled() {
    for (step, code) in [
        (HeadAlone, Code::Unknown),
        (Late(Code::Ok), Code::Cancelled),
    ] {
        let measured = Measured::new();
        let stack = measured.stack(&many_retries(3), &Server::new([step]));
        drop(stack.oneshot(request()).await.unwrap());
        assert_eq!(measured.recorded(AttemptDuration), [(0.0, Some(code))]);
        assert_eq!(measured.recorded(CallDuration), [(0.0, Some(code))]);
    }
}

/// R72: losing hedges end as CANCELLED when they are dropped.
#[tokio::test(start_paused = true)]
async fn the_losers_of_a_hedged_call_are_cancelled() {
    let measured = Measured::new();
    let server = Server::new([Hangs, Hangs, after(50, Late(Code::Ok))]);
    measured.call(&hedging(4, "0.2s", "14"), &server).await;
    assert_eq!(measured.recorded(AttemptStarted).len(), 3);
    let (lost, ok) = (Some(Code::Cancelled), Some(Code::Ok));
    let durations = [(0.45, lost), (0.25, lost), (0.05, ok)];
    assert_eq!(measured.recorded(AttemptDuration), durations);
    assert_eq!(measured.recorded(CallDuration), [(0.45, ok)]);
}

/// R72: whenever a caller drops the call, open attempts end as CANCELLED.
#[tokio::test(start_paused = true)]
async fn a_caller_who_leaves_cancels_what_is_under_way() {
    let left = Some(Code::Cancelled);
    let busy = || Status(Code::Unavailable);
    for (script, attempts) in [
        (vec![Hangs], vec![(0.02, left)]),
        (vec![busy()], vec![(0.0, Some(Code::Unavailable))]),
        (vec![HangsInBody], vec![(0.02, left)]),
    ] {
        let measured = Measured::new();
        let stack = measured.stack(&many_retries(3), &Server::new(script));
        let call = async { read(stack.oneshot(request()).await).await };
        let waited = tokio::time::timeout(Duration::from_millis(20), call).await;
        assert!(waited.is_err(), "it was still going on");
        assert_eq!(measured.recorded(AttemptDuration), attempts);
        assert_eq!(measured.recorded(CallDuration), [(0.02, left)]);
    }
}

/// R72, R14: the deadline ends attempt and call, before the head and during the stream.
#[tokio::test(start_paused = true)]
async fn the_deadline_ends_attempt_and_call_as_deadline_exceeded() {
    for hangs in [Hangs, HangsInBody] {
        let measured = Measured::new();
        let server = Server::new([hangs]);
        measured.call(&config(r#""timeout":"0.5s""#), &server).await;
        let late = [(0.5, Some(Code::DeadlineExceeded))];
        assert_eq!(measured.recorded(AttemptDuration), late);
        assert_eq!(measured.recorded(CallDuration), late);
    }
}

/// A gRPC message with its prefix.
fn message(size: usize) -> Vec<u8> {
    let mut frame = vec![1];
    frame.extend(u32::try_from(size).unwrap().to_be_bytes());
    frame.resize(5 + size, 7);
    frame
}

/// R72: compressed sizes of messages, without gRPC's own framing; counted per attempt.
#[tokio::test(start_paused = true)]
async fn sizes_are_those_of_messages_without_their_framing() {
    let measured = Measured::new();
    let attempts = Arc::new(AtomicUsize::new(0));
    let stack = measured.around(&many_retries(3), move |request| {
        let before = attempts.fetch_add(1, Ordering::Relaxed);
        async move {
            if before == 0 {
                return answer(Status(Code::Unavailable));
            }
            let sent = request.into_body().collect().await.unwrap();
            assert_eq!(sent.aggregate().remaining(), 2 * 5 + 300);
            let mut response = answer(Late(Code::Ok))?;
            let answer = [message(1000), message(0), message(24)].concat();
            let mut trailers = HeaderMap::new();
            trailers.insert(GRPC_STATUS, 0.into());
            let body = Full::from(answer).map_err(|never| match never {});
            let end = std::future::ready(Some(Ok(trailers)));
            *response.body_mut() = body.with_trailers(end).boxed_unsync();
            Ok(response)
        }
    });
    let request = request().map(|_| Full::from([message(100), message(200)].concat()));
    read(stack.oneshot(request).await).await;
    let busy = (0.0, Some(Code::Unavailable));
    let ok = Some(Code::Ok);
    assert_eq!(measured.recorded(AttemptSent), [busy, (300.0, ok)]);
    assert_eq!(measured.recorded(AttemptReceived), [busy, (1024.0, ok)]);
}

/// R72: methods that are not recorded by name count as `other`.
#[tokio::test(start_paused = true)]
async fn a_method_that_is_filtered_out_is_other() {
    let measured = Measured::with(StatsOptions::new().methods(|name| name == "a.B/C"));
    measured
        .call(
            &config(r#""waitForReady":true"#),
            &Server::new([Status(Code::Ok)]),
        )
        .await;
    let recorded = measured.memory.0.lock().unwrap();
    assert!(!recorded.is_empty() && recorded.iter().all(|recorded| recorded.method == "other"));
}

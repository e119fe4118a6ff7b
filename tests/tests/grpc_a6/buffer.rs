//! Streaming requests and their memory limits (R51 to R53).

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::*;
use http_body::Frame;
use reattempt::{AttemptOutcome, StopReason};
use reattempt_testbed::grpc::ErrorCode;
use tokio::sync::mpsc;

/// A body whose messages are sent through a channel during the call.
struct Told(mpsc::UnboundedReceiver<&'static str>);

impl http_body::Body for Told {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let message = ready!(self.0.poll_recv(cx));
        Poll::Ready(message.map(|message| Ok(Frame::data(frame_message(message.as_bytes())))))
    }
}

/// A streaming call, and the sender of its messages; dropping the sender half-closes the stream.
pub(super) fn streaming(server: &Server) -> (Request<Body>, mpsc::UnboundedSender<&'static str>) {
    let (tell, told) = mpsc::unbounded_channel();
    let request = begin(server).body(Told(told).boxed_unsync());
    (request.expect("a request"), tell)
}

/// Longer than the limits below.
const LONG: &str = "a message that is larger than the buffer of a call";

/// R53 and "Memory Management": what one attempt has sent is replayed, and later messages go to the
/// newest attempt.
#[tokio::test]
async fn a_streaming_request_is_replayed_whole() {
    let server = start(
        Script::new()
            .then(busy().after_messages(2))
            .otherwise(Step::echo()),
    )
    .await;
    let (request, tell) = streaming(&server);
    let channel = Channel::new(&retrying(4, "0.001s"));
    let messages = async {
        tell.send("one").expect("the call is in progress");
        tell.send("two").expect("the call is in progress");
        within(server.wait_for(1, |call| {
            call.previous_attempts() == Some(1) && call.messages.len() == 2
        }))
        .await;
        tell.send("three").expect("the call is in progress");
        drop(tell);
    };
    let (ended, ()) = tokio::join!(channel.call(request), messages);
    assert_eq!(ended.code, Code::Ok);
    assert_eq!(ended.messages, ["one", "two", "three"]);
    let seen = server.seen();
    assert_eq!(seen[0].messages, ["one", "two"]);
    assert!(!seen[0].half_closed);
    assert_eq!(seen[1].messages, ["one", "two", "three"]);
}

/// R51, R53
#[tokio::test]
async fn a_request_over_the_buffers_limit_commits_the_call() {
    let server = start(
        Script::new()
            .then(busy())
            .otherwise(Step::ok("not expected")),
    )
    .await;
    let (request, tell) = streaming(&server);
    for message in ["short", LONG] {
        tell.send(message).expect("the call is in progress");
    }
    drop(tell);
    let ended = Channel::new(&retrying(4, "0.001s"))
        .bytes_per_call(32)
        .call(request)
        .await;
    assert_eq!(ended.code, Code::Unavailable);
    assert_eq!(ended.info.stopped(), Some(StopReason::NotReplayable));
    let seen = server.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].messages, ["short", LONG], "nothing of it is lost");
}

/// R52
#[tokio::test]
async fn a_retry_over_the_buffers_limit_sends_all_and_is_final() {
    let server = start(
        Script::new()
            .then(busy().after_messages(1))
            .then(busy())
            .otherwise(Step::ok("not expected")),
    )
    .await;
    let (request, tell) = streaming(&server);
    let channel = Channel::new(&retrying(4, "0.001s")).bytes_per_call(32);
    let messages = async {
        tell.send("short").expect("the call is in progress");
        within(server.wait_seen(2)).await;
        tell.send(LONG).expect("the call is in progress");
        drop(tell);
    };
    let (ended, ()) = tokio::join!(channel.call(request), messages);
    assert_eq!(ended.code, Code::Unavailable);
    assert_eq!(ended.info.stopped(), Some(StopReason::NotReplayable));
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[1].messages, ["short", LONG]);
}

/// R51: of hedges over the limit, the one that has sent the most continues alone.
#[tokio::test]
async fn hedges_over_the_buffers_limit_leave_one_that_is_whole() {
    let server = start(Script::handler(|_| Step::echo())).await;
    let (request, tell) = streaming(&server);
    for message in ["short", LONG] {
        tell.send(message).expect("the call is in progress");
    }
    drop(tell);
    let ended = Channel::new(&hedging(3, "0s"))
        .bytes_per_call(32)
        .call(request)
        .await;
    assert_eq!(ended.code, Code::Ok);
    assert_eq!(ended.messages, ["short", LONG]);
}

/// R21, R51: hedges that are cut off are not failures of the server. The remaining one ends as it
/// would alone.
#[tokio::test]
async fn hedges_that_are_cut_off_cost_no_tokens() {
    for (last, code, left) in [
        (Step::ok("pie"), Code::Ok, 10_000),
        (busy(), Code::Unavailable, 9_000),
    ] {
        let config = hedging(3, "0s");
        let server = start(Script::handler(move |_| last.clone())).await;
        let (request, tell) = streaming(&server);
        let messages = async {
            tell.send("short").expect("the call is in progress");
            within(server.wait_for(3, |call| call.messages.len() == 1)).await;
            tell.send(LONG).expect("the call is in progress");
            within(server.wait_cancelled(2)).await;
            drop(tell);
        };
        let channel = Channel::new(&config).bytes_per_call(32);
        let (ended, ()) = tokio::join!(channel.call(request), messages);
        assert_eq!((ended.code, tokens(&config)), (code, Some(left)));
        let cancelled = ended.info.records().filter(|record| {
            record.outcome == AttemptOutcome::Cancelled
                && record.stopped == Some(StopReason::NotReplayable)
        });
        assert_eq!(cancelled.count(), 2);
        let whole = server.seen().into_iter().filter(|call| call.half_closed);
        assert_eq!(whole.count(), 1);
    }
}

/// R51 and "The implementation will ensure that the listener forwards its calls to all outstanding
/// hedged RPCs": each hedge gets the whole stream, including messages sent after it started.
#[tokio::test]
async fn every_hedge_gets_the_whole_stream_also_what_comes_later() {
    let server = start(
        Script::new()
            .then_times(2, Step::hang())
            .otherwise(Step::ok("pie")),
    )
    .await;
    let (request, tell) = streaming(&server);
    let channel = Channel::new(&hedging(3, "0.01s"));
    let messages = async {
        for (sent, message) in ["one", "two", "three"].into_iter().enumerate() {
            tell.send(message).expect("the call is in progress");
            within(server.wait_for(3, |call| call.messages.len() == sent + 1)).await;
        }
        assert_eq!(channel.budget.used(), 3 * 5 + 11, "kept once for all");
        drop(tell);
    };
    let (ended, ()) = tokio::join!(channel.call(request), messages);
    assert_eq!(
        (ended.code, &ended.messages[..]),
        (Code::Ok, &["pie".into()][..])
    );
    let seen = within(server.wait_for(3, |call| call.half_closed)).await;
    for call in seen {
        assert_eq!(call.messages, ["one", "two", "three"]);
    }
    assert_eq!(channel.budget.used(), 0);
}

/// R41, R51: at response headers the losing hedges get no more of the stream, the buffer is freed,
/// and the rest goes to the winner without being buffered.
#[tokio::test]
async fn at_response_headers_an_open_request_is_no_longer_buffered() {
    for hedges in [true, false] {
        let config = if hedges {
            hedging(3, "0.01s")
        } else {
            retrying(3, "0.001s")
        };
        let first = if hedges { Step::hang() } else { busy() };
        let script = Script::new().then_times(2, first.after_messages(1));
        let server = start(script.otherwise(Step::echo().after_messages(1))).await;
        let (request, tell) = streaming(&server);
        let channel = Channel::new(&config);
        tell.send("one").expect("the call is in progress");
        let answer = channel.send(request).await.expect("an answer");
        assert_eq!(channel.budget.used(), 0);
        if hedges {
            let cancelled = within(server.wait_cancelled(2)).await;
            let code = |call: &SeenCall| call.cancelled.and_then(|cancelled| cancelled.code);
            assert!(
                cancelled
                    .iter()
                    .all(|call| code(call) == Some(ErrorCode::CANCEL))
            );
        }
        for message in ["two", "three"] {
            tell.send(message).expect("the call is in progress");
            let got = |call: &SeenCall| call.messages.last().is_some_and(|last| last == message);
            within(server.wait_for(1, got)).await;
            assert_eq!(channel.budget.used(), 0);
        }
        drop(tell);
        within(answer.into_body().collect())
            .await
            .expect("a whole stream");
        let seen = server.seen();
        assert_eq!(seen[2].messages, ["one", "two", "three"]);
        for lost in &seen[..2] {
            assert_eq!(lost.messages, ["one"], "{hedges}");
        }
    }
}

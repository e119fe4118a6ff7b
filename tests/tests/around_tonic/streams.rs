//! Streams: nothing is kept or changed once the response has begun.

use super::server::{Server, Step};
use super::stack::{client, holding};
use super::*;
use reattempt::StopReason;
use reattempt_http::body::BufferBudget;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// R10, R41, R51: after the response head both streams continue, and nothing is buffered.
#[tokio::test]
async fn both_streams_talk_on_once_the_answer_has_begun() {
    let budget = BufferBudget::new(1024 * 1024);
    let server = Server::start([Step::Fail(busy())]).await;
    let mut client = holding(&retrying(4), &server, &budget);
    let (sender, receiver) = mpsc::channel(1);
    let (request, watch) = watched(ReceiverStream::new(receiver));
    let answer = within(client.swap(request)).await.expect("a stream");
    let mut stream = answer.into_inner();
    for n in 0..200 {
        let sent = items("ping", n);
        sender.send(sent.clone()).await.expect("the stream is read");
        let back = within(stream.message()).await.expect("a message");
        assert_eq!(back, Some(sent));
        assert_eq!(budget.used(), 0, "nothing is kept after the answer's head");
    }
    drop(sender);
    assert_eq!(within(stream.message()).await.expect("the end"), None);
    let info = watch.info();
    assert_eq!(
        (info.attempts(), info.stopped()),
        (2, Some(StopReason::Committed))
    );
    assert_eq!(server.seen()[1].items.len(), 200);
}

/// R15
#[tokio::test]
async fn a_stream_dropped_by_its_reader_is_cancelled_and_not_counted() {
    let server = Server::start([Step::HangAfter(1)]).await;
    let config = retrying(4);
    let mut client = client(&config, &server);
    let answer = within(client.list(items("pie", 3))).await;
    let mut stream = answer.expect("a stream").into_inner();
    assert!(within(stream.message()).await.expect("a message").is_some());
    drop(stream);
    server.seen_when(|seen| seen[0].cancelled).await;
    assert_eq!(tokens(&config), 10_000);
}

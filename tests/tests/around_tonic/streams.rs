//! Streams of all kinds: replayed before the response begins, unchanged afterwards.

use super::server::{Server, Step};
use super::stack::{client, holding};
use super::*;
use reattempt::{AttemptOutcome, StopReason};
use reattempt_http::body::BufferBudget;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};

fn three() -> impl tokio_stream::Stream<Item = Item> + Send + 'static {
    tokio_stream::iter(["apples", "pears", "plums"].map(item))
}

async fn read(mut stream: Streaming<Item>) -> Result<Vec<Item>, (Vec<Item>, Status)> {
    let mut all = Vec::new();
    loop {
        match within(stream.message()).await {
            Ok(Some(item)) => all.push(item),
            Ok(None) => return Ok(all),
            Err(status) => return Err((all, status)),
        }
    }
}

/// R10, R70
#[tokio::test]
async fn a_server_stream_that_has_not_begun_is_retried() {
    let server = Server::start([Step::Fail(busy()), Step::Fail(busy())]).await;
    let mut client = client(&retrying(4), &server);
    let answer = within(client.list(items("pie", 3))).await;
    let all = read(answer.expect("a stream").into_inner()).await;
    assert_eq!(all.expect("a whole stream").len(), 3);
    assert_eq!(previous(&server.seen()), [None, Some("1"), Some("2")]);
}

/// R51, R53: once from the start, once after the whole request was read.
#[tokio::test]
async fn a_client_stream_is_replayed_whole() {
    let steps = [Step::Fail(busy()), Step::FailAfterReading(busy())];
    let server = Server::start(steps).await;
    let mut client = client(&retrying(4), &server);
    let answer = within(client.fill(three())).await.expect("an answer");
    let all = ["apples", "pears", "plums"];
    assert_eq!(answer.get_ref().names, all);
    let seen = server.seen();
    assert_eq!(seen[1].names(), all);
    assert_eq!(seen[2].names(), all);
}

/// R51: what was read of an open stream is sent again, and later items follow.
#[tokio::test]
async fn an_open_client_stream_is_replayed_as_far_as_it_was_read() {
    let server = Server::start([Step::FailAfterFirst(busy())]).await;
    let mut client = client(&retrying(4), &server);
    let (sender, receiver) = mpsc::channel(1);
    let feed = async {
        sender
            .send(item("apples"))
            .await
            .expect("the stream is read");
        server.seen_when(|seen| seen.len() == 2).await;
        sender
            .send(item("pears"))
            .await
            .expect("the stream is read");
        drop(sender);
    };
    let call = client.fill(ReceiverStream::new(receiver));
    let (answer, ()) = within(async { tokio::join!(call, feed) }).await;
    let names = answer.expect("an answer").into_inner().names;
    assert_eq!(names, ["apples", "pears"]);
    assert_eq!(server.seen()[0].names(), ["apples"]);
}

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

/// R10, R22, R23: items received are the caller's, and the bucket counts the end of the stream.
#[tokio::test]
async fn a_stream_that_fails_after_its_head_is_the_callers_and_counts() {
    let server = Server::start([Step::FailAfter(2, busy()), Step::Serve]).await;
    let config = retrying(4);
    let mut client = client(&config, &server);
    let (request, watch) = watched(items("pie", 5));
    let answer = within(client.list(request)).await.expect("a stream");
    let (all, status) = read(answer.into_inner()).await.unwrap_err();
    assert_eq!((all.len(), status.code()), (2, Code::Unavailable));
    assert_eq!(status.message(), "busy");
    assert_eq!(server.seen().len(), 1);
    assert_eq!(tokens(&config), 9_000);
    let info = watch.info();
    let record = info.records().next().expect("a failure leaves a record");
    assert_eq!(record.outcome, AttemptOutcome::Committed);
    assert_eq!(record.failure.and_then(|f| f.code), Some(14));

    let answer = within(client.list(items("pie", 1))).await;
    let whole = read(answer.expect("a stream").into_inner()).await;
    assert_eq!(whole.expect("whole").len(), 1);
    assert_eq!(tokens(&config), 9_500, "a success, once its end is known");
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

mod memory;

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Empty, Full};
use reattempt::RetryInfo;
use reattempt::strategy::{MaxAttempts, RetryOnce};
use reattempt::throttle::Settled;
use reattempt::{
    AttemptKind, CallContext, CallDeadline, DeadlineLayer, Failure, HasCallContext, HedgeLayer,
    HedgePolicy, NextAttempt, Replay, RetryLayer, RetryThrottle, Stage, ThrottleLayer, TokenBucket,
    reason,
};
use tokio::sync::mpsc;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use super::*;
use crate::{HttpClassifier, ReplayBodyError};

const NEXT: NextAttempt<'static> = next(2);

const fn next(number: u32) -> NextAttempt<'static> {
    NextAttempt::new(number, AttemptKind::Retry, None)
}

/// A body fed by a test, which may promise this many bytes; fails when the test sends an error.
struct Fed(
    mpsc::UnboundedReceiver<Result<Frame<Bytes>, &'static str>>,
    Option<u64>,
);

impl Body for Fed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = self.0.poll_recv(cx);
        if let (Poll::Ready(Some(Ok(frame))), Some(promised)) = (&polled, &mut self.1) {
            *promised -= frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        polled.map(|frame| frame.map(|frame| frame.map_err(BoxError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.1.is_some() && self.0.is_closed() && self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.1.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

type Feed = mpsc::UnboundedSender<Result<Frame<Bytes>, &'static str>>;

fn fed() -> (Feed, Fed) {
    let (feed, body) = mpsc::unbounded_channel();
    (feed, Fed(body, None))
}

fn fed_template() -> (Feed, ReplayBody<Fed>) {
    let (feed, body) = fed();
    (feed, ReplayBody::new(body))
}

fn give(feed: &Feed, data: &'static str) {
    feed.send(Ok(Frame::data(Bytes::from(data)))).unwrap();
}

async fn text<B>(body: &mut B) -> String
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Debug,
{
    let frame = body
        .frame()
        .await
        .expect("not at the end")
        .expect("no error");
    String::from_utf8(frame.into_data().expect("data").to_vec()).unwrap()
}

fn source(error: &ReplayBodyError) -> String {
    std::error::Error::source(error).unwrap().to_string()
}

async fn is_pending<B: Body + Unpin>(body: &mut B) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut *body).poll_frame(cx).is_pending())).await
}

#[tokio::test]
async fn every_copy_reads_the_whole_body_and_its_trailers() {
    let (feed, template) = fed_template();
    give(&feed, "a");
    give(&feed, "b");
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "7".parse().unwrap());
    feed.send(Ok(Frame::trailers(trailers))).unwrap();
    drop(feed);
    for _ in 0..3 {
        let copy = template.replay(&NEXT).unwrap().collect().await.unwrap();
        assert_eq!(copy.trailers().unwrap()["x-sum"], "7");
        assert_eq!(copy.to_bytes(), "ab");
    }
}

fn copy_of<B>(template: &ReplayBody<B>, number: u32) -> ReplayBody<B> {
    template.replay(&next(number)).unwrap()
}

/// R60: a body that was never polled was never sent.
#[tokio::test]
async fn a_copy_that_was_dropped_unread_says_so() {
    let (feed, template) = fed_template();
    give(&feed, "a");
    let unread = copy_of(&template, 1);
    assert!(!unread.is_end_stream());
    assert!(template.was_unread(1), "also while it is held");
    drop(unread);
    assert!(template.was_unread(1) && !template.was_unread(2));
    let mut read = copy_of(&template, 2);
    assert_eq!(text(&mut read).await, "a");
    assert!(!template.was_unread(2));
    drop(read);
    assert!(!template.was_unread(2) && template.was_unread(1));
    let mut asked = copy_of(&template, 3);
    assert_eq!(text(&mut asked).await, "a");
    assert!(is_pending(&mut asked).await);
    drop(asked);
    assert!(!template.was_unread(3));
    template.attempt_over(1);
    assert!(!template.was_unread(1));
}

/// A hedge refused by its throttle leaves its number, and its unread copy, to the next attempt.
#[tokio::test]
async fn a_read_attempt_is_not_taken_for_an_earlier_copy() {
    let (feed, template) = fed_template();
    give(&feed, "a");
    drop(copy_of(&template, 2));
    let mut sent = copy_of(&template, 2);
    assert_eq!(text(&mut sent).await, "a");
    drop(sent);
    assert!(!template.was_unread(2));
}

/// Its end is sent with the head of the request, and the body is not polled.
#[tokio::test]
async fn a_copy_that_has_nothing_to_give_may_have_been_sent() {
    let empty: ReplayBody<Full<Bytes>> = ReplayBody::new(Full::default());
    drop(copy_of(&empty, 1));
    assert!(!empty.was_unread(1));
    let (feed, template) = fed_template();
    drop(feed);
    let (waits, mut first) = (copy_of(&template, 2), copy_of(&template, 1));
    assert!(first.frame().await.is_none());
    assert!(waits.is_end_stream(), "detected by another copy");
    drop(waits);
    assert!(!template.was_unread(2));
}

/// A copy of it, made by a layer below, may have been sent.
#[tokio::test]
async fn a_copy_that_was_copied_may_have_been_sent() {
    let template = ReplayBody::new(Full::new(Bytes::from("a")));
    let copy = copy_of(&template, 1);
    drop(copy_of(&copy, 2).collect().await.unwrap());
    drop(copy);
    assert!(!template.was_unread(1));
}

#[tokio::test]
async fn copies_read_at_once_and_a_stalled_one_blocks_no_other() {
    let (feed, template) = fed_template();
    let (mut one, mut two) = (copy_of(&template, 1), copy_of(&template, 2));
    assert!(is_pending(&mut one).await);
    let reader = tokio::spawn(async move {
        let first = text(&mut two).await;
        (first, text(&mut two).await)
    });
    tokio::task::yield_now().await;
    // The copy that polled last stops reading: the other is woken nevertheless.
    assert!(is_pending(&mut one).await);
    give(&feed, "x");
    tokio::task::yield_now().await;
    give(&feed, "y");
    assert_eq!(reader.await.unwrap(), ("x".to_owned(), "y".to_owned()));
    assert_eq!(text(&mut one).await, "x");
}

#[tokio::test]
async fn a_copy_that_waits_is_woken_when_the_one_ahead_has_gone() {
    let (feed, template) = fed_template();
    let (mut one, mut two) = (copy_of(&template, 1), copy_of(&template, 2));
    let reader = tokio::spawn(async move { text(&mut two).await });
    tokio::task::yield_now().await;
    assert!(is_pending(&mut one).await);
    drop(one);
    give(&feed, "late");
    assert_eq!(reader.await.unwrap(), "late");
}

/// R53: a frame that overflows is not kept. R51: the copy that has read most continues alone.
#[tokio::test]
async fn on_overflow_the_copy_ahead_goes_on_and_nothing_is_kept() {
    let (feed, body) = fed();
    let budget = BufferBudget::new(100);
    let template = ReplayBody::with_limits(body, 4, Some(budget.clone()));
    let first = next(1);
    let mut ahead = template.replay(&first).unwrap();
    let mut behind = template.replay(&NEXT).unwrap();
    give(&feed, "abcd");
    assert_eq!(text(&mut ahead).await, "abcd");
    assert!(template.can_replay(&NEXT));
    assert_eq!(budget.used(), 4);
    give(&feed, "e");
    assert_eq!(text(&mut ahead).await, "e");
    assert!(!template.can_replay(&NEXT) && template.replay(&NEXT).is_none());
    assert_eq!(budget.used(), 0, "freed immediately");
    assert!(!template.was_cut_off(2), "not before it returned the error");
    let lost = behind.frame().await.unwrap().unwrap_err();
    assert!(matches!(lost, ReplayBodyError::Abandoned));
    drop(behind);
    assert!(template.was_cut_off(2) && !template.was_cut_off(1));
    give(&feed, "f");
    drop(feed);
    assert_eq!(ahead.collect().await.unwrap().to_bytes(), "f");
}

/// R51: the sender of the copies is notified at once which of them lost, even if that copy is never
/// polled again.
#[tokio::test]
async fn on_overflow_the_sender_of_the_copies_is_woken() {
    let (feed, body) = fed();
    let template = ReplayBody::with_limits(body, 4, None);
    let (one, two) = (next(1), NEXT);
    let mut ahead = template.replay(&one).unwrap();
    // As a layer keeps one that may send the attempt again while it waits for a connection.
    let _kept = template.replay(&one).unwrap();
    let _stalled = template.replay(&two).unwrap();
    let woken = Arc::new(Woken::default());
    let waker = std::task::Waker::from(Arc::clone(&woken));
    let cx = &mut Context::from_waker(&waker);
    assert!(template.poll_cut_off(2, cx).is_pending());
    give(&feed, "abcd");
    assert_eq!(text(&mut ahead).await, "abcd");
    assert!(!woken.0.load(Ordering::Relaxed), "it fits");
    give(&feed, "e");
    assert_eq!(text(&mut ahead).await, "e");
    assert!(woken.0.load(Ordering::Relaxed));
    assert!(template.poll_cut_off(2, cx).is_ready());
    assert!(template.poll_cut_off(1, cx).is_pending(), "it continues");
    drop(ahead);
    let pending = template.poll_cut_off(1, cx).is_pending();
    assert!(pending, "its response may follow");
}

#[derive(Default)]
struct Woken(AtomicBool);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// R52
#[tokio::test]
async fn a_copy_that_overflows_after_a_replay_still_sends_everything() {
    let (feed, body) = fed();
    let template = ReplayBody::with_limits(body, 2, None);
    give(&feed, "ab");
    let mut first = template.replay(&NEXT).unwrap();
    assert_eq!(text(&mut first).await, "ab");
    drop(first);
    let second = template.replay(&NEXT).unwrap();
    give(&feed, "cd");
    drop(feed);
    assert_eq!(second.collect().await.unwrap().to_bytes(), "abcd");
    assert!(!template.can_replay(&NEXT));
}

#[tokio::test]
async fn the_budget_is_shared_by_all_calls_and_given_back() {
    let budget = BufferBudget::new(6);
    let with = |text: &'static str| {
        let (feed, body) = fed();
        give(&feed, text);
        (
            feed,
            ReplayBody::with_limits(body, 100, Some(budget.clone())),
        )
    };
    let (_one, first) = with("abcd");
    let (_two, second) = with("efg");
    let (mut a, mut b) = (first.replay(&NEXT).unwrap(), second.replay(&NEXT).unwrap());
    assert_eq!(text(&mut a).await, "abcd");
    assert_eq!(text(&mut b).await, "efg");
    assert!(
        first.can_replay(&NEXT) && !second.can_replay(&NEXT),
        "only 2 were left"
    );
    drop((first, a));
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn without_a_template_the_body_streams_through_unbuffered() {
    let budget = BufferBudget::new(100);
    let (feed, body) = fed();
    let template = ReplayBody::with_limits(body, 3, Some(budget.clone()));
    let mut copy = template.replay(&NEXT).unwrap();
    give(&feed, "abc");
    assert_eq!(text(&mut copy).await, "abc");
    assert_eq!(budget.used(), 3);
    drop(template);
    assert_eq!(
        budget.used(),
        0,
        "the response has arrived: no copy needs it"
    );
    give(&feed, "a good deal more than three");
    assert_eq!(text(&mut copy).await, "a good deal more than three");
}

#[tokio::test]
async fn a_commit_frees_what_is_kept_for_others() {
    let budget = BufferBudget::new(100);
    let (feed, body) = fed();
    let template = ReplayBody::with_limits(body, 50, Some(budget.clone()));
    let mut copy = template.replay(&NEXT).unwrap();
    give(&feed, "abc");
    assert_eq!(text(&mut copy).await, "abc");
    copy.commit();
    assert_eq!(budget.used(), 0);
    assert!(!template.can_replay(&NEXT));
    give(&feed, "d");
    assert_eq!(text(&mut copy).await, "d");
}

#[tokio::test]
async fn an_error_of_the_body_reaches_every_copy_and_ends_replaying() {
    let (feed, template) = fed_template();
    let (mut one, mut two) = (copy_of(&template, 1), copy_of(&template, 2));
    give(&feed, "a");
    feed.send(Err("disk")).unwrap();
    for copy in [&mut one, &mut two] {
        assert_eq!(text(copy).await, "a");
        let error = copy.frame().await.unwrap().unwrap_err();
        assert_eq!(source(&error), "disk");
        assert!(copy.frame().await.is_none());
    }
    assert!(!template.can_replay(&NEXT));
}

#[test]
fn a_known_length_stays_known_and_an_empty_body_costs_nothing() {
    let full = ReplayBody::new(Full::new(Bytes::from("12345")));
    let copy = full.replay(&NEXT).unwrap();
    assert_eq!(copy.size_hint().exact(), Some(5));
    assert!(!copy.is_end_stream());
    let empty = ReplayBody::new(Empty::<Bytes>::new());
    assert!(empty.is_end_stream() && empty.can_replay(&NEXT));
    assert_eq!(empty.replay(&NEXT).unwrap().size_hint().exact(), Some(0));
}

/// A transport that has not sent the head yet would announce what another copy left, and a body of
/// no bytes is a complete one.
#[tokio::test]
async fn a_copy_that_was_cut_off_has_no_length() {
    let budget = BufferBudget::new(5);
    let full = || ReplayBody::with_limits(Full::<Bytes>::from("value"), 1024, Some(budget.clone()));
    let other = full();
    assert_eq!(text(&mut copy_of(&other, 1)).await, "value");
    let template = full();
    let (mut first, mut second) = (copy_of(&template, 1), copy_of(&template, 2));
    assert_eq!(second.size_hint().exact(), Some(5));
    assert_eq!(text(&mut first).await, "value");
    assert_eq!(second.size_hint().exact(), None);
    assert!(!second.is_end_stream());
    assert!(second.frame().await.unwrap().is_err());
}

/// Over HTTP/2 a later attempt would be a complete request with fewer bytes.
#[tokio::test]
async fn a_body_that_ends_before_its_length_fails() {
    let (feed, body) = fed();
    let template = ReplayBody::new(Fed(body.0, Some(5)));
    let (mut first, mut second) = (copy_of(&template, 1), copy_of(&template, 2));
    give(&feed, "abc");
    drop(feed);
    assert_eq!(text(&mut first).await, "abc");
    assert_eq!(first.size_hint().exact(), Some(2));
    assert_eq!(second.size_hint().exact(), Some(5));
    assert!(!first.is_end_stream(), "the error is still to come");
    let error = first.frame().await.unwrap().unwrap_err();
    assert!(matches!(error, ReplayBodyError::Body(_)), "{error:?}");
    assert!(first.frame().await.is_none());
    assert_eq!(text(&mut second).await, "abc");
    assert_eq!(second.size_hint().exact(), None);
    assert!(!second.is_end_stream());
    assert!(second.frame().await.unwrap().is_err());
    assert!(!template.can_replay(&NEXT));
}

#[tokio::test]
async fn trailers_before_the_length_of_a_body_are_an_error() {
    let (feed, body) = fed();
    let template = ReplayBody::new(Fed(body.0, Some(5)));
    let mut copy = copy_of(&template, 1);
    give(&feed, "abc");
    feed.send(Ok(Frame::trailers(HeaderMap::new()))).unwrap();
    assert_eq!(text(&mut copy).await, "abc");
    assert!(copy.frame().await.unwrap().is_err());
    assert!(copy.frame().await.is_none());
}

#[tokio::test]
async fn the_end_is_seen_without_another_poll() {
    let template = ReplayBody::new(Full::new(Bytes::from("12345")));
    let mut copy = template.replay(&NEXT).unwrap();
    assert_eq!(text(&mut copy).await, "12345");
    assert!(copy.is_end_stream() && !template.is_end_stream());
    assert_eq!(
        template.size_hint().exact(),
        Some(5),
        "the template has read nothing"
    );
}

#[test]
fn a_body_known_to_be_too_large_is_not_kept_at_all() {
    let five =
        |limit, budget| ReplayBody::with_limits(Full::new(Bytes::from("12345")), limit, budget);
    let budget = |bytes| Some(BufferBudget::new(bytes));
    assert!(five(5, None).replay(&NEXT).is_some());
    assert!(five(4, None).replay(&NEXT).is_none());
    assert!(five(5, budget(5)).replay(&NEXT).is_some());
    assert!(five(9, budget(4)).replay(&NEXT).is_none(), "of all calls");
}

/// Frames, of which `None` panics, under a length.
struct Frames(std::vec::IntoIter<Option<&'static str>>, Option<u64>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.0.next();
        Poll::Ready(next.map(|frame| Ok(Frame::data(Bytes::from(frame.expect("a row"))))))
    }

    fn size_hint(&self) -> SizeHint {
        self.1.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

/// The row after the one that panicked would make a complete request with a hole.
#[tokio::test]
async fn a_body_that_panicked_is_never_complete() {
    let rows = vec![Some("one"), None, Some("three")];
    let template = ReplayBody::new(Frames(rows.into_iter(), None));
    let mut first = template.replay(&NEXT).unwrap();
    let mut second = template.replay(&NEXT).unwrap();
    assert_eq!(text(&mut first).await, "one");
    let task = tokio::spawn(async move { first.frame().await.map(|_| ()) });
    assert!(task.await.unwrap_err().is_panic());
    assert!(!template.can_replay(&NEXT));
    assert_eq!(text(&mut second).await, "one");
    let error = second.frame().await.unwrap().unwrap_err();
    assert_eq!(source(&error), "the request's body panicked");
    assert!(second.frame().await.is_none());
}

#[tokio::test]
async fn a_body_that_goes_on_after_its_length_fails() {
    let rows = vec![Some("12"), Some("345")];
    let template = ReplayBody::new(Frames(rows.into_iter(), Some(4)));
    let mut copy = template.replay(&NEXT).unwrap();
    assert_eq!(copy.size_hint().exact(), Some(4));
    assert_eq!(text(&mut copy).await, "12");
    let error = copy.frame().await.unwrap().unwrap_err();
    let said = "the request's body did not end at its declared length";
    assert_eq!(source(&error), said);
    assert!(!template.can_replay(&NEXT));
}

#[tokio::test(start_paused = true)]
async fn a_too_large_body_is_sent_once_and_the_failure_is_returned() {
    let service = ServiceBuilder::new()
        .layer(ReplayBodyLayer::new().bytes_per_call(4))
        .layer(RetryLayer::new(
            HttpClassifier::new(),
            MaxAttempts::standard(),
        ))
        .service_fn(|request: Request<ReplayBody<Full<Bytes>>>| async {
            let body = request.into_body().collect().await?.to_bytes();
            assert_eq!(body, "12345");
            Ok::<_, BoxError>(Response::builder().status(503).body(()).unwrap())
        });
    let mut request = Request::put("/")
        .body(Full::new(Bytes::from("12345")))
        .unwrap();
    let watch = RetryInfo::track(&mut request);
    assert_eq!(service.oneshot(request).await.unwrap().status(), 503);
    assert_eq!(watch.info().attempts(), 1);
}

/// This body in the response to a call with this limit.
async fn limited<B: Body>(limit: Duration, body: B) -> DeadlineBody<B> {
    let body = Cell::new(Some(body));
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(limit))
        .layer(DeadlineBodyLayer::new())
        .service_fn(|_: Request<()>| ready(Ok::<_, BoxError>(Response::new(body.take().unwrap()))));
    service.oneshot(Request::new(())).await.unwrap().into_body()
}

#[tokio::test(start_paused = true)]
async fn a_body_ends_at_the_deadline_and_a_frame_at_it_wins() {
    let (feed, body) = fed();
    let mut body = limited(Duration::from_secs(3), body).await;
    assert!(is_pending(&mut body).await);
    tokio::time::sleep(Duration::from_secs(3)).await;
    give(&feed, "just in time");
    assert_eq!(text(&mut body).await, "just in time");
    let error = body.frame().await.unwrap().unwrap_err();
    let DeadlineBodyError::Elapsed(elapsed) = error else {
        panic!()
    };
    assert!(!elapsed.ambiguous, "a GET");
    assert!(body.is_end_stream() && body.frame().await.is_none());
    assert!(feed.is_closed(), "the stream below is dropped immediately");
}

/// A server that sends forever, faster than the client reads.
struct Endless;

impl Body for Endless {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from("more")))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_never_pending_ends_at_the_deadline_too() {
    let mut body = limited(Duration::from_secs(3), Endless).await;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let frame = body.frame().await.unwrap();
        assert!(frame.unwrap().is_data(), "until the exact instant");
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    let error = body.frame().await.unwrap().unwrap_err();
    assert!(matches!(error, DeadlineBodyError::Elapsed(_)));
    assert!(body.is_end_stream() && body.frame().await.is_none());
}

/// Drops what it gets from a server that sends faster than it is read, until its task has to yield.
struct Filters;

impl Body for Filters {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        while std::pin::pin!(tokio::task::coop::consume_budget())
            .poll(cx)
            .is_ready()
        {}
        Poll::Pending
    }
}

#[tokio::test]
async fn a_body_that_uses_up_its_tasks_budget_ends_at_the_deadline() {
    let mut body = limited(Duration::from_millis(50), Filters).await;
    let reading = tokio::spawn(async move { body.frame().await.unwrap().is_err() });
    let ended = tokio::time::timeout(Duration::from_secs(30), reading).await;
    assert!(ended.expect("the deadline").unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_late_reader_still_gets_a_body_of_one_frame() {
    let body = Full::<Bytes>::from("all of it");
    let mut body = limited(Duration::from_secs(3), body).await;
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(text(&mut body).await, "all of it");
    assert!(body.frame().await.is_none());
}

/// A bucket of nine tokens of ten, which earns half a one with each success.
fn nine_tokens() -> Arc<dyn RetryThrottle> {
    let bucket = TokenBucket::new(10, 500).unwrap();
    bucket.settled(Settled::Failure(&Failure::new(
        reason::UNKNOWN,
        Stage::Response,
    )));
    Arc::new(bucket)
}

/// Leaves the verdict to the end of the body.
fn retries() -> RetryLayer<HttpClassifier> {
    RetryLayer::new(HttpClassifier::new().judge_bodies(), RetryOnce)
}

/// The bucket's tokens after one call with this body.
async fn tokens_after(use_body: impl AsyncFnOnce(Feed, OutcomeBody<Fed>)) -> u64 {
    let bucket = nine_tokens();
    let (feed, body) = fed();
    let body = Arc::new(std::sync::Mutex::new(Some(body)));
    let service = ServiceBuilder::new()
        .layer(ThrottleLayer::new(Arc::clone(&bucket)))
        .layer(retries())
        .layer(OutcomeBodyLayer::new())
        .service_fn(move |_: Request<()>| {
            let body = body.lock().unwrap().take().unwrap();
            async move { Ok::<_, BoxError>(Response::new(body)) }
        });
    let answer = service.oneshot(Request::new(())).await.unwrap();
    use_body(feed, answer.into_body()).await;
    bucket.milli_tokens().unwrap()
}

#[tokio::test]
async fn a_success_counts_at_the_bodys_clean_end_only() {
    let whole = tokens_after(async |feed: Feed, mut body: OutcomeBody<Fed>| {
        give(&feed, "part");
        text(&mut body).await;
        drop(feed);
        assert!(body.frame().await.is_none());
    });
    assert_eq!(whole.await, 9_500);
    let broken = tokens_after(async |feed: Feed, body: OutcomeBody<Fed>| {
        feed.send(Err("reset")).unwrap();
        assert!(body.collect().await.is_err());
    });
    assert_eq!(broken.await, 8_000);
    let dropped = tokens_after(async |feed: Feed, mut body: OutcomeBody<Fed>| {
        give(&feed, "part");
        text(&mut body).await;
    });
    assert_eq!(dropped.await, 9_000, "the caller dropped it: no result");
}

#[tokio::test]
async fn an_empty_answer_counts_without_being_read() {
    let bucket = nine_tokens();
    let service = ServiceBuilder::new()
        .layer(ThrottleLayer::new(Arc::clone(&bucket)))
        .layer(retries())
        .layer(OutcomeBodyLayer::new())
        .service_fn(|_: Request<()>| async {
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        });
    drop(service.oneshot(Request::new(())).await);
    assert_eq!(bucket.milli_tokens(), Some(9_500));
}

#[tokio::test]
async fn a_body_that_a_layer_below_the_retry_reads_counts() {
    let bucket = nine_tokens();
    let service = ServiceBuilder::new()
        .layer(ThrottleLayer::new(Arc::clone(&bucket)))
        .layer(retries())
        .and_then(async |response: Response<OutcomeBody<Full<Bytes>>>| {
            let read = response.into_body().collect().await;
            Ok::<_, Infallible>(Response::new(Full::new(read.unwrap().to_bytes())))
        })
        .layer(OutcomeBodyLayer::new())
        .service_fn(|_: Request<()>| async {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("whole"))))
        });
    drop(service.oneshot(Request::new(())).await);
    assert_eq!(bucket.milli_tokens(), Some(9_500));
}

/// A server that answers early with this status. After its first request it is no longer ready.
#[derive(Clone)]
struct Early(u16, bool);

impl Service<Request<ReplayBody<Fed>>> for Early {
    type Response = Response<ReplayBody<Fed>>;
    type Error = BoxError;
    type Future = Ready<Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(if self.1 { Err("gone".into()) } else { Ok(()) })
    }

    fn call(&mut self, request: Request<ReplayBody<Fed>>) -> Self::Future {
        self.1 = true;
        // The transport goes on sending.
        let response = Response::builder().status(self.0).body(request.into_body());
        ready(Ok(response.unwrap()))
    }
}

/// A server that answers early explains itself while it still reads the request, also where
/// another attempt was to follow and could not be sent.
#[tokio::test(start_paused = true)]
async fn the_request_of_the_returned_response_is_sent_to_its_end() {
    for (status, hedged) in [(403, false), (403, true), (503, false), (503, true)] {
        let (feed, body) = fed();
        let service = ServiceBuilder::new()
            .layer(ReplayBodyLayer::new())
            .option_layer((!hedged).then(|| RetryLayer::new(HttpClassifier::new(), RetryOnce)))
            .map_err(BoxError::from)
            .option_layer(hedged.then(|| {
                let policy = HedgePolicy::new(2, Duration::from_secs(1));
                HedgeLayer::new(HttpClassifier::new(), policy)
            }))
            .map_err(BoxError::from)
            .service(Early(status, false));
        let mut request = Request::put("http://h/").body(body).unwrap();
        // No layer ends the call at this deadline: a response is kept until the next attempt.
        let at = tokio::time::Instant::now().into_std() + Duration::from_secs(60);
        let context = request.context_mut();
        context.attach_deadline(CallDeadline::attached(at));
        let mut sent = service.oneshot(request).await.unwrap();
        assert_eq!(sent.status(), status);
        give(&feed, "the rest");
        let rest = text(sent.body_mut()).await;
        assert_eq!(rest, "the rest", "{status}, hedged: {hedged}");
    }
}

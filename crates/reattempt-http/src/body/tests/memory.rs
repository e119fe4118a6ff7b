//! What is buffered, for which copies, and how long (R51 to R53).

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use proptest::prelude::*;

use super::*;

/// "Memory Management": after the response head only the rest of the stream remains, and it is not
/// buffered.
#[tokio::test]
async fn a_released_template_frees_its_buffer_and_the_copy_streams_on() {
    let budget = BufferBudget::new(100);
    let (feed, body) = fed();
    let mut template = ReplayBody::with_limits(body, 50, Some(budget.clone()));
    let mut copy = template.replay(&NEXT).unwrap();
    give(&feed, "abc");
    assert_eq!(text(&mut copy).await, "abc");
    assert_eq!(budget.used(), 3);
    template.release();
    assert_eq!(budget.used(), 0);
    assert!(!template.can_replay(&NEXT) && template.replay(&NEXT).is_none());
    for _ in 0..100 {
        give(&feed, "more than the limit in all");
        text(&mut copy).await;
        assert_eq!(budget.used(), 0, "long-lived streams buffer nothing");
    }
}

/// The same if the call's future is kept after completion (as by `select!`), after a first attempt
/// and after a second.
#[tokio::test(start_paused = true)]
async fn an_answered_call_buffers_nothing_while_its_future_lives() {
    for status in [200, 503] {
        let budget = BufferBudget::new(100);
        let mut service = ServiceBuilder::new()
            .layer(ReplayBodyLayer::new().budget(budget.clone()))
            .layer(RetryLayer::new(
                HttpClassifier::new(),
                MaxAttempts::standard(),
            ))
            .service_fn(move |mut request: Request<ReplayBody<Fed>>| async move {
                text(request.body_mut()).await;
                let attempt = request.context().map_or(0, CallContext::attempt);
                let status = if attempt == 1 { status } else { 200 };
                Ok::<_, BoxError>(Response::builder().status(status).body(request).unwrap())
            });
        let (feed, body) = fed();
        give(&feed, "abc");
        let request = Request::put("/").body(body).unwrap();
        let mut call = Box::pin(service.ready().await.unwrap().call(request));
        let answer = call.as_mut().await.unwrap();
        assert_eq!(budget.used(), 0, "{status}");
        drop((call, answer));
    }
}

/// R51: a copy of an ended attempt that the transport still holds does not block the others.
#[tokio::test]
async fn a_copy_of_an_ended_attempt_ends_and_never_continues_alone() {
    let (feed, body) = fed();
    let template = ReplayBody::with_limits(body, 4, None);
    let mut dead = template.replay(&next(1)).unwrap();
    give(&feed, "abcd");
    assert_eq!(text(&mut dead).await, "abcd");
    let held = tokio::spawn(async move { dead.frame().await.unwrap().unwrap_err() });
    tokio::task::yield_now().await;
    template.attempt_over(1);
    assert!(matches!(held.await.unwrap(), ReplayBodyError::Abandoned));
    let alive = template.replay(&next(2)).unwrap();
    give(&feed, "what overflows");
    drop(feed);
    let all = alive.collect().await.unwrap().to_bytes();
    assert_eq!(all, "abcdwhat overflows");
}

struct CountedWakes(AtomicUsize);

impl Wake for CountedWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Yields empty frames forever, always ready.
struct Hollow(usize);

impl Body for Hollow {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0 += 1;
        assert!(self.0 < 1000, "other tasks never run");
        Poll::Ready(Some(Ok(Frame::data(Bytes::new()))))
    }
}

#[test]
fn empty_frames_neither_fill_memory_nor_block_the_thread() {
    let budget = BufferBudget::new(100);
    let template = ReplayBody::with_limits(Hollow(0), 10, Some(budget.clone()));
    let mut copy = template.replay(&NEXT).unwrap();
    let wakes = Arc::new(CountedWakes(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&wakes));
    let polled = Pin::new(&mut copy).poll_frame(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "it continues later");
    assert_eq!(budget.used(), 0);
    assert!(template.can_replay(&NEXT));
}

/// Trailers take more memory than their text.
#[tokio::test]
async fn trailers_without_end_do_not_fit_any_limit() {
    let budget = BufferBudget::new(100_000);
    let (feed, body) = fed();
    let template = ReplayBody::with_limits(body, 1000, Some(budget.clone()));
    let mut copy = template.replay(&NEXT).unwrap();
    for _ in 0..100 {
        feed.send(Ok(Frame::trailers(HeaderMap::new()))).unwrap();
        copy.frame().await.unwrap().unwrap();
    }
    assert!(!template.can_replay(&NEXT));
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn many_short_frames_are_replayed_in_few() {
    let (feed, body) = fed();
    let template = ReplayBody::new(body);
    let mut first = template.replay(&next(1)).unwrap();
    let mut sent = String::new();
    for n in 0..5000_u32 {
        let word = if n % 7 == 0 { "ab" } else { "c" };
        give(&feed, word);
        sent.push_str(&text(&mut first).await);
    }
    drop(feed);
    assert!(first.frame().await.is_none() && first.is_end_stream());
    let mut again = template.replay(&next(2)).unwrap();
    let hint = again.size_hint();
    assert_eq!(hint.lower(), sent.len() as u64);
    assert_eq!(hint.upper(), None, "a retry looks like the first attempt");
    let mut read = String::new();
    let mut frames = 0;
    while !again.is_end_stream() {
        let Some(frame) = again.frame().await else {
            break;
        };
        let data = frame.unwrap().into_data().unwrap();
        read.push_str(std::str::from_utf8(&data).unwrap());
        frames += 1;
    }
    assert_eq!(read, sent);
    assert!(frames < 20, "{frames} frames");
}

/// An event in the life of a body and its copies.
#[derive(Clone, Debug)]
enum Event {
    Feed(usize),
    FeedTrailers,
    End,
    Fail,
    Copy(u32),
    Read(usize),
    Drop(usize),
    Over(u32),
    Commit(usize),
    Release,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0_usize..4).prop_map(Event::Feed),
        2 => (400_usize..700).prop_map(Event::Feed),
        1 => Just(Event::FeedTrailers),
        1 => Just(Event::End),
        1 => Just(Event::Fail),
        3 => (1_u32..5).prop_map(Event::Copy),
        12 => (0_usize..6).prop_map(Event::Read),
        2 => (0_usize..6).prop_map(Event::Drop),
        1 => (1_u32..5).prop_map(Event::Over),
        1 => (0_usize..6).prop_map(Event::Commit),
        1 => Just(Event::Release),
    ]
}

/// A copy, and how many bytes of the stream it has received.
struct Reader {
    body: ReplayBody<Fed>,
    got: usize,
}

impl Reader {
    /// Reads what is available; each byte must be the stream's byte at that position.
    fn read(&mut self, most: usize) {
        let waker = Waker::noop();
        for _ in 0..most {
            let frame = Pin::new(&mut self.body).poll_frame(&mut Context::from_waker(waker));
            let Poll::Ready(Some(Ok(frame))) = frame else {
                break;
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            assert!(!data.is_empty());
            for byte in data {
                assert_eq!(byte, at(self.got));
                self.got += 1;
            }
        }
    }
}

/// The stream's byte at a position.
fn at(place: usize) -> u8 {
    (place % 251) as u8
}

proptest! {
    /// R51 to R53: whatever happens to a call and its attempts, the budget is respected and
    /// returned, and each copy receives exactly the stream from its first byte on.
    #[test]
    fn the_budget_comes_back_whatever_happens(events in prop::collection::vec(event(), 1..150), limit in 0_usize..6000) {
        let budget = BufferBudget::new(4000);
        let (feed, body) = fed();
        let mut feed = Some(feed);
        let mut fed = 0;
        let mut template = Some(ReplayBody::with_limits(body, limit, Some(budget.clone())));
        let mut copies: Vec<Reader> = Vec::new();
        for event in events {
            match (event, &feed) {
                (Event::Feed(length), Some(feed)) => {
                    let data: Vec<u8> = (fed..fed + length).map(at).collect();
                    fed += length;
                    let _ = feed.send(Ok(Frame::data(Bytes::from(data))));
                }
                (Event::FeedTrailers, Some(feed)) => {
                    let _ = feed.send(Ok(Frame::trailers(HeaderMap::new())));
                }
                (Event::Fail, Some(feed)) => {
                    let _ = feed.send(Err("broken"));
                }
                (Event::End, _) => feed = None,
                (Event::Copy(number), _) => {
                    let may = template.as_ref().map(|template| template.can_replay(&NEXT));
                    let copy = template.as_ref().and_then(|template| template.replay(&next(number)));
                    prop_assert_eq!(copy.is_some(), may.unwrap_or(false));
                    copies.extend(copy.map(|body| Reader { body, got: 0 }));
                }
                (Event::Read(at), _) => {
                    if let Some(copy) = copies.get_mut(at) {
                        copy.read(3);
                    }
                }
                (Event::Drop(at), _) => {
                    if at < copies.len() {
                        copies.remove(at);
                    }
                }
                (Event::Over(number), _) => {
                    if let Some(template) = &template {
                        template.attempt_over(number);
                    }
                }
                (Event::Commit(at), _) => {
                    if let Some(copy) = copies.get(at) {
                        copy.body.commit();
                    }
                }
                (Event::Release, _) => {
                    if let Some(template) = &mut template {
                        template.release();
                    }
                }
                (_, None) => {}
            }
            prop_assert!(budget.used() <= limit.min(4000));
        }
        drop(template);
        for copy in &mut copies {
            copy.read(usize::MAX);
        }
        let live = copies.len();
        if live <= 1 {
            prop_assert_eq!(budget.used(), 0, "no other copy needs it");
        }
        drop(copies);
        prop_assert_eq!(budget.used(), 0);
    }
}

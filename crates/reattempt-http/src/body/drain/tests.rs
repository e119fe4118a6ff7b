use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tower::{ServiceExt, service_fn};

use super::*;

/// Frames that a test sends. Records how many were read, and when it is dropped.
#[derive(Debug)]
struct Watched {
    frames: mpsc::UnboundedReceiver<Bytes>,
    announced: u64,
    seen: &'static Seen,
}

#[derive(Debug, Default)]
struct Seen {
    read: AtomicUsize,
    dropped: AtomicUsize,
}

impl Seen {
    fn new() -> &'static Self {
        Box::leak(Box::default())
    }

    fn read(&self) -> usize {
        self.read.load(Ordering::SeqCst)
    }

    fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.seen.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = ready!(self.frames.poll_recv(cx));
        if frame.is_some() {
            self.seen.read.fetch_add(1, Ordering::SeqCst);
        }
        Poll::Ready(frame.map(|data| Ok(Frame::data(data))))
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_lower(self.announced);
        hint
    }
}

fn body(announced: u64, seen: &'static Seen) -> (mpsc::UnboundedSender<Bytes>, Watched) {
    let (feed, frames) = mpsc::unbounded_channel();
    let body = Watched {
        frames,
        announced,
        seen,
    };
    (feed, body)
}

async fn answered(
    layer: &DrainBodyLayer,
    version: Version,
    body: Watched,
) -> Response<DrainBody<Watched>> {
    answered_with(503, layer, version, body).await
}

async fn answered_with(
    status: u16,
    layer: &DrainBodyLayer,
    version: Version,
    body: Watched,
) -> Response<DrainBody<Watched>> {
    let body = Mutex::new(Some(body));
    let service = layer.layer(service_fn(|_: Request<()>| async {
        let body = body.lock().unwrap().take().unwrap();
        let mut response = Response::new(body);
        *response.version_mut() = version;
        *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
        Ok::<_, Infallible>(response)
    }));
    service.oneshot(Request::new(())).await.unwrap()
}

/// Lets other tasks run until none is ready at this instant.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_body_is_read_to_its_end() {
    let seen = Seen::new();
    let (feed, body) = body(0, seen);
    let layer = DrainBodyLayer::new();
    drop(answered(&layer, Version::HTTP_11, body).await);
    for _ in 0..3 {
        feed.send(Bytes::from("some")).unwrap();
    }
    settle().await;
    assert_eq!((seen.read(), seen.dropped()), (3, 0), "more may come");
    drop(feed);
    settle().await;
    assert_eq!(seen.dropped(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_reader_sees_the_body_as_it_is_and_nothing_is_left_to_read() {
    let seen = Seen::new();
    let (feed, body) = body(4, seen);
    let layer = DrainBodyLayer::new();
    let answer = answered(&layer, Version::HTTP_11, body).await;
    assert_eq!(answer.body().size_hint().lower(), 4);
    feed.send(Bytes::from("some")).unwrap();
    drop(feed);
    assert_eq!(
        answer.into_body().collect().await.unwrap().to_bytes(),
        "some"
    );
    assert_eq!(seen.dropped(), 1);
}

#[tokio::test(start_paused = true)]
async fn it_ends_at_its_bounds() {
    let layer = DrainBodyLayer::new()
        .bytes(10)
        .within(Duration::from_millis(50));
    // Too many bytes arrive.
    let seen = Seen::new();
    let (feed, more) = body(0, seen);
    drop(answered(&layer, Version::HTTP_11, more).await);
    feed.send(Bytes::from("0123456789")).unwrap();
    settle().await;
    assert_eq!(seen.dropped(), 0, "exactly the limit is fine");
    feed.send(Bytes::from("0")).unwrap();
    settle().await;
    assert_eq!(seen.dropped(), 1);
    // More than the limit is announced.
    let seen = Seen::new();
    let (_feed, large) = body(11, seen);
    drop(answered(&layer, Version::HTTP_11, large).await);
    assert_eq!(seen.dropped(), 1, "at once");
    // It takes too long.
    let seen = Seen::new();
    let (_feed, slow) = body(0, seen);
    drop(answered(&layer, Version::HTTP_11, slow).await);
    tokio::time::sleep(Duration::from_millis(49)).await;
    assert_eq!(seen.dropped(), 0);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(seen.dropped(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_a_bounded_number_is_read_at_once() {
    let layer = DrainBodyLayer::new().at_once(2);
    let seen = Seen::new();
    let mut feeds = Vec::new();
    for _ in 0..3 {
        let (feed, body) = body(0, seen);
        feeds.push(feed);
        drop(answered(&layer, Version::HTTP_11, body).await);
    }
    assert_eq!(seen.dropped(), 1, "the third has no place");
    feeds.remove(0);
    settle().await;
    let (_feed, fourth) = body(0, seen);
    drop(answered(&layer, Version::HTTP_11, fourth).await);
    assert_eq!(seen.dropped(), 2, "the first, which freed a place");
}

/// HTTP/2 resets a single stream, and a successful response is dropped on purpose.
#[tokio::test(start_paused = true)]
async fn bodies_of_http2_and_of_good_answers_are_dropped_as_they_are() {
    let layer = DrainBodyLayer::new();
    for (status, version, dropped) in [
        (503, Version::HTTP_2, 1),
        (200, Version::HTTP_11, 1),
        (302, Version::HTTP_11, 0),
        (503, Version::HTTP_10, 0),
    ] {
        let seen = Seen::new();
        let (_feed, body) = body(0, seen);
        drop(answered_with(status, &layer, version, body).await);
        assert_eq!(seen.dropped(), dropped, "{status} {version:?}");
    }
}

#[test]
fn outside_of_a_runtime_it_is_dropped_as_it_is() {
    let seen = Seen::new();
    let (_feed, inner) = body(0, seen);
    drop(DrainBody {
        inner: Some(inner),
        rest: Some((rest::read, Bounds::default())),
    });
    assert_eq!(seen.dropped(), 1);
}

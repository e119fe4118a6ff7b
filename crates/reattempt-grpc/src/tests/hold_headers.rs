//! Holding headers for one frame, for servers that send failures in real trailers.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body as _, Frame};
use reattempt::{CallDeadline, HasCallContext};
use tower::{Layer, Service};

use super::*;

fn unary() -> Request<Full<Bytes>> {
    let mut request = request();
    request.extensions_mut().insert(Unary);
    request
}

/// R10, R20, R70: as if the server had sent Trailers-Only, but only for calls marked unary.
#[tokio::test(start_paused = true)]
async fn a_failure_in_real_trailers_is_retried_for_unary_calls() {
    let script = [Late(Code::Unavailable), Message(Code::Ok)];
    let (config, server) = (retrying(3, "14"), Server::new(script.clone()));
    let ended = call(&config, &server, unary()).await;
    assert_eq!((ended.code, &*ended.data), (Code::Ok, &b"message"[..]));
    assert_eq!(server.previous(), [None, Some("1".to_owned())]);
    assert_eq!(ended.head[PREVIOUS_ATTEMPTS], "1");
    assert_eq!(tokens(&config), Some(9_500), "one failure, one success");

    let (config, server) = (retrying(3, "14"), Server::new(script));
    let ended = call(&config, &server, request()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 1));
    assert_eq!(ended.info.stopped(), Some(StopReason::Committed));
    assert_eq!(tokens(&config), Some(9_000));
}

/// R10, R13: a code that is not retryable, and the last failure, are returned unchanged.
#[tokio::test(start_paused = true)]
async fn a_failure_that_is_final_keeps_its_status_and_its_metadata() {
    for (code, attempts, stopped) in [
        (Code::InvalidArgument, 1, StopReason::Fatal),
        (Code::Unavailable, 2, StopReason::Attempts),
    ] {
        let server = Server::new([Late(code)]);
        let ended = call(&retrying(2, "14"), &server, unary()).await;
        assert_eq!((ended.code, ended.info.attempts()), (code, attempts));
        assert_eq!(ended.info.stopped(), Some(stopped));
        assert_eq!(Code::from_header(&ended.head[GRPC_STATUS]), code);
        assert!(ended.data.is_empty());
    }
}

/// R30, R31
#[tokio::test(start_paused = true)]
async fn pushback_in_real_trailers_is_the_servers_word_too() {
    let server = Server::new([LatePushback(Code::Unavailable, "700"), Late(Code::Ok)]);
    let ended = call(&retrying(2, "14"), &server, unary()).await;
    assert_eq!((ended.code, server.times()), (Code::Ok, vec![0, 700]));
    let server = Server::new([LatePushback(Code::Unavailable, "-1")]);
    let ended = call(&retrying(2, "14"), &server, unary()).await;
    assert_eq!(ended.info.stopped(), Some(StopReason::Pushback));
}

/// R36: initial metadata has none.
#[tokio::test(start_paused = true)]
async fn pushback_in_the_headers_counts_as_little_as_ever() {
    let server = Server::new([EarlyPushback(Code::Unavailable, "-1"), Late(Code::Ok)]);
    let ended = call(&retrying(2, "14"), &server, unary()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Ok, 2));
}

#[tokio::test(start_paused = true)]
async fn headers_are_held_to_the_bound_and_no_longer() {
    for (after, attempts, code) in [
        (100, 2, Code::Ok),
        (101, 1, Code::Unavailable),
        (5_000, 1, Code::Unavailable),
    ] {
        let server = Server::new([Later(after, Code::Unavailable), Message(Code::Ok)]);
        let ended = call(&retrying(2, "14"), &server, unary()).await;
        assert_eq!(
            (ended.info.attempts(), ended.code),
            (attempts, code),
            "{after}"
        );
    }
}

/// R41: a hedge whose headers are held has not committed the call yet.
#[tokio::test(start_paused = true)]
async fn hedges_go_on_while_headers_are_held() {
    let server = Server::new([Later(60, Code::Unavailable), Hangs, Message(Code::Ok)]);
    let ended = call(&hedging(3, "0.02s", "14"), &server, unary()).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Ok, 3));
    assert_eq!(server.times(), [0, 20, 40]);
}

/// R21, R23: a response that is released is counted at the end of its body, as without the layer.
#[tokio::test(start_paused = true)]
async fn answers_that_go_on_count_as_ever() {
    for (step, code, left) in [
        (Late(Code::Ok), Code::Ok, 9_500),
        (Message(Code::Ok), Code::Ok, 9_500),
        (Message(Code::Unavailable), Code::Unavailable, 8_000),
        (Breaks(None), Code::Internal, 9_000),
        (
            Breaks(Some(TransportFault::ConnectionReset)),
            Code::Internal,
            8_000,
        ),
    ] {
        let config = retrying(2, "14");
        let bucket = config.throttle().unwrap();
        let failure = Failure::new(reasons::GRPC_UNAVAILABLE, Stage::Response);
        bucket.settled(reattempt::throttle::Settled::Failure(&failure));
        let ended = call(&config, &Server::new([step.clone()]), unary()).await;
        assert_eq!(ended.info.attempts(), 1);
        let found = (ended.code, tokens(&config));
        assert_eq!(found, (code, Some(left)), "{:?}", ended.info);
    }
}

/// R14
#[tokio::test(start_paused = true)]
async fn the_deadline_comes_before_the_bound() {
    let server = Server::new([HangsInBody]);
    let ended = call(&config(r#""timeout":"0.05s""#), &server, unary()).await;
    assert_eq!((ended.code, ended.at_ms), (Code::DeadlineExceeded, 50));
}

/// A body of these frames, with a delay between them; it counts the frames that were polled.
struct Frames {
    left: Vec<Frame<Bytes>>,
    for_ever: bool,
    asked: Arc<AtomicUsize>,
}

impl Frames {
    fn for_ever() -> Self {
        Self {
            left: Vec::new(),
            for_ever: true,
            asked: Arc::default(),
        }
    }
}

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.for_ever {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::new()))));
        }
        Poll::Ready(self.left.pop().map(Ok))
    }
}

/// One held response, directly from the layer.
async fn held(
    layer: HoldHeadersLayer,
    request: Request<()>,
    body: Frames,
) -> Response<HeldBody<Frames>> {
    let mut body = Some(body);
    let service = tower::service_fn(move |_: Request<()>| {
        let body = body.take().unwrap();
        async move { Ok::<_, Infallible>(Response::new(body)) }
    });
    match layer.layer(service).call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

fn marked() -> Request<()> {
    let mut request = Request::post("http://h/shop.Cart/Add").body(()).unwrap();
    request.extensions_mut().insert(Unary);
    request
}

/// No timer is armed for a frame that is ready, and only one frame is read: this runtime has no
/// timers.
#[test]
fn one_frame_is_kept_and_it_comes_out_first() {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        let asked = Arc::new(AtomicUsize::new(0));
        let frame = |text| Frame::data(Bytes::from_static(text));
        let body = Frames {
            left: vec![frame(b"two"), frame(b"one"), frame(b"")],
            for_ever: false,
            asked: Arc::clone(&asked),
        };
        let response = held(HoldHeadersLayer::new(), marked(), body).await;
        let mut body = response.into_body();
        let asked = asked.load(Ordering::Relaxed);
        assert_eq!(asked, 2, "the empty frame is skipped");
        assert_eq!(body.size_hint().lower(), 3);
        assert!(!body.is_end_stream());
        for expected in ["one", "two"] {
            let frame = body.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), expected);
        }
        assert!(body.frame().await.is_none());
    });
}

#[tokio::test(start_paused = true)]
async fn frames_without_content_are_not_waited_for_beyond_the_bound() {
    let began = Instant::now();
    let call = held(HoldHeadersLayer::new(), marked(), Frames::for_ever());
    // Paused time advances only while the runtime is idle, which never happens here.
    let clock = async {
        for _ in 0..20 {
            tokio::time::advance(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        biased;
        _ = call => {}
        () = clock => {}
    }
    assert_eq!(began.elapsed(), Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn methods_can_be_named_and_an_attached_deadline_counts() {
    let layer = HoldHeadersLayer::new().methods(|path| path == "/shop.Cart/Add");
    for (path, limit, asked) in [
        ("/shop.Cart/Add", None, true),
        ("/shop.Cart/Watch", None, false),
        ("/shop.Cart/Add", Some(Duration::ZERO), true),
    ] {
        let body = Frames::for_ever();
        let seen = Arc::clone(&body.asked);
        let mut request = Request::post(format!("http://h{path}")).body(()).unwrap();
        if let Some(limit) = limit {
            let at = Instant::now() + limit;
            let limit = CallDeadline::attached(at.into_std());
            request.context_mut().attach_deadline(limit);
        }
        let call = held(layer.clone(), request, body);
        let polled = tokio_poll(call).await;
        assert_eq!(polled.is_ready(), !asked || limit.is_some(), "{path}");
        assert_eq!(seen.load(Ordering::Relaxed) > 0, asked, "{path}");
    }
}

/// Polls once.
async fn tokio_poll<F: Future>(future: F) -> Poll<F::Output> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

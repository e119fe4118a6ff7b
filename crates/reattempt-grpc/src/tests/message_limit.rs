//! Limits on the length of messages (`maxRequestMessageBytes`, `maxResponseMessageBytes`).

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body as _, Frame};
use reattempt::backends::Backends;
use reattempt::health::HealthPolicy;
use reattempt_http::body::BufferBudget;
use tokio::sync::mpsc;
use tower::BoxError;
use tower::util::BoxService;

use super::*;

type Limited = ReplayBody<LimitedRequestBody<ChannelBody>>;
type FrameSender = mpsc::UnboundedSender<Frame<Bytes>>;

/// A body whose frames are sent through a channel.
struct ChannelBody(mpsc::UnboundedReceiver<Frame<Bytes>>);

impl http_body::Body for ChannelBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|frame| frame.map(Ok))
    }
}

fn channel_body() -> (FrameSender, ChannelBody) {
    let (sender, body) = mpsc::unbounded_channel();
    (sender, ChannelBody(body))
}

/// A message of this many bytes, with its prefix.
fn message(length: usize) -> Bytes {
    let mut bytes = vec![0];
    bytes.extend((length as u32).to_be_bytes());
    bytes.extend(std::iter::repeat_n(b'm', length));
    bytes.into()
}

fn say(sender: &FrameSender, length: usize) {
    sender.send(Frame::data(message(length))).unwrap();
}

fn finish(sender: FrameSender, code: Code) {
    let mut trailers = HeaderMap::new();
    trailers.insert(GRPC_STATUS, code.number().into());
    sender.send(Frame::trailers(trailers)).unwrap();
}

/// A connection: what each attempt received and how it ended. It reads a request on a task of its
/// own, like hyper.
#[derive(Clone, Default)]
struct Wire {
    received: Arc<Mutex<Vec<(usize, bool)>>>,
    attempts: Arc<AtomicUsize>,
}

impl Wire {
    /// Bytes received, and whether the request was reset, per attempt.
    async fn received(&self) -> Vec<(usize, bool)> {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        self.received.lock().unwrap().clone()
    }

    fn read(&self, mut body: Limited, cancelled: tokio::sync::oneshot::Receiver<()>) {
        let received = Arc::clone(&self.received);
        let at = self.attempts.fetch_add(1, Ordering::Relaxed);
        received.lock().unwrap().push((0, false));
        tokio::spawn(async move {
            let read = async {
                while let Some(frame) = body.frame().await {
                    let mut received = received.lock().unwrap();
                    match frame {
                        Ok(frame) => received[at].0 += frame.data_ref().map_or(0, Bytes::len),
                        Err(_) => received[at].1 = true,
                    }
                }
                std::future::pending::<()>().await;
            };
            // Dropped without a response, as hyper does for a call whose receiver is gone.
            tokio::select! {
                () = read => {}
                Err(_) = cancelled => received.lock().unwrap()[at].1 = true,
            }
        });
    }
}

/// A channel to a server that responds with this body, at once or never.
fn channel(
    config: &ServiceConfig,
    limits: MessageLimitLayer,
    wire: &Wire,
    budget: &BufferBudget,
    answer: Option<ChannelBody>,
) -> BoxService<
    Request<ChannelBody>,
    Response<LimitedResponseBody<GrpcOutcomeBody<ChannelBody>>>,
    BoxError,
> {
    let answer = Arc::new(Mutex::new(answer));
    let wire = wire.clone();
    let service = ServiceBuilder::new()
        .layer(RouteLayer::new(config.clone()))
        .layer(limits)
        .layer(ReplayBodyLayer::new().budget(budget.clone()))
        .layer(standard())
        .layer(HedgeLayer::by_policy(GrpcClassifier::new()))
        .layer(GrpcOutcomeLayer::new())
        .service_fn(move |request: Request<Limited>| {
            let (answered, cancelled) = tokio::sync::oneshot::channel();
            wire.read(request.into_body(), cancelled);
            let answer = answer.lock().unwrap().take();
            async move {
                let Some(answer) = answer else {
                    let _held = answered;
                    return std::future::pending().await;
                };
                let _ = answered.send(());
                Ok::<_, BoxError>(Response::new(answer))
            }
        });
    BoxService::new(service)
}

fn begin(body: ChannelBody) -> (Request<ChannelBody>, reattempt::RetryInfoHandle) {
    let mut request = Request::post("http://h/shop.Cart/Add").body(body).unwrap();
    let watch = RetryInfo::track(&mut request);
    (request, watch)
}

fn code_of(headers: &HeaderMap) -> Option<Code> {
    headers.get(GRPC_STATUS).map(Code::from_header)
}

fn limits(request: u64, response: u64) -> ServiceConfig {
    config(&format!(
        r#""maxRequestMessageBytes":{request},"maxResponseMessageBytes":{response},
        "retryPolicy":{{"maxAttempts":3,"initialBackoff":"0.1s","maxBackoff":"1s","backoffMultiplier":2,
        "retryableStatusCodes":["RESOURCE_EXHAUSTED","UNAVAILABLE","CANCELLED","INTERNAL"]}}"#
    ))
}

/// A call within limits of 100 bytes, to a server whose response begins at once.
struct Exchange {
    sender: FrameSender,
    server: FrameSender,
    config: ServiceConfig,
    wire: Wire,
    watch: reattempt::RetryInfoHandle,
}

impl Exchange {
    async fn begin() -> (Self, LimitedResponseBody<GrpcOutcomeBody<ChannelBody>>) {
        let (wire, budget) = (Wire::default(), BufferBudget::default());
        let (sender, body) = channel_body();
        let (server, answer) = channel_body();
        let (config, layer) = (limits(100, 100), MessageLimitLayer::new());
        let (request, watch) = begin(body);
        let channel = channel(&config, layer, &wire, &budget, Some(answer));
        let body = channel.oneshot(request).await.unwrap().into_body();
        let exchange = Self {
            sender,
            server,
            config,
            wire,
            watch,
        };
        (exchange, body)
    }

    fn milli_tokens(&self) -> Option<u64> {
        self.config.throttle().unwrap().milli_tokens()
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_message_that_is_too_long_ends_the_call_unsent() {
    let layer = MessageLimitLayer::new;
    for (config, layer, length, limit) in [
        (limits(100, 5), layer(), 101, Some(100)),
        (limits(100, 5), layer(), 100, None),
        (limits(100, 5), layer().request(99), 100, Some(99)),
        (limits(100, 5), layer().request(101), 101, Some(100)),
        (limits(0, 5), layer(), 1, Some(0)),
        (limits(0, 5), layer(), 0, None),
        (retrying(3, "8"), layer(), 101, None),
    ] {
        let (wire, budget) = (Wire::default(), BufferBudget::default());
        let (sender, body) = channel_body();
        let (server, answer) = channel_body();
        finish(server, Code::Ok);
        let answer = limit.is_none().then_some(answer);
        say(&sender, length);
        drop(sender);
        let (request, watch) = begin(body);
        let channel = channel(&config, layer, &wire, &budget, answer);
        let answer = channel.oneshot(request).await.unwrap();
        let too_long = answer.extensions().get::<MessageTooLong>();
        assert_eq!(too_long.map(|too_long| too_long.limit), limit, "{length}");
        assert_eq!(watch.info().attempts(), 1);
        if let Some(limit) = limit {
            assert_eq!(code_of(answer.headers()), Some(Code::ResourceExhausted));
            let said =
                format!("a request message has {length} bytes, and at most {limit} are allowed");
            assert_eq!(answer.headers()[GRPC_MESSAGE], said);
            assert_eq!(watch.info().stopped(), Some(StopReason::Fatal));
            assert_eq!(
                wire.received().await,
                [(0, true)],
                "nothing of it, and a reset"
            );
        } else {
            assert_eq!(wire.received().await, [(length + 5, false)]);
        }
        assert_eq!(config.throttle().unwrap().milli_tokens(), Some(10_000));
        drop(answer);
        assert_eq!(budget.used(), 0);
    }
}

/// "Nothing of it is sent on": also if its prefix arrives in pieces, after other messages.
#[tokio::test(start_paused = true)]
async fn of_a_stream_the_messages_before_it_are_sent() {
    let (wire, budget) = (Wire::default(), BufferBudget::default());
    let (sender, body) = channel_body();
    let config = limits(100, 100);
    let (request, _watch) = begin(body);
    let call = tokio::spawn(
        channel(&config, MessageLimitLayer::new(), &wire, &budget, None).oneshot(request),
    );
    say(&sender, 50);
    assert_eq!(wire.received().await, [(55, false)]);
    for byte in message(101) {
        sender.send(Frame::data(vec![byte].into())).unwrap();
    }
    let answer = call.await.unwrap().unwrap();
    assert_eq!(code_of(answer.headers()), Some(Code::ResourceExhausted));
    assert_eq!(wire.received().await, [(55, true)]);
}

/// All hedges of the call are cancelled.
#[tokio::test(start_paused = true)]
async fn all_hedges_end_with_the_call() {
    let (wire, budget) = (Wire::default(), BufferBudget::default());
    let (sender, body) = channel_body();
    let config = config(
        r#""maxRequestMessageBytes":100,"hedgingPolicy":{"maxAttempts":3,"nonFatalStatusCodes":[8,14]}"#,
    );
    let (request, watch) = begin(body);
    let call = tokio::spawn(
        channel(&config, MessageLimitLayer::new(), &wire, &budget, None).oneshot(request),
    );
    say(&sender, 50);
    assert_eq!(wire.received().await, [(55, false); 3]);
    say(&sender, 101);
    let answer = call.await.unwrap().unwrap();
    assert_eq!(code_of(answer.headers()), Some(Code::ResourceExhausted));
    assert_eq!(wire.received().await, [(55, true); 3]);
    assert_eq!((watch.info().attempts(), budget.used()), (3, 0));
}

/// After response headers, the stream ends with the status in trailers.
#[tokio::test(start_paused = true)]
async fn a_request_message_that_is_too_long_ends_an_open_response() {
    let (call, mut body) = Exchange::begin().await;
    let reader = tokio::spawn(async move {
        let first = body.frame().await.unwrap().unwrap();
        let last = body.frame().await.unwrap().unwrap();
        assert!(body.frame().await.is_none());
        (first.into_data().unwrap(), last.into_trailers().unwrap())
    });
    say(&call.server, 3);
    tokio::task::yield_now().await;
    say(&call.sender, 101);
    let (first, last) = reader.await.unwrap();
    assert_eq!(
        (first.len(), code_of(&last)),
        (8, Some(Code::ResourceExhausted))
    );
    assert!(call.server.is_closed(), "the stream is dropped at once");
    assert_eq!(call.wire.received().await, [(0, true)]);
    assert_eq!(call.watch.info().attempts(), 1);
    assert_eq!(call.milli_tokens(), Some(10_000));
}

/// Who feeds the body learns of it, also if no one reads the response at that time.
#[tokio::test(start_paused = true)]
async fn a_body_with_a_message_that_is_too_long_is_read_no_further() {
    let (call, mut body) = Exchange::begin().await;
    say(&call.sender, 101);
    call.sender.closed().await;
    let received = call.wire.received().await;
    assert_eq!(received, [(0, false)], "until the call ends");
    let last = body.frame().await.unwrap().unwrap();
    let last = last.into_trailers().unwrap();
    assert_eq!(code_of(&last), Some(Code::ResourceExhausted));
    assert_eq!(call.wire.received().await, [(0, true)]);
}

/// R14: each empty frame ends a poll, so that a deadline above is checked between them.
#[tokio::test(start_paused = true)]
async fn empty_frames_of_a_response_pass_one_by_one() {
    let (call, mut body) = Exchange::begin().await;
    for frame in [&b""[..], &[0, 0], b"", &[0, 0, 0], b""] {
        let frame = Frame::data(Bytes::from_static(frame));
        call.server.send(frame).unwrap();
    }
    finish(call.server, Code::Ok);
    for length in [0, 0, 2, 3, 0] {
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.data_ref().map(Bytes::len), Some(length));
    }
    assert!(body.frame().await.unwrap().unwrap().is_trailers());
}

/// The messages before it are delivered, no byte of it is; the call is not retried although its
/// code is retryable.
#[tokio::test(start_paused = true)]
async fn a_response_message_that_is_too_long_cancels_the_stream() {
    for whole in [true, false] {
        let (call, body) = Exchange::begin().await;
        let bytes = [message(100), message(101)].concat();
        for bytes in bytes.chunks(if whole { bytes.len() } else { 1 }) {
            let frame = Frame::data(bytes.to_vec().into());
            call.server.send(frame).unwrap();
        }
        let end = body.collect().await.unwrap();
        let trailers = end.trailers().unwrap();
        assert_eq!(code_of(trailers), Some(Code::ResourceExhausted));
        let said = "a response message has 101 bytes, and at most 100 are allowed";
        assert_eq!(trailers[GRPC_MESSAGE], said);
        assert_eq!(end.to_bytes(), message(100), "{whole}");
        assert!(call.server.is_closed());
        let received = call.wire.received().await;
        assert_eq!(received, [(0, true)], "the request ends too");
        assert_eq!(call.watch.info().attempts(), 1);
        assert_eq!(call.milli_tokens(), Some(10_000));
    }
}

/// A server may send messages after a head that has the status already or says that there are none,
/// and a reader may read them: tonic does.
#[tokio::test]
async fn no_head_switches_the_limit_off() {
    let html = Bytes::from(vec![b'<'; 105]);
    for (name, value, sent, passes) in [
        ("grpc-status", "0", message(100), false),
        ("content-type", "application/grpc", message(100), false),
        ("content-type", "text/html", message(100), false),
        ("content-type", "text/html", html, true),
    ] {
        let service = ServiceBuilder::new()
            .layer(MessageLimitLayer::new().response(5))
            .service_fn(|_: Request<LimitedRequestBody<ChannelBody>>| async {
                let (server, body) = channel_body();
                server.send(Frame::data(sent.clone())).unwrap();
                finish(server, Code::Ok);
                let mut response = Response::new(body);
                response.headers_mut().insert(name, value.parse().unwrap());
                Ok::<_, Infallible>(response)
            });
        let (_sender, body) = channel_body();
        let response = service.oneshot(Request::new(body)).await.unwrap();
        let end = response.into_body().collect().await.unwrap();
        let ended = end.trailers().and_then(code_of);
        let expected = [Code::ResourceExhausted, Code::Ok][usize::from(passes)];
        assert_eq!(ended, Some(expected), "{name}: {value}");
        assert_eq!(
            end.to_bytes().len(),
            if passes { 105 } else { 0 },
            "{value}"
        );
    }
}

/// Within the limits nothing changes: bytes, trailers, counts, and the request's half of the
/// stream.
#[tokio::test(start_paused = true)]
async fn messages_within_the_limits_pass_unchanged() {
    let (call, body) = Exchange::begin().await;
    let failure = Failure::new(reasons::GRPC_UNAVAILABLE, Stage::Response);
    let bucket = call.config.throttle().unwrap();
    bucket.settled(Settled::Failure(&failure));
    for length in [0, 100, 7] {
        say(&call.server, length);
        say(&call.sender, length);
    }
    // An incomplete prefix is passed on to the reader.
    let prefix = Frame::data(Bytes::from_static(b"\0\0"));
    call.server.send(prefix).unwrap();
    finish(call.server, Code::Ok);
    let end = body.collect().await.unwrap();
    assert_eq!(end.trailers().and_then(code_of), Some(Code::Ok));
    assert_eq!(end.to_bytes().len(), 3 * 5 + 107 + 2);
    assert_eq!(bucket.milli_tokens(), Some(9_500));
    assert_eq!(call.wire.received().await, [(3 * 5 + 107, false)]);
}

/// A response that the caller drops ends the request too, even if the transport would continue it.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_dropped_ends_its_request() {
    let (call, body) = Exchange::begin().await;
    say(&call.sender, 50);
    assert_eq!(call.wire.received().await, [(55, false)]);
    drop(body);
    assert_eq!(call.wire.received().await, [(55, true)]);
}

/// The limits around a transport that keeps the body of its request.
async fn body_of(
    answer: ChannelBody,
) -> (
    FrameSender,
    LimitedRequestBody<ChannelBody>,
    Response<LimitedResponseBody<ChannelBody>>,
) {
    let (keep, mut kept) = mpsc::unbounded_channel();
    let mut answer = Some(answer);
    let service = ServiceBuilder::new()
        .layer(MessageLimitLayer::new().request(3))
        .service_fn(move |request: Request<LimitedRequestBody<ChannelBody>>| {
            keep.send(request.into_body()).unwrap();
            let answer = answer.take().unwrap();
            async { Ok::<_, Infallible>(Response::new(answer)) }
        });
    let (sender, body) = channel_body();
    let response = service.oneshot(Request::new(body)).await.unwrap();
    (sender, kept.recv().await.unwrap(), response)
}

/// hyper resets the stream with the code that it finds among the sources of the error.
#[tokio::test]
async fn a_dropped_call_ends_its_request_as_cancelled() {
    let (_server, answer) = channel_body();
    let (_sender, mut body, response) = body_of(answer).await;
    drop(response);
    let error = body.frame().await.unwrap().unwrap_err();
    assert!(error.is::<reattempt_http::CallOver>(), "{error}");
}

#[tokio::test]
async fn a_long_message_after_the_response_ends_the_request() {
    for before in [true, false] {
        let (server, answer) = channel_body();
        let (sender, mut body, response) = body_of(answer).await;
        if before {
            say(&sender, 5);
            let polled = std::future::poll_fn(|cx| {
                Poll::Ready(Pin::new(&mut body).poll_frame(cx).is_pending())
            });
            assert!(polled.await, "the call ends first");
        }
        finish(server, Code::Ok);
        drop(response.into_body().collect().await.unwrap());
        if !before {
            say(&sender, 5);
        }
        assert!(body.frame().await.unwrap().is_err(), "{before}");
    }
}

/// The server is not to blame that it was silent until then.
#[tokio::test(start_paused = true)]
async fn a_message_too_long_after_a_silence_ejects_no_backend() {
    let silent = service_fn(|request: Request<Limited>| async move {
        request.into_body().collect().await?;
        Ok::<_, BoxError>(Response::new(empty()))
    });
    let policy = HealthPolicy::standard().consecutive_failures(1);
    let backends = Backends::new(
        [("one", silent)],
        policy.max_ejection_percent(100),
        GrpcClassifier::new(),
    );
    let client = ServiceBuilder::new()
        .layer(MessageLimitLayer::new().request(4))
        .layer(ReplayBodyLayer::new())
        .layer(standard())
        .service(backends.clone());
    for (messages, is_ejected) in [([4, 5], false), ([4, 4], true)] {
        let (sender, body) = channel_body();
        let call = client.clone().oneshot(Request::new(body));
        let call = tokio::time::timeout(Duration::from_secs(20), call);
        let speaks = async {
            for length in messages {
                say(&sender, length);
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
        };
        let (ended, ()) = tokio::join!(call, speaks);
        assert_eq!(ended.is_err(), is_ejected);
        assert_eq!(
            backends.status()[0].1.is_ejected(),
            is_ejected,
            "{messages:?}"
        );
    }
}

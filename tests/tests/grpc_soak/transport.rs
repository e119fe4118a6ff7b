//! The server and the way to it, in memory: does what the fate of each attempt says, and tells the ledger.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use reattempt::{Annotated, Backend, CallContext, DeadlineScope, Elapsed};
use reattempt_http::body::{ReplayBody, ReplayBodyError};
use reattempt_http::{TransportError, TransportFault};
use tokio::time::{Instant, Sleep};
use tower::Service;

use super::fate::{Answer, Chances, End, Fate, Pushback, Reads, Stream, Weather};
use super::ledger::{Got, Ledger, Unseen};
use super::upload::{Live, Upload};
use super::{BYTES_PER_CALL, CALLERS};

/// A transport error that says what went wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broken {
    pub(crate) fault: TransportFault,
    pub(crate) attempt: u32,
}

impl TransportError for Broken {
    fn fault(&self) -> TransportFault {
        self.fault
    }
}

/// On each answer: which attempt it is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfAttempt(pub(crate) u32);

/// All that is alive.
#[derive(Debug, Default)]
pub(crate) struct Alive {
    pub(crate) uploads: Arc<AtomicI64>,
    pub(crate) attempts: Arc<AtomicI64>,
    pub(crate) answers: Arc<AtomicI64>,
    pub(crate) contexts: Arc<AtomicI64>,
}

/// What all calls share.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) alive: Alive,
    /// Each is kept by the block of the call that it belongs to, and by nobody else.
    pub(crate) backends: Mutex<Vec<Weak<str>>>,
    fates: Mutex<Vec<Option<(SmallRng, Chances)>>>,
    began: Instant,
}

impl World {
    pub(crate) fn new(ledger: Ledger) -> Arc<Self> {
        Arc::new(Self {
            ledger: Mutex::new(ledger),
            alive: Alive::default(),
            backends: Mutex::default(),
            fates: Mutex::new(vec![None; CALLERS as usize]),
            began: Instant::now(),
        })
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Once an assertion has failed the others end without a word, so that the first one can be read.
        let Ok(ledger) = self.ledger.lock() else {
            std::panic::resume_unwind(Box::new("the ledger is closed"));
        };
        ledger
    }

    fn of_caller<T>(
        &self,
        id: u32,
        change: impl FnOnce(&mut Option<(SmallRng, Chances)>) -> T,
    ) -> T {
        let mut fates = self.fates.lock().expect("nobody panics with it");
        change(&mut fates[(id % CALLERS) as usize])
    }

    /// The fates of a call's attempts come from this seed.
    pub(crate) fn begins(&self, id: u32, seed: u64, chances: Chances) {
        let rng = SmallRng::seed_from_u64(seed);
        self.of_caller(id, |fates| *fates = Some((rng, chances)));
    }

    fn fate(&self, id: u32) -> Fate {
        let weather = Weather::at(self.began.elapsed());
        self.of_caller(id, |fates| {
            let (rng, chances) = fates.as_mut().expect("the call is on");
            Fate::draw(rng, weather, *chances)
        })
    }

    fn sends<B>(&self, request: &Request<B>) -> (u32, u32) {
        let number = |name| {
            let value = request.headers().get_all(name).iter().collect::<Vec<_>>();
            assert!(value.len() < 2, "{name} twice");
            value
                .first()
                .map(|value| value.to_str().unwrap().parse().unwrap())
        };
        let id = number("x-call").expect("its number");
        let previous = number("grpc-previous-rpc-attempts");
        let context = request.context().expect("the stack's own");
        let kind = context.kind();
        let now = Instant::now();
        let attempt = self.ledger().sends(id, kind, previous, now);
        assert_eq!(attempt, context.attempt());
        // Half of the calls keep a log, and with it this name; the others' blocks are used again.
        if id % 2 == 0 {
            let name: Arc<str> = Arc::from("backend");
            let weak = Arc::downgrade(&name);
            let mut backends = self.backends.lock().expect("whole");
            backends.push(weak);
            if backends.len() > 4096 {
                backends.retain(|name| name.strong_count() > 0);
            }
            context.reporter().backend(Backend::new(name));
        }
        (id, attempt)
    }
}

/// One attempt, which goes out now; its head comes later.
pub(crate) fn attempt(
    world: Arc<World>,
    request: Request<ReplayBody<Upload>>,
) -> impl Future<Output = Result<Response<ServerBody>, Broken>> + Send {
    let live = Live::one_of(&world.alive.attempts);
    let (id, attempt) = world.sends(&request);
    let fate = world.fate(id);
    async move {
        let _live = live;
        answer(world, id, attempt, fate, request.into_body()).await
    }
}

/// Until the head of the answer.
async fn answer(
    world: Arc<World>,
    id: u32,
    attempt: u32,
    fate: Fate,
    mut upload: ReplayBody<Upload>,
) -> Result<Response<ServerBody>, Broken> {
    let answers = |got| {
        let now = Instant::now();
        world.ledger().answered(id, attempt, got, now);
    };
    let breaks = |fault| Broken { fault, attempt };
    if let Err(error) = read(&world, id, &mut upload, fate.reads).await {
        let (got, fault) = match error {
            ReplayBodyError::Body(_) => (Got::RequestFailed, TransportFault::RequestFailed),
            ReplayBodyError::Abandoned => (Got::Abandoned, TransportFault::Abandoned),
        };
        answers(got);
        return Err(breaks(fault));
    }
    if !fate.takes.is_zero() {
        tokio::time::sleep(fate.takes).await;
    }
    let failed = |code: i32, pushback: Pushback, unseen| Got::Failed {
        code: known(code),
        word: pushback.means,
        unseen,
    };
    let mut response = Response::new(ServerBody::default());
    response.extensions_mut().insert(OfAttempt(attempt));
    match fate.answer {
        Answer::TrailersOnly(code, pushback) => {
            *response.headers_mut() = trailers(code, pushback);
            answers(if code == 0 {
                Got::Ok
            } else {
                failed(code, pushback, Unseen::No)
            });
        }
        Answer::Http(status) => {
            *response.status_mut() = status.try_into().expect("a status");
            answers(failed(
                of_http(status),
                super::fate::NO_PUSHBACK,
                Unseen::No,
            ));
        }
        Answer::Fault(fault) => {
            let (code, unseen) = of_fault(fault);
            answers(failed(code, super::fate::NO_PUSHBACK, unseen));
            return Err(breaks(fault));
        }
        Answer::Stream(stream) => {
            answers(Got::Headers);
            *response.body_mut() = ServerBody {
                going: Some(Going {
                    _live: Live::one_of(&world.alive.answers),
                    world,
                    id,
                    attempt,
                    stream,
                    upload: stream.reads_on.then_some(upload),
                    pause: None,
                }),
            };
        }
        Answer::Silence => std::future::pending().await,
    }
    Ok(response)
}

async fn read(
    world: &World,
    id: u32,
    upload: &mut ReplayBody<Upload>,
    reads: Reads,
) -> Result<(), ReplayBodyError> {
    let most = match reads {
        Reads::Frames(most) => most,
        Reads::Everything => u32::MAX,
    };
    let mut bytes = 0;
    for _ in 0..most {
        let Some(frame) = upload.frame().await else {
            break;
        };
        bytes += frame?.data_ref().map_or(0, Bytes::len);
        world.ledger().read(id, bytes, BYTES_PER_CALL);
    }
    Ok(())
}

fn trailers(code: i32, pushback: Pushback) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(code));
    for value in pushback.values {
        let value = HeaderValue::from_static(value);
        trailers.append("grpc-retry-pushback-ms", value);
    }
    trailers
}

/// What is no code means UNKNOWN.
pub(crate) fn known(code: i32) -> i32 {
    if (0..=16).contains(&code) { code } else { 2 }
}

/// "HTTP to gRPC Status Code Mapping".
fn of_http(status: u16) -> i32 {
    match status {
        400 => 13,
        401 => 16,
        404 => 12,
        503 => 14,
        _ => 2,
    }
}

/// "Errors" of gRPC over HTTP/2, and A6, Transparent Retries.
fn of_fault(fault: TransportFault) -> (i32, Unseen) {
    match fault {
        TransportFault::ConnectFailed | TransportFault::NeverSent => (14, Unseen::NeverSent),
        TransportFault::StreamRefused => (14, Unseen::Once),
        TransportFault::ConnectionReset | TransportFault::ConnectionClosed => (14, Unseen::No),
        TransportFault::StreamReset(8) => (1, Unseen::No),
        TransportFault::StreamReset(11) => (8, Unseen::No),
        TransportFault::StreamReset(_) | TransportFault::Protocol => (13, Unseen::No),
        other => panic!("no server says {other:?}"),
    }
}

/// The answer's messages and its end. Empty for a Trailers-Only answer.
#[derive(Debug, Default)]
pub(crate) struct ServerBody {
    going: Option<Going>,
}

#[derive(Debug)]
struct Going {
    _live: Live,
    world: Arc<World>,
    id: u32,
    attempt: u32,
    stream: Stream,
    upload: Option<ReplayBody<Upload>>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Going {
    fn poll_pause(&mut self, pause: Duration, cx: &mut Context<'_>) -> Poll<()> {
        if !pause.is_zero() {
            let sleep = self
                .pause
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(pause)));
            ready!(sleep.as_mut().poll(cx));
            self.pause = None;
        }
        Poll::Ready(())
    }

    /// The rest of the request; its failure is none of the server's.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(upload) = &mut self.upload {
            if !matches!(ready!(Pin::new(upload).poll_frame(cx)), Some(Ok(_))) {
                self.upload = None;
            }
        }
        Poll::Ready(())
    }

    fn ends(&self, code: i32) {
        self.world.ledger().stream_ends(self.id, code);
    }
}

impl Body for ServerBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Some(going) = &mut self.going else {
            return Poll::Ready(None);
        };
        ready!(going.poll_pause(going.stream.gap, cx));
        if going.stream.messages > 0 {
            going.stream.messages -= 1;
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"message")))));
        }
        ready!(going.poll_upload(cx));
        let frame = match going.stream.end {
            End::Silence => return Poll::Pending,
            End::Status(code, pushback) => {
                going.ends(known(code));
                Some(Ok(Frame::trailers(trailers(code, pushback))))
            }
            End::Cut(fault) => {
                going.ends(of_fault(fault).0);
                let attempt = going.attempt;
                Some(Err(Broken { fault, attempt }))
            }
            End::NoStatus => {
                going.ends(13);
                None
            }
        };
        self.going = None;
        Poll::Ready(frame)
    }
}

/// Tells the ledger of attempts that their own deadline ended: the layer right above that deadline.
#[derive(Clone, Debug)]
pub(crate) struct Watched<S> {
    pub(crate) inner: S,
    pub(crate) world: Arc<World>,
}

impl<S, B> Service<Request<B>> for Watched<S>
where
    S: Service<Request<B>, Error = Broken>,
    S::Response: OfResponse,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = Broken;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, Broken>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let attempt = request.context().map_or(0, CallContext::attempt);
        let world = Arc::clone(&self.world);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let mut answer = answer.await?;
            if answer.is_elapsed_attempt() {
                answer.mark(attempt);
                let mut ledger = world.ledger();
                ledger.tally.attempts_timed_out += 1;
                let id = ledger.polled.expect("a call is polled");
                let got = Got::Failed {
                    code: 4,
                    word: None,
                    unseen: Unseen::No,
                };
                ledger.answered(id, attempt, got, Instant::now());
            }
            Ok(answer)
        })
    }
}

/// What [`Watched`] has to know of an answer, whatever its body.
pub(crate) trait OfResponse {
    fn is_elapsed_attempt(&self) -> bool;
    fn mark(&mut self, attempt: u32);
}

impl<B> OfResponse for Response<B> {
    fn is_elapsed_attempt(&self) -> bool {
        let elapsed = self.extensions().get::<Elapsed>();
        elapsed.is_some_and(|elapsed| elapsed.scope == DeadlineScope::Attempt)
    }

    fn mark(&mut self, attempt: u32) {
        self.extensions_mut().insert(OfAttempt(attempt));
    }
}

/// Sets which call is polled, for as long as it is.
pub(crate) async fn scoped<F: Future>(world: &World, id: u32, future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| {
        world.ledger().polled = Some(id);
        let polled = future.as_mut().poll(cx);
        world.ledger().polled = None;
        polled
    })
    .await
}

pub(crate) fn count(alive: &Arc<AtomicI64>) -> i64 {
    alive.load(Ordering::Relaxed)
}

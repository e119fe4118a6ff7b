//! The body buffer budget is fully released after calls, however they end (R51 to R53).

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::Frame;
use proptest::prelude::*;
use reattempt_http::ReplayBodyError;
use reattempt_http::body::BufferBudget;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Sleep;
use tower::BoxError;

use super::*;

/// A random call.
#[derive(Clone, Debug)]
struct Life {
    hedges: bool,
    /// Lengths of the request's frames, and the gaps before them in milliseconds.
    frames: Vec<(usize, u64)>,
    /// The server's result for each attempt: the delay, and the outcome.
    answers: Vec<(u64, Outcome)>,
    /// How long each connection takes to read a frame.
    paces: Vec<u64>,
    /// How long the transport holds the request of an attempt that has ended.
    lingers: u64,
    /// When the caller drops the call.
    leaves_at: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Outcome {
    Status(Code),
    /// Headers, then the rest after this many milliseconds.
    Headers(u64),
    Breaks(TransportFault),
    Never,
}

fn outcome() -> impl Strategy<Value = Outcome> {
    use TransportFault::{ConnectionReset, StreamRefused};
    prop_oneof![
        3 => Just(Outcome::Status(Code::Unavailable)),
        1 => Just(Outcome::Status(Code::Internal)),
        1 => Just(Outcome::Status(Code::Ok)),
        2 => (0_u64..300).prop_map(Outcome::Headers),
        1 => Just(Outcome::Breaks(ConnectionReset)),
        1 => Just(Outcome::Breaks(StreamRefused)),
        2 => Just(Outcome::Never),
    ]
}

fn life() -> impl Strategy<Value = Life> {
    let length = prop_oneof![0_usize..4, 0_usize..300, 600_usize..1200];
    (
        any::<bool>(),
        prop::collection::vec((length, 0_u64..40), 0..30),
        prop::collection::vec((0_u64..200, outcome()), 1..5),
        prop::collection::vec(0_u64..60, 1..4),
        0_u64..100,
        prop::option::of(0_u64..600),
    )
        .prop_map(
            |(hedges, frames, answers, paces, lingers, leaves_at)| Life {
                hedges,
                frames,
                answers,
                paces,
                lingers,
                leaves_at,
            },
        )
}

/// A request whose frames arrive with delays; its bytes count up.
struct Slow {
    frames: std::vec::IntoIter<(usize, u64)>,
    next: Option<(usize, Pin<Box<Sleep>>)>,
    sent: usize,
}

impl http_body::Body for Slow {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.next.is_none() {
            let Some((length, gap)) = self.frames.next() else {
                return Poll::Ready(None);
            };
            let sleep = Box::pin(tokio::time::sleep(Duration::from_millis(gap)));
            self.next = Some((length, sleep));
        }
        let Some((length, sleep)) = &mut self.next else {
            return Poll::Ready(None);
        };
        ready!(sleep.as_mut().poll(cx));
        let length = *length;
        let bytes: Vec<u8> = (self.sent..self.sent + length).map(|at| at as u8).collect();
        self.sent += length;
        self.next = None;
        Poll::Ready(Some(Ok(Frame::data(bytes.into()))))
    }
}

/// Reads a request as hyper's connections do, on a task of its own. Dropping the attempt ends the
/// task; a response does not.
async fn read(mut body: ReplayBody<Slow>, life: Life, pace: u64, cancelled: oneshot::Receiver<()>) {
    let mut read = 0_usize;
    let reading = async {
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => {
                    tokio::time::sleep(Duration::from_millis(pace)).await;
                    for byte in frame.into_data().unwrap_or_default() {
                        assert_eq!(byte, read as u8, "the stream, whole and in order");
                        read += 1;
                    }
                }
                Err(ReplayBodyError::Abandoned) => return,
                Err(error) => panic!("{error}"),
            }
        }
        let whole: usize = life.frames.iter().map(|(length, _)| length).sum();
        assert_eq!(read, whole);
    };
    tokio::select! {
        () = reading => {}
        Err(_) = cancelled => return,
    }
    tokio::time::sleep(Duration::from_millis(life.lingers)).await;
}

async fn answer_of(
    answers: Vec<(u64, Outcome)>,
    attempt: usize,
    answered: oneshot::Sender<()>,
) -> Result<Response<Body>, Broken> {
    let (after, outcome) = *answers.get(attempt).or(answers.last()).unwrap();
    tokio::time::sleep(Duration::from_millis(after)).await;
    if matches!(outcome, Outcome::Status(_) | Outcome::Headers(_)) {
        let _ = answered.send(());
    }
    match outcome {
        Outcome::Status(code) => answer(Status(code)),
        Outcome::Headers(later) => answer(Later(later, Code::Ok)),
        Outcome::Breaks(fault) => Err(Broken(fault)),
        Outcome::Never => std::future::pending().await,
    }
}

type Readers = Arc<Mutex<Vec<JoinHandle<()>>>>;

/// Longer than a connection takes for a frame and holds a request.
const SOON: Duration = Duration::from_millis(200);

/// Makes one call. Soon after, at most one attempt still reads the request, and reads it to the
/// end.
async fn live(life: Life, budget: BufferBudget, limit: usize) {
    let readers = Readers::default();
    let of_call = Arc::clone(&readers);
    let config = if life.hedges {
        hedging(4, "0.05s", "14")
    } else {
        retrying(4, "14")
    };
    let attempts = Arc::new(AtomicUsize::new(0));
    let of_server = life.clone();
    let service = ServiceBuilder::new()
        .layer(RouteLayer::new(config))
        .layer(DeadlineLayer::new(Duration::from_secs(1)).on_elapsed(AsGrpcStatus))
        .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
        .layer(ReplayBodyLayer::new().bytes_per_call(limit).budget(budget))
        .layer(standard())
        .layer(HedgeLayer::by_policy(GrpcClassifier::new()))
        .layer(PreviousAttemptsLayer)
        .layer(GrpcOutcomeLayer::new().body_error(ByTransportError))
        .service_fn(move |request: Request<ReplayBody<Slow>>| {
            let (answered, cancelled) = oneshot::channel();
            let attempt = attempts.fetch_add(1, Ordering::Relaxed);
            let paces = &of_server.paces;
            let pace = paces[attempt % paces.len()];
            let reader = read(request.into_body(), of_server.clone(), pace, cancelled);
            readers.lock().unwrap().push(tokio::spawn(reader));
            answer_of(of_server.answers.clone(), attempt, answered)
        });
    let body = Slow {
        frames: life.frames.into_iter(),
        next: None,
        sent: 0,
    };
    let request = Request::post("http://h/shop.Cart/Add").body(body).unwrap();
    let call = async {
        let answer = service.oneshot(request).await?;
        let _ = answer.into_body().collect().await;
        Ok::<_, BoxError>(())
    };
    let leaves = async {
        match life.leaves_at {
            Some(at) => tokio::time::sleep(Duration::from_millis(at)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = call => {}
        () = leaves => {}
    }
    tokio::time::sleep(SOON).await;
    let readers = std::mem::take(&mut *of_call.lock().unwrap());
    let reading = readers.iter().filter(|reader| !reader.is_finished());
    assert!(reading.count() <= 1, "attempts that have ended still read");
    for reader in readers {
        let ended = tokio::time::timeout(Duration::from_secs(9), reader).await;
        ended.expect("the request is not read to its end").unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// R51 to R53
    #[test]
    fn nothing_is_kept_of_calls_that_are_over(
        lives in prop::collection::vec(life(), 1..8),
        limit in 0_usize..4000,
        in_all in 0_usize..6000,
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let budget = BufferBudget::new(in_all);
            let calls: Vec<_> = lives
                .into_iter()
                .map(|life| tokio::spawn(live(life, budget.clone(), limit)))
                .collect();
            let watch = budget.clone();
            let watched = tokio::spawn(async move {
                loop {
                    assert!(watch.used() <= in_all);
                    tokio::time::sleep(Duration::from_millis(7)).await;
                }
            });
            for call in calls {
                call.await.unwrap();
            }
            assert!(!watched.is_finished());
            watched.abort();
            assert_eq!(budget.used(), 0);
        });
    }
}

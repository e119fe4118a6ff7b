//! Three backends, the second of which is in trouble for a time, and callers at random instants.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reattempt::{Call, HasCallContext, Idempotency};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tower::{BoxError, Service, ServiceExt};

/// What is wrong with the second backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It accepts requests and never answers.
    Silent,
    /// It answers with an error, at once.
    Failing,
    /// Its answers take 20 times as long.
    Slow,
}

/// Seconds of the trouble.
const TROUBLE: Range<u64> = 10..40;
/// Seconds whose calls are counted.
const COUNTED: Range<u64> = 12..40;
/// Seconds in which the load has to be even again.
pub(crate) const BACK: Range<u64> = 50..60;
/// Calls a second.
const RATE: f64 = 300.0;
/// What an answer takes, at least and on average beyond that.
const LEAST: Duration = Duration::from_millis(1);
const MEAN: f64 = 0.005;
/// What callers wait for.
const LIMIT: Duration = Duration::from_secs(2);
/// An answer of a backend that works takes longer in one of 2,000 calls.
pub(crate) const FELT: Duration = Duration::from_millis(40);

/// What a call says of a backend that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Down;

impl std::fmt::Display for Down {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the backend fails")
    }
}

impl std::error::Error for Down {}

#[derive(Clone, Debug)]
struct World {
    began: Instant,
    fault: Fault,
    dice: Arc<Mutex<SmallRng>>,
    /// Requests to each backend while calls are counted, and once all are back.
    asked: Arc<[AtomicUsize; 3]>,
    back: Arc<[AtomicUsize; 3]>,
}

impl World {
    fn second(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    fn roll(&self) -> f64 {
        self.dice
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .random()
    }
}

/// One backend.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    at: usize,
    world: World,
}

impl Server {
    /// One attempt at it.
    pub(crate) async fn answer(self) -> Result<(), Down> {
        let (at, world) = (self.at, &self.world);
        let second = world.second();
        for (seconds, counts) in [(COUNTED, &world.asked), (BACK, &world.back)] {
            if seconds.contains(&second) {
                counts[at].fetch_add(1, Ordering::Relaxed);
            }
        }
        let mut took = LEAST.as_secs_f64() - MEAN * (1.0 - world.roll()).ln();
        if at == 1 && TROUBLE.contains(&second) {
            match world.fault {
                Fault::Silent => std::future::pending().await,
                Fault::Failing => return Err(Down),
                Fault::Slow => took *= 20.0,
            }
        }
        sleep(Duration::from_secs_f64(took)).await;
        Ok(())
    }
}

/// What callers felt.
#[derive(Debug)]
pub(crate) struct Felt {
    pub(crate) calls: usize,
    /// Of the calls that worked, in order.
    pub(crate) took: Vec<Duration>,
    /// Requests to the backend in trouble.
    pub(crate) asked: usize,
    back: Vec<usize>,
}

impl Felt {
    pub(crate) fn percentile(&self, share: f64) -> Option<Duration> {
        let rank = (share * self.took.len() as f64).ceil() as usize;
        self.took.get(rank.max(1) - 1).copied()
    }

    pub(crate) fn felt(&self) -> usize {
        let worked = self.took.iter().filter(|took| **took <= FELT);
        self.calls - worked.count()
    }

    /// How much more the most used backend is asked than the least used one.
    pub(crate) fn uneven(&self) -> f64 {
        let most = self.back.iter().max().copied().unwrap_or_default();
        let least = self.back.iter().min().copied().unwrap_or_default();
        most as f64 / least.max(1) as f64
    }
}

/// A minute of it, with the client that this function makes.
pub(crate) fn run<S>(client: impl FnOnce([Server; 3]) -> S, fault: Fault, seed: u64) -> Felt
where
    S: Service<Call<()>, Response = (), Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O");
    runtime.block_on(minute(client, fault, seed))
}

async fn minute<S>(client: impl FnOnce([Server; 3]) -> S, fault: Fault, seed: u64) -> Felt
where
    S: Service<Call<()>, Response = (), Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
{
    let world = World {
        began: Instant::now(),
        fault,
        dice: Arc::new(Mutex::new(SmallRng::seed_from_u64(seed))),
        asked: Arc::default(),
        back: Arc::default(),
    };
    let servers = [0, 1, 2].map(|at| Server {
        at,
        world: world.clone(),
    });
    let client = client(servers);
    let mut arrivals = SmallRng::seed_from_u64(!seed);
    let mut calls = JoinSet::new();
    while world.second() < BACK.end {
        let gap = -(1.0 - arrivals.random::<f64>()).ln() / RATE;
        sleep(Duration::from_secs_f64(gap)).await;
        let (client, second) = (client.clone(), world.second());
        calls.spawn(async move { (second, call(client).await) });
    }
    let mut took = Vec::new();
    let mut counted = 0;
    while let Some(ended) = calls.join_next().await {
        let (second, ended) = ended.expect("no call panics");
        if COUNTED.contains(&second) {
            counted += 1;
            took.extend(ended);
        }
    }
    took.sort_unstable();
    let counts = |all: &[AtomicUsize; 3]| -> Vec<usize> {
        all.iter()
            .map(|count| count.load(Ordering::Relaxed))
            .collect()
    };
    Felt {
        calls: counted,
        took,
        asked: counts(&world.asked)[1],
        back: counts(&world.back),
    }
}

/// How long it took, if it worked in time.
async fn call<S: Service<Call<()>, Response = (), Error = BoxError>>(
    client: S,
) -> Option<Duration> {
    let began = Instant::now();
    let mut call = Call::new(());
    call.context_mut().set_idempotency(Idempotency::Idempotent);
    let ended = timeout(LIMIT, client.oneshot(call)).await;
    matches!(ended, Ok(Ok(()))).then(|| began.elapsed())
}

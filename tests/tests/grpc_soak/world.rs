//! State shared by all calls: the ledger, and counts of live values.

use std::future::Future;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use http::Request;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use reattempt::{Backend, HasCallContext};
use tokio::time::Instant;

use super::CALLERS;
use super::fate::{Chances, Fate, Weather};
use super::ledger::Ledger;

/// Counts of live values.
#[derive(Debug, Default)]
pub(crate) struct Alive {
    pub(crate) uploads: Arc<AtomicI64>,
    pub(crate) attempts: Arc<AtomicI64>,
    pub(crate) answers: Arc<AtomicI64>,
    pub(crate) contexts: Arc<AtomicI64>,
}

/// State shared by all calls.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) alive: Alive,
    /// Each is kept alive only by the state of its call.
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
        // After a failed assertion the other calls end silently, so that its message stays
        // readable.
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
        let mut fates = self.fates.lock().expect("no panic while it is held");
        change(&mut fates[(id % CALLERS) as usize])
    }

    /// The fates of a call's attempts are drawn from this seed.
    pub(crate) fn begins(&self, id: u32, seed: u64, chances: Chances) {
        let rng = SmallRng::seed_from_u64(seed);
        self.of_caller(id, |fates| *fates = Some((rng, chances)));
    }

    pub(crate) fn fate(&self, id: u32) -> Fate {
        let weather = Weather::at(self.began.elapsed());
        self.of_caller(id, |fates| {
            let (rng, chances) = fates.as_mut().expect("the call is in progress");
            Fate::draw(rng, weather, *chances)
        })
    }

    pub(crate) fn sends<B>(&self, request: &Request<B>) -> (u32, u32) {
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
        // Half of the calls have a log that holds this name; the states of the others are reused.
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

/// Marks the call as polled while its future is polled.
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

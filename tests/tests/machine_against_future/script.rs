//! Random scripts, each from a seed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use reattempt::backoff::{Backoff, Jitter, Randomness};
use reattempt::reason::{
    KV_LOCKED, KV_NOT_MY_VBUCKET, KV_TEMPORARY_FAILURE, SOCKET_CLOSED_WHILE_IN_FLIGHT,
};
use reattempt::strategy::StrategyError;
use reattempt::test_util::ms;
use reattempt::{
    Decision, Failure, HedgePolicy, OnDeadline, RetryStrategy, RetryThrottle, RetryView,
    ServerPushback, Stage, Surface, TokenBucket, Transparent, Verdict,
};

const STEPS: usize = 60;

#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) seed: u64,
    pub(crate) transparent: bool,
    pub(crate) idempotent: bool,
    /// Maximum, ratio, and failures counted before the call.
    bucket: Option<(u32, u32, u32)>,
    /// The timeout, and whether a `Deadline` layer enforces it.
    pub(crate) limit: Option<(u64, bool)>,
    pub(crate) mode: Mode,
    pub(crate) steps: Vec<Attempt>,
    /// The readiness of the second and later attempts: the delay, and whether it is an error.
    pub(crate) readiness: Vec<(u64, bool)>,
}

#[derive(Debug)]
pub(crate) enum Mode {
    Retry(Plan),
    Hedge {
        max: u32,
        delay: u64,
        on_deadline: OnDeadline,
    },
}

#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) verdict: Verdict,
    pub(crate) as_answer: bool,
    pub(crate) after: u64,
    pub(crate) pushback: Option<ServerPushback>,
    pub(crate) stage: Option<Stage>,
    pub(crate) forbids: bool,
    /// The request itself cuts the attempt off.
    pub(crate) cut_off: bool,
    /// Resolves after this time: moved or not.
    pub(crate) waiter: Option<(u64, bool)>,
}

/// The parameters of a strategy.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    max: Option<u32>,
    backoff: Backoff,
    on_deadline: Option<OnDeadline>,
    holds: bool,
    stops_at: Option<u32>,
    /// Defers its decisions for this long; fails at the retry with this number.
    defers: Option<(u64, u32)>,
}

fn some<T>(rng: &mut StdRng, chance: f64, make: impl FnOnce(&mut StdRng) -> T) -> Option<T> {
    rng.random_bool(chance).then(|| make(rng))
}

fn one<T: Clone>(rng: &mut StdRng, of: &[T]) -> T {
    of.choose(rng).expect("never empty").clone()
}

fn on_deadline(rng: &mut StdRng) -> OnDeadline {
    one(rng, &[OnDeadline::Cap, OnDeadline::GiveUp])
}

impl Script {
    pub(crate) fn retry(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mode = Mode::Retry(Plan::random(&mut rng));
        Self::around(seed, &mut rng, mode)
    }

    pub(crate) fn hedge(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mode = Mode::Hedge {
            max: rng.random_range(1..=6),
            delay: one(&mut rng, &[0, 1, 5, 10, 25]),
            on_deadline: on_deadline(&mut rng),
        };
        Self::around(seed, &mut rng, mode)
    }

    fn around(seed: u64, rng: &mut StdRng, mode: Mode) -> Self {
        Self {
            seed,
            transparent: rng.random_bool(0.8),
            idempotent: rng.random_bool(0.7),
            bucket: some(rng, 0.4, |rng| {
                (
                    rng.random_range(2..8),
                    rng.random_range(1..1500),
                    rng.random_range(0..3),
                )
            }),
            limit: some(rng, 0.6, |rng| {
                (rng.random_range(1..200), rng.random_bool(0.7))
            }),
            mode,
            steps: (0..STEPS).map(|_| Attempt::random(rng)).collect(),
            readiness: (0..STEPS)
                .map(|_| (one(rng, &[0, 0, 0, 1, 7, 40]), rng.random_bool(0.04)))
                .collect(),
        }
    }

    /// A separate throttle for each run.
    pub(crate) fn throttle(&self) -> Option<Arc<TokenBucket>> {
        let (max, ratio, failed) = self.bucket?;
        let bucket = TokenBucket::new(max, ratio).expect("within bounds");
        let failure = Failure::new(KV_LOCKED, Stage::Response);
        for _ in 0..failed {
            bucket.settled(reattempt::throttle::Settled::Failure(&failure));
        }
        Some(Arc::new(bucket))
    }

    pub(crate) fn hedge_policy(&self) -> HedgePolicy {
        match self.mode {
            Mode::Hedge {
                max,
                delay,
                on_deadline,
            } => HedgePolicy::new(max, ms(delay))
                .hedge_non_idempotent()
                .on_deadline(on_deadline),
            Mode::Retry(_) => panic!("this script retries"),
        }
    }

    /// A separate strategy for each run, with the same random numbers.
    pub(crate) fn strategy(&self) -> Planned {
        let Mode::Retry(plan) = &self.mode else {
            panic!("this script hedges")
        };
        let mut plan = plan.clone();
        plan.backoff = plan.backoff.randomness(Randomness::seeded(self.seed));
        Planned {
            plan,
            asked: Arc::default(),
        }
    }
}

impl Plan {
    fn random(rng: &mut StdRng) -> Self {
        let step = ms(one(rng, &[0, 1, 4, 10, 30]));
        let shapes = [
            Backoff::constant(step),
            Backoff::linear(step, ms(50)),
            Backoff::exponential(step, ms(100)),
            Backoff::controlled(),
        ];
        let jitters = [
            Jitter::None,
            Jitter::None,
            Jitter::Full,
            Jitter::Proportional(0.2),
            Jitter::Decorrelated,
        ];
        Self {
            max: some(rng, 0.8, |rng| rng.random_range(1..7)),
            backoff: one(rng, &shapes).jitter(one(rng, &jitters)),
            on_deadline: some(rng, 0.7, on_deadline),
            holds: rng.random_bool(0.3),
            stops_at: some(rng, 0.1, |rng| rng.random_range(0..4)),
            defers: some(rng, 0.2, |rng| {
                (rng.random_range(1..20), rng.random_range(0..8))
            }),
        }
    }
}

impl Attempt {
    fn random(rng: &mut StdRng) -> Self {
        let reasons = [
            KV_TEMPORARY_FAILURE,
            KV_TEMPORARY_FAILURE,
            KV_LOCKED,
            KV_NOT_MY_VBUCKET,
            SOCKET_CLOSED_WHILE_IN_FLIGHT,
        ];
        let transparency = [Transparent::Once, Transparent::Unlimited];
        let mut failure = Failure::new(one(rng, &reasons), Stage::Response);
        failure.code = some(rng, 0.3, |rng| rng.random_range(1..4));
        failure.transparent = some(rng, 0.2, |rng| one(rng, &transparency)).unwrap_or_default();
        let verdict = match rng.random_range(0..100) {
            0..18 => Verdict::Success,
            18..22 => Verdict::Committed,
            22..26 => Verdict::Fatal(failure),
            26..28 => {
                let unsent = Failure::new(failure.reason, Stage::Dispatch);
                Verdict::Fatal(unsent.transparent(failure.transparent))
            }
            _ => Verdict::Retry(failure),
        };
        let pushbacks = [
            ServerPushback::After(Duration::ZERO),
            ServerPushback::After(ms(3)),
            ServerPushback::After(ms(60)),
            ServerPushback::Stop,
        ];
        Self {
            verdict,
            as_answer: verdict.failure().is_none() || rng.random_bool(0.4),
            after: one(rng, &[0, 0, 1, 2, 5, 10, 30, 30, 5000]),
            pushback: some(rng, 0.2, |rng| one(rng, &pushbacks)),
            stage: some(rng, 0.2, |rng| {
                one(rng, &[Stage::Dispatch, Stage::InFlight])
            }),
            forbids: rng.random_bool(0.03),
            cut_off: rng.random_bool(0.03),
            waiter: some(rng, 0.3, |rng| {
                (one(rng, &[0, 1, 6, 40]), rng.random_bool(0.6))
            }),
        }
    }
}

/// A deferred decision: how long it takes, and its result.
type Asked = (u64, Option<Result<Option<Duration>, &'static str>>);

/// A planned strategy. Stores its deferred decision for the simulator.
#[derive(Debug)]
pub(crate) struct Planned {
    plan: Plan,
    asked: Arc<Mutex<Asked>>,
}

impl Planned {
    /// The deferred decision, and how long it takes.
    pub(crate) fn asked(&self) -> (u64, Result<Option<Duration>, StrategyError>) {
        let (takes, decision) = &mut *self.asked.lock().expect("never poisoned");
        let decision = decision.take().expect("something was asked");
        (*takes, decision.map_err(StrategyError::from))
    }
}

impl RetryStrategy for Planned {
    fn decide(&self, view: &RetryView<'_>) -> Decision {
        if self.plan.stops_at == Some(view.retries) {
            return Decision::Stop;
        }
        let backoff = &self.plan.backoff;
        let delay = backoff.delay(view.retries_since_pushback, view.previous_delay);
        let Some((takes, fails_at)) = self.plan.defers else {
            return Decision::After(delay);
        };
        let decision = match view.retries {
            retries if retries == fails_at => Err("no idea"),
            retries if retries == fails_at + 1 => Ok(None),
            _ => Ok(Some(delay)),
        };
        *self.asked.lock().expect("never poisoned") = (takes, Some(decision));
        Decision::Defer(Box::pin(async move {
            tokio::time::sleep(ms(takes)).await;
            decision.map_err(StrategyError::from)
        }))
    }

    fn max_attempts(&self) -> Option<u32> {
        self.plan.max
    }

    fn on_deadline(&self) -> Option<OnDeadline> {
        self.plan.on_deadline
    }

    fn holds(&self) -> bool {
        self.plan.holds
    }

    fn surface(&self, _: &Failure, new: &Failure) -> Surface {
        if new.code.is_some() {
            Surface::New
        } else {
            Surface::Held
        }
    }
}

//! What a hedge delay that learns costs a call that works, beside a fixed one.

use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use reattempt::policy::{AttemptEnd, EndedAttempt, ExtraLoad, HedgeAdmission, HedgeView};
use reattempt::{Call, HasCallContext, HedgeDelay, HedgeLayer, HedgePolicy, Idempotency};
use tower::{BoxError, Service, ServiceBuilder};

use crate::cases::{AnyAnswer, Case, future_of};

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The clock alone, twice a call.
fn clocks(calls: u64) -> u64 {
    for _ in 0..2 * calls {
        black_box(now());
    }
    calls
}

/// The clock, and the time since another instant.
fn elapsed(calls: u64) -> u64 {
    let began = now();
    let mut sum = 0_u64;
    for _ in 0..calls {
        let took = now().saturating_duration_since(black_box(began));
        sum = sum.wrapping_add(black_box(took.as_nanos() as u64));
    }
    sum
}

/// Exponential times of ten seconds, always the same.
fn times() -> [Duration; 1024] {
    let mut word = 1_u64;
    std::array::from_fn(|_| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let uniform = ((word >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
        Duration::from_nanos((-10e9 * uniform.ln()) as u64)
    })
}

/// First attempts of these times, of which one in 64 lost.
fn attempts() -> [EndedAttempt; 1024] {
    let (times, began) = (times(), now());
    std::array::from_fn(|at| {
        let end = if at % 64 == 0 {
            AttemptEnd::Lost
        } else {
            AttemptEnd::Succeeded
        };
        EndedAttempt::new(1, began + Duration::from_millis(at as u64), times[at], end)
    })
}

fn fed(calls: u64) -> u64 {
    let attempts = attempts();
    let delay: Arc<dyn HedgeDelay> = Arc::new(learned());
    for call in 0..calls {
        black_box(&delay).ended(&attempts[call as usize % attempts.len()]);
    }
    calls
}

fn learned() -> ExtraLoad {
    ExtraLoad::percent(2.0).expect("a valid share")
}

const LIMIT: Duration = Duration::from_secs(1);

/// What it learns does not depend on the clock, and no hedge is ever due. To choose what it is fed
/// takes five instructions.
#[derive(Debug)]
struct NoneDue {
    learned: ExtraLoad,
    times: [Duration; 1024],
    next: AtomicUsize,
}

impl HedgeDelay for NoneDue {
    fn delay(&self, view: &HedgeView<'_>) -> Option<Duration> {
        self.learned.delay(view)
    }

    fn admit(&self, view: &HedgeView<'_>) -> HedgeAdmission {
        self.learned.admit(view)
    }

    fn learns(&self) -> bool {
        true
    }

    fn first_succeeded(&self, _: Duration, now: Instant) {
        let next = self.next.fetch_add(1, Relaxed) % self.times.len();
        self.learned.first_succeeded(self.times[next], now);
    }
}

/// Responds at the second poll.
#[derive(Clone, Copy, Debug)]
struct Later;

#[derive(Clone, Copy, Debug)]
struct Polled(Option<u64>, bool);

impl Future for Polled {
    type Output = Result<u64, BoxError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if !std::mem::replace(&mut self.1, true) {
            return Poll::Pending;
        }
        self.0.take().map_or(Poll::Pending, |n| Poll::Ready(Ok(n)))
    }
}

impl Service<Call<u64>> for Later {
    type Response = u64;
    type Error = BoxError;
    type Future = Polled;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call<u64>) -> Polled {
        Polled(Some(black_box(call.request)), false)
    }
}

fn later(policy: HedgePolicy) -> impl Service<Call<u64>, Response = u64, Error = BoxError> {
    let layer = HedgeLayer::new(AnyAnswer, policy);
    ServiceBuilder::new().layer(layer).service(Later)
}

fn fixed_delay() -> HedgePolicy {
    HedgePolicy::new(3, LIMIT)
}

/// It has learned already, and goes on.
fn learned_delay() -> HedgePolicy {
    let learned = learned();
    for attempt in attempts().iter().cycle().take(65_536) {
        learned.ended(attempt);
    }
    let delay = NoneDue {
        learned,
        times: times(),
        next: AtomicUsize::new(0),
    };
    HedgePolicy::with_delay(3, Arc::new(delay))
}

fn pending(policy: HedgePolicy, calls: u64) -> u64 {
    let mut service = later(policy);
    let mut cx = Context::from_waker(Waker::noop());
    let mut sum = 0_u64;
    for n in 0..calls {
        let mut call = Call::new(n);
        call.context_mut().set_idempotency(Idempotency::Idempotent);
        assert!(service.poll_ready(&mut cx).is_ready(), "not ready");
        let mut future = pin!(service.call(call));
        assert!(future.as_mut().poll(&mut cx).is_pending(), "too early");
        let Poll::Ready(Ok(answer)) = future.as_mut().poll(&mut cx) else {
            panic!("no answer");
        };
        sum = sum.wrapping_add(answer);
    }
    black_box(sum)
}

/// Every case, in the order of the table.
#[must_use]
pub fn all() -> Vec<Case> {
    let case = |name, run, future| Case { name, run, future };
    let future = future_of(|| later(fixed_delay()), Call::new);
    vec![
        case("two-clocks", clocks, 0),
        case("elapsed", elapsed, 0),
        case("hedge-feed", fed, 0),
        case("hedge-pending", |n| pending(fixed_delay(), n), future),
        case(
            "hedge-learned-pending",
            |n| pending(learned_delay(), n),
            future,
        ),
    ]
}

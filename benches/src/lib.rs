//! Stacks to measure: single layers, combined stacks, and tower's own for comparison.
//!
//! Every case drives the same bare service, which is ready and responds at once, so that the result
//! is the cost of the layers for a call that succeeds.

pub mod balance;
pub mod cases;
pub mod handed_over;
pub mod http;
pub mod http_calls;
pub mod in_flight;
pub mod kv;
pub mod learned;
pub mod observed;
pub mod peer;
pub mod pushback;
pub mod throttles;
pub mod typical;

use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tower::Service;

/// The bare service: always ready, responds at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bare;

/// The future of [`Bare`]: ready at once, but not known to be so at compile time.
pub type Answer = std::future::Ready<Result<u64, tower::BoxError>>;

impl<R: Number> Service<R> for Bare {
    type Response = u64;
    type Error = tower::BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        std::future::ready(Ok(black_box(request.number())))
    }
}

/// A request that holds a number, plain or in a call.
pub trait Number {
    /// The number.
    fn number(&self) -> u64;
}

impl Number for u64 {
    fn number(&self) -> u64 {
        *self
    }
}

impl Number for reattempt::Call<u64> {
    fn number(&self) -> u64 {
        self.request
    }
}

/// Sends `calls` requests one after another. Panics if one is not completed at once.
pub fn drive<S, R>(service: &mut S, calls: u64, request: impl Fn(u64) -> R) -> u64
where
    S: Service<R, Response = u64, Error = tower::BoxError>,
{
    let mut cx = Context::from_waker(Waker::noop());
    let mut sum = 0_u64;
    for n in 0..calls {
        assert!(
            matches!(service.poll_ready(&mut cx), Poll::Ready(Ok(()))),
            "not ready"
        );
        let mut future = pin!(service.call(request(n)));
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(Ok(answer)) => sum = sum.wrapping_add(answer),
            Poll::Ready(Err(error)) => panic!("failed: {error}"),
            Poll::Pending => panic!("pending"),
        }
    }
    black_box(sum)
}

/// Counts what some work allocates: how many times, and how many bytes.
///
/// The programs and tests that count bring it. It replaces the global allocator, which takes some
/// hundred instructions more per allocation then: the program whose instructions are counted must
/// not have it.
pub type Count = fn(&mut dyn FnMut()) -> (u64, u64);

/// Allocations and bytes per call in the steady state: the difference between 2000 calls and 1000,
/// so that building the service does not count, after some calls that fill the thread's caches.
/// `total` counts what was freed too.
pub fn allocations_per_call(run: fn(u64) -> u64, total: Count) -> (u64, u64) {
    run(10);
    let of = |calls| {
        total(&mut || {
            run(calls);
        })
    };
    let (one, two) = (of(1000), of(2000));
    ((two.0 - one.0) / 1000, (two.1 - one.1) / 1000)
}

/// Runs `work` in a runtime with timers.
pub fn with_timers<T>(work: impl FnOnce() -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime with timers");
    let _guard = runtime.enter();
    work()
}

/// The case of this name.
#[must_use]
pub fn named(name: &str) -> Option<cases::Case> {
    let mut cases = cases::all()
        .into_iter()
        .chain(kv::all())
        .chain(http::all())
        .chain(http_calls::all())
        .chain(pushback::all())
        .chain(balance::all())
        .chain(throttles::all())
        .chain(learned::all())
        .chain(typical::all())
        .chain([observed::counted()]);
    cases.find(|case| case.name == name)
}

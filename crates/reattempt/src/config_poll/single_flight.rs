//! `SingleFlight`: one fetch for all calls that notice a stale configuration.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::StaleConfig;
use crate::{ConfigWaiter, clock};

/// Makes any [`StaleConfig`] single-flight: while one call's fetch runs, others that notice a stale
/// configuration wait for it instead of fetching too.
///
/// - The fetch is the future that the inner [`check`](StaleConfig::check) returns. It has to do its
///   work when it is polled, as every `async` block does: the guard drops those that it does not
///   need without polling them.
/// - It runs in a task of its own, so it ends also if its call does not wait for it any longer. A
///   fetch that takes longer than the [timeout](Self::timeout), or panics, ends with `false`; the
///   next call that notices starts another. So it does if the runtime of that task is not driven:
///   the timeout is also held by those that wait, on their own runtimes.
/// - A call that was sent before the last fetch began, and fails after it has ended, does not fetch
///   again: it gets that result. Its failure is most likely of the configuration that the fetch has
///   replaced, and if not, its next attempt starts a fetch.
/// - All waiting calls get the same result: `true` sends the retry of each at once. An
///   implementation that knows which calls have moved, as Couchbase's `StaleKvConfig` does, joins
///   fetches by itself.
///
/// Clones share the fetch. Use one per configuration, for all connections to its cluster.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use std::time::Duration;
/// use reattempt::backoff::Backoff;
/// use reattempt::config_poll::{ConfigPollLayer, SingleFlight, StaleConfig};
/// use reattempt::strategy::MaxAttempts;
/// use reattempt::{
///     Call, CallContext, ConfigWaiter, Failure, HasCallContext, RetryLayer, Stage, Verdict,
///     classify_fn, reason,
/// };
/// use tower::{Service, ServiceBuilder, ServiceExt};
///
/// #[derive(Clone, Default)]
/// struct Refresh(Arc<AtomicU32>);
///
/// impl StaleConfig<Call<u8>, &'static str, ()> for Refresh {
///     type Note = ();
///     fn note(&self, _: &Call<u8>) {}
///     fn check(&self, _: (), outcome: Result<&&'static str, &()>) -> Option<ConfigWaiter> {
///         let fetches = Arc::clone(&self.0);
///         (outcome == Ok(&"moved")).then(|| {
///             Box::pin(async move {
///                 tokio::time::sleep(Duration::from_millis(20)).await; // asks a server
///                 fetches.fetch_add(1, Ordering::Relaxed);
///                 true
///             }) as ConfigWaiter
///         })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let refresh = Refresh::default();
/// let classifier = classify_fn(|outcome: Result<&&str, &()>, _: &CallContext| match outcome {
///     Ok(&"moved") => {
///         Verdict::Retry(Failure::new(reason::SERVICE_NOT_AVAILABLE, Stage::Response))
///     }
///     _ => Verdict::Success,
/// });
/// let service = ServiceBuilder::new()
///     .layer(RetryLayer::new(
///         classifier,
///         MaxAttempts::new(2, Backoff::constant(Duration::from_secs(1))),
///     ))
///     .layer(ConfigPollLayer::new(SingleFlight::new(refresh.clone())))
///     .service_fn(|call: Call<u8>| async move {
///         let first = call.context().is_some_and(|context| context.attempt() == 1);
///         Ok(if first { "moved" } else { "value" })
///     });
/// let started = tokio::time::Instant::now();
/// let calls = (0..100).map(|n| tokio::spawn(service.clone().oneshot(Call::new(n))));
/// for call in calls.collect::<Vec<_>>() {
///     assert_eq!(call.await.unwrap(), Ok("value"));
/// }
/// assert_eq!(refresh.0.load(Ordering::Relaxed), 1);
/// assert_eq!(started.elapsed().as_millis(), 20, "no call waited for its back-off");
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SingleFlight<P> {
    inner: P,
    timeout: Duration,
    flights: Arc<Mutex<Flights>>,
}

#[derive(Debug, Default)]
struct Flights {
    /// How many have begun.
    begun: u64,
    /// None before the first.
    latest: Option<Flight>,
}

/// One fetch.
#[derive(Clone, Debug)]
struct Flight {
    result: watch::Receiver<Option<bool>>,
    /// From then on it counts as over, also if its task has not ended it.
    until: Instant,
}

impl Flight {
    /// Whether the fetch runs; `None` if it is stuck.
    fn runs(&self) -> Option<bool> {
        // A fetch that panicked, or whose runtime is gone, has dropped its sender.
        let open = self.result.borrow().is_none() && self.result.has_changed().is_ok();
        (!open || clock::now() < self.until).then_some(open)
    }

    async fn wait(mut self) -> bool {
        let moved = self.result.wait_for(Option::is_some);
        let moved = tokio::time::timeout_at(self.until.into(), moved).await;
        moved.is_ok_and(|moved| moved.is_ok_and(|moved| *moved == Some(true)))
    }
}

impl Flights {
    /// The result of a fetch that is still running, or began after this many had begun.
    fn joined(&self, begun: u64) -> Option<&Flight> {
        let latest = self.latest.as_ref()?;
        (latest.runs()? || self.begun > begun).then_some(latest)
    }
}

/// What a [`SingleFlight`] remembers of a request.
#[derive(Clone, Copy, Debug)]
pub struct FlightNote<N> {
    inner: N,
    /// How many fetches had begun when the request was sent.
    begun: u64,
}

impl<P> SingleFlight<P> {
    /// How long a fetch may take by default.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

    /// Guards this implementation.
    #[must_use]
    pub fn new(inner: P) -> Self {
        Self {
            inner,
            timeout: Self::DEFAULT_TIMEOUT,
            flights: Arc::default(),
        }
    }

    /// Ends a fetch that takes longer than this.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn begun(&self) -> u64 {
        let flights = self.flights.lock();
        flights.unwrap_or_else(PoisonError::into_inner).begun
    }

    /// The result to wait for; `fetch` is dropped if another one serves.
    fn flight(&self, begun: u64, fetch: ConfigWaiter) -> Flight {
        // If it is not needed, it is dropped after the lock: parameters are dropped last.
        let flights = self.flights.lock();
        let mut flights = flights.unwrap_or_else(PoisonError::into_inner);
        if let Some(flight) = flights.joined(begun) {
            return flight.clone();
        }
        let (sender, result) = watch::channel(None);
        let timeout = self.timeout;
        let until = clock::after(clock::now(), timeout);
        let flight = Flight { result, until };
        flights.begun += 1;
        flights.latest = Some(flight.clone());
        drop(flights);
        tokio::spawn(async move {
            let moved = tokio::time::timeout(timeout, fetch).await;
            sender.send_replace(Some(moved.unwrap_or(false)));
        });
        flight
    }
}

impl<P, Req, Res, Err> StaleConfig<Req, Res, Err> for SingleFlight<P>
where
    P: StaleConfig<Req, Res, Err>,
{
    type Note = FlightNote<P::Note>;

    fn note(&self, request: &Req) -> Self::Note {
        FlightNote {
            inner: self.inner.note(request),
            begun: self.begun(),
        }
    }

    fn check(&self, note: Self::Note, outcome: Result<&Res, &Err>) -> Option<ConfigWaiter> {
        let fetch = self.inner.check(note.inner, outcome)?;
        Some(Box::pin(self.flight(note.begun, fetch).wait()))
    }
}

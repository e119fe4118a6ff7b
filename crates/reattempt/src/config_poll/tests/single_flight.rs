use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::failure::reason::KV_TEMPORARY_FAILURE;
use crate::test_util::{ms, probe};

/// Fetches as its kind says, and counts the fetches that were begun.
#[derive(Clone, Debug, Default)]
struct Fetches {
    begun: Arc<AtomicU32>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, Default)]
enum Kind {
    /// Takes 10 ms, and finds a configuration that moves every key.
    #[default]
    Moves,
    FindsNothing,
    Hangs,
    Panics,
}

impl Fetches {
    fn of(kind: Kind) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }

    fn begun(&self) -> u32 {
        self.begun.load(Ordering::Relaxed)
    }
}

impl<Req, Res, Err> StaleConfig<Req, Res, Err> for Fetches {
    type Note = ();

    fn note(&self, _: &Req) {}

    /// Every error is a sign of a stale configuration.
    fn check(&self, (): (), outcome: Result<&Res, &Err>) -> Option<ConfigWaiter> {
        let Self { begun, kind } = self.clone();
        outcome.is_err().then(|| {
            Box::pin(async move {
                begun.fetch_add(1, Ordering::Relaxed);
                match kind {
                    Kind::Hangs => std::future::pending().await,
                    Kind::Panics => panic!("as the test wants"),
                    Kind::Moves | Kind::FindsNothing => tokio::time::sleep(ms(10)).await,
                }
                matches!(kind, Kind::Moves)
            }) as ConfigWaiter
        })
    }
}

type Guard = SingleFlight<Fetches>;

fn send(guard: &Guard) -> FlightNote<()> {
    StaleConfig::<(), (), ()>::note(guard, &())
}

fn fail(guard: &Guard, note: FlightNote<()>) -> ConfigWaiter {
    StaleConfig::<(), (), ()>::check(guard, note, Err(&())).unwrap()
}

fn send_and_fail(guard: &Guard) -> ConfigWaiter {
    fail(guard, send(guard))
}

/// The result of a waiter, and the milliseconds that it took.
async fn wait(waiter: ConfigWaiter) -> (bool, u128) {
    let start = tokio::time::Instant::now();
    let moved = waiter.await;
    (moved, start.elapsed().as_millis())
}

#[tokio::test(start_paused = true)]
async fn calls_that_fail_at_once_cause_one_fetch() {
    for (kind, moved) in [(Kind::Moves, true), (Kind::FindsNothing, false)] {
        let fetches = Fetches::of(kind);
        let guard = SingleFlight::new(fetches.clone());
        let waiters: Vec<_> = (0..50).map(|_| send_and_fail(&guard.clone())).collect();
        let waiting: Vec<_> = waiters.into_iter().map(|w| tokio::spawn(wait(w))).collect();
        for waiter in waiting {
            assert_eq!(waiter.await.unwrap(), (moved, 10));
        }
        assert_eq!(fetches.begun(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_call_waits_for_the_fetch_that_runs() {
    let fetches = Fetches::default();
    let guard = SingleFlight::new(fetches.clone());
    let first = tokio::spawn(wait(send_and_fail(&guard)));
    tokio::time::sleep(ms(6)).await;
    assert_eq!(wait(send_and_fail(&guard)).await, (true, 4));
    assert_eq!(first.await.unwrap(), (true, 10));
    assert_eq!(fetches.begun(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_sent_before_a_fetch_that_is_over_does_not_fetch() {
    let fetches = Fetches::default();
    let guard = SingleFlight::new(fetches.clone());
    let (slow, failing) = (send(&guard), send(&guard));
    assert!(fail(&guard, failing).await);
    assert_eq!(wait(fail(&guard, slow)).await, (true, 0));
    assert_eq!(fetches.begun(), 1);
}

/// The configuration may have changed again since.
#[tokio::test(start_paused = true)]
async fn a_call_sent_after_a_fetch_began_fetches_if_that_is_over() {
    let fetches = Fetches::default();
    let guard = SingleFlight::new(fetches.clone());
    let first = send_and_fail(&guard);
    let during = send(&guard);
    assert!(first.await);
    assert_eq!(wait(fail(&guard, during)).await, (true, 10));
    assert_eq!(wait(send_and_fail(&guard)).await, (true, 10));
    assert_eq!(fetches.begun(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_fetch_goes_on_without_the_call_that_began_it() {
    let fetches = Fetches::default();
    let guard = SingleFlight::new(fetches.clone());
    drop(send_and_fail(&guard));
    tokio::time::sleep(ms(1)).await;
    assert_eq!(wait(send_and_fail(&guard)).await, (true, 9));
    assert_eq!(fetches.begun(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_hangs_ends_at_the_limit() {
    let fetches = Fetches::of(Kind::Hangs);
    let guard = SingleFlight::new(fetches.clone());
    assert_eq!(wait(send_and_fail(&guard)).await, (false, 10_000));
    let short = guard.timeout(Duration::from_millis(30));
    assert_eq!(wait(send_and_fail(&short)).await, (false, 30));
    assert_eq!(fetches.begun(), 2);
}

#[tokio::test(start_paused = true)]
async fn after_a_fetch_that_panicked_the_next_call_fetches() {
    let fetches = Fetches::of(Kind::Panics);
    let guard = SingleFlight::new(fetches.clone());
    let (slow, failing) = (send(&guard), send(&guard));
    assert_eq!(wait(fail(&guard, failing)).await, (false, 0));
    assert_eq!(wait(fail(&guard, slow)).await, (false, 0));
    assert_eq!(fetches.begun(), 1);
    assert!(!send_and_fail(&guard).await);
    assert_eq!(fetches.begun(), 2);
}

#[test]
fn a_fetch_whose_runtime_is_not_driven_is_given_up() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap()
    };
    let fetches = Fetches::default();
    let guard = SingleFlight::new(fetches.clone());
    let idle = runtime();
    // The task is spawned and never polled.
    idle.block_on(async { drop(send_and_fail(&guard)) });
    runtime().block_on(async {
        let (moved, took) = wait(send_and_fail(&guard)).await;
        assert!(!moved && took <= 10_000, "{took}");
        assert_eq!(fetches.begun(), 0);
        assert_eq!(wait(send_and_fail(&guard)).await, (true, 10));
        assert_eq!(fetches.begun(), 1);
    });
    drop(idle);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_shows_nothing_stale_fetches_nothing() {
    let fetches = Fetches::default();
    let guard = SingleFlight::new(fetches.clone());
    let note = send(&guard);
    assert!(StaleConfig::<(), (), ()>::check(&guard, note, Ok(&())).is_none());
    tokio::time::sleep(ms(20)).await;
    assert_eq!(fetches.begun(), 0);
}

/// C33, in a stack.
#[tokio::test(start_paused = true)]
async fn one_fetch_ends_the_back_off_of_all_calls() {
    let fetches = Fetches::default();
    let guard = SingleFlight::new(fetches.clone());
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let first = attempt(1).fails(KV_TEMPORARY_FAILURE);
            let probe = probe([first, attempt(2)]);
            let strategy = crate::strategy::MaxAttempts::new(
                2,
                crate::backoff::Backoff::constant(Duration::from_secs(1)),
            );
            let service = ServiceBuilder::new()
                .layer(RetryLayer::new(verdict as Verdicts, strategy))
                .layer(ConfigPollLayer::new(guard.clone()))
                .service(probe.inner());
            let request = probe.request();
            tokio::spawn(async move {
                let outcome = service.oneshot(request).await;
                (told(&outcome), probe.log().times())
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), (Told::Answer(2), vec![0, 10]));
    }
    assert_eq!(fetches.begun(), 1);
}

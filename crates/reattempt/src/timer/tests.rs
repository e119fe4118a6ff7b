use std::future::poll_fn;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use super::*;
use crate::clock;

const SECOND: Duration = Duration::from_secs(1);

/// The futures that timers belong to.
static OWNERS: [[u8; 8]; 2] = [[0; 8]; 2];

struct Ignores;

impl Wake for Ignores {
    fn wake(self: Arc<Self>) {}
}

/// Polls a timer for the next second with this waker, and says whether it counts for the task.
fn counts(timer: &mut Timer, waker: Option<&Waker>, cx: &mut Context<'_>) -> bool {
    let at = clock::now() + SECOND;
    let mut own = waker.map_or_else(|| Context::from_waker(cx.waker()), Context::from_waker);
    timer.set_to(at);
    let owner = address(&OWNERS[0][7]);
    assert!(timer.poll_of(owner, &mut own).is_pending());
    let earlier = at - Duration::from_nanos(1);
    assert!(!is_armed(earlier, cx, &OWNERS[0]), "it is too late");
    assert!(!is_armed(at, cx, &OWNERS[1]), "it is of another future");
    is_armed(at, cx, &OWNERS[0])
}

#[tokio::test(start_paused = true)]
async fn an_armed_timer_counts_until_it_is_dropped() {
    poll_fn(|cx| {
        let mut timer = Timer::default();
        assert!(counts(&mut timer, None, cx));
        let at = clock::now() + SECOND;
        drop(Timer::default());
        assert!(is_armed(at, cx, &OWNERS[0]), "another was dropped");
        drop(timer);
        assert!(!is_armed(at, cx, &OWNERS[0]));
        Poll::Ready(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_timer_of_another_waker_does_not_count() {
    poll_fn(|cx| {
        let mut timer = Timer::default();
        assert!(!counts(&mut timer, Some(Waker::noop()), cx));
        let other = Waker::from(Arc::new(Ignores));
        assert!(!counts(&mut timer, Some(&other), cx));
        assert!(counts(&mut timer, None, cx));
        Poll::Ready(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_was_polled_before_does_not_count() {
    poll_fn(|cx| {
        let mut timer = Timer::default();
        assert!(counts(&mut timer, None, cx));
        forget_armed();
        assert!(!is_armed(clock::now() + SECOND, cx, &OWNERS[0]));
        Poll::Ready(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_has_fired_does_not_count() {
    let at = clock::now() + SECOND;
    let owner = address(&OWNERS[0]);
    let mut timer = Timer::default();
    timer.set_to(at);
    poll_fn(|cx| timer.poll_of(owner, cx)).await;
    assert_eq!(clock::now(), at);
    poll_fn(|cx| {
        assert!(timer.poll_of(owner, cx).is_ready());
        assert!(!is_armed(at, cx, &OWNERS[0]));
        Poll::Ready(())
    })
    .await;
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build();
    runtime.expect("a runtime with timers")
}

/// Polls a timer for this time from now, and drops it before it fires. Returns where it was.
async fn leaves_a_timer(time: Duration) -> usize {
    let mut timer = Timer::after(time);
    poll_fn(|cx| {
        assert!(timer.poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
    place(&timer)
}

fn place(timer: &Timer) -> usize {
    address(&**timer.0.as_ref().expect("it is set"))
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_was_left_fires_at_its_new_instant() {
    for (left, time) in [(1, 1), (1, 3), (3, 1), (0, 1)].map(|(a, b)| (SECOND * a, SECOND * b)) {
        let at = leaves_a_timer(left.max(Duration::from_millis(1))).await;
        if left.is_zero() {
            // It fires before it is used again.
            tokio::time::sleep(SECOND).await;
        }
        let began = clock::now();
        let mut timer = Timer::after(time);
        assert_eq!(place(&timer), at, "it is the one that was left");
        poll_fn(|cx| timer.poll(cx)).await;
        assert_eq!(clock::now() - began, time);
    }
}

#[test]
fn a_timer_of_another_runtime_is_not_used_again() {
    let ended = runtime();
    let (first, second) = ended.block_on(async {
        let other = Timer::after(SECOND);
        let first = leaves_a_timer(SECOND).await;
        (first, place(&other))
    });
    drop(ended);
    assert_ne!(first, second, "two are kept");
    runtime().block_on(async {
        let began = clock::now();
        let mut timer = Timer::after(SECOND);
        let kept = SPARE.with(Pool::take);
        let registered = kept.is_some_and(|kept| kept.sleep.is_some());
        assert!(!registered, "it would keep the runtime that has ended");
        poll_fn(|cx| timer.poll(cx)).await;
        assert_eq!(clock::now() - began, SECOND);
    });
}

#[test]
fn a_timer_that_goes_to_another_runtime_is_set_in_it() {
    let (one, other) = (runtime(), runtime());
    let mut timer = one.block_on(async {
        let mut timer = Timer::after(SECOND);
        poll_fn(|cx| timer.poll(cx)).await;
        timer
    });
    drop(one);
    other.block_on(async {
        let began = clock::now();
        timer.set_to(began + SECOND);
        poll_fn(|cx| timer.poll(cx)).await;
        assert_eq!(clock::now() - began, SECOND);
    });
}

#[tokio::test(start_paused = true)]
async fn timers_for_other_threads_are_not_registered() {
    let many: Vec<_> = (0..100).map(|_| Timer::after(SECOND)).collect();
    drop(many);
    let (mut here, mut left) = (0, 0);
    while let Some(timer) = SPARE.with(Pool::take) {
        match timer.sleep {
            Some(_) => here += 1,
            None => left += 1,
        }
    }
    assert_eq!(here + left, 100);
    assert!(left > 0, "a thread keeps fewer");
}

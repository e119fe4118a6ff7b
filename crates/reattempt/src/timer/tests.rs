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
        assert!(
            is_armed(at, cx, &OWNERS[0]),
            "one that was not set is dropped"
        );
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
    let polled = poll_fn(|cx| Poll::Ready(timer.poll(cx)));
    assert!(polled.await.is_pending());
    place(&timer)
}

fn place(timer: &Timer) -> usize {
    address(&**timer.0.as_ref().expect("it is set"))
}

/// Takes what this thread keeps and is registered with a runtime.
fn kept() -> Vec<Pin<Box<Kept>>> {
    let all = std::iter::from_fn(|| SPARE.with(Pool::take));
    // Other threads may have left some.
    all.take_while(|timer| timer.sleep.is_some()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_was_left_fires_at_its_new_instant() {
    for (left, time) in [(1, 1), (1, 3), (3, 1)].map(|(a, b)| (SECOND * a, SECOND * b)) {
        let held = Arc::new(Ignores);
        let mut timer = Timer::after(left);
        let waker = Waker::from(Arc::clone(&held));
        assert!(timer.poll(&mut Context::from_waker(&waker)).is_pending());
        drop((timer, waker));
        let began = clock::now();
        let mut timer = Timer::after(time);
        assert_eq!(Arc::strong_count(&held), 2, "it is the one that was left");
        poll_fn(|cx| timer.poll(cx)).await;
        assert_eq!(clock::now() - began, time);
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_fires_while_it_is_kept_is_set_again() {
    let at = leaves_a_timer(SECOND).await;
    tokio::time::sleep(SECOND * 2).await;
    let began = clock::now();
    let mut timer = Timer::after(SECOND);
    assert_eq!(place(&timer), at);
    poll_fn(|cx| timer.poll(cx)).await;
    assert_eq!(clock::now() - began, SECOND);
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_is_registered_unless_it_has_fired() {
    for (time, registered) in [(SECOND, 1), (Duration::ZERO, 0)] {
        let held = Arc::new(Ignores);
        let waker = Waker::from(Arc::clone(&held));
        let mut timer = Timer::after(time);
        let _ = timer.poll(&mut Context::from_waker(&waker));
        tokio::time::sleep(Duration::from_millis(5)).await;
        let _ = timer.poll(&mut Context::from_waker(&waker));
        drop((timer, waker));
        let users = Arc::strong_count(&held) - 1;
        assert_eq!(
            users, registered,
            "{time:?}: the waker is kept until it fires"
        );
        assert_eq!(kept().len(), registered, "{time:?}");
    }
}

#[test]
fn a_timer_of_another_runtime_is_not_used_again() {
    let ended = runtime();
    ended.block_on(async {
        let others = [Timer::after(SECOND), Timer::after(SECOND)];
        leaves_a_timer(SECOND).await;
        drop(others);
        let all = kept();
        assert_eq!(all.len(), 3);
        for timer in all {
            SPARE.with(|spare| spare.put(timer));
        }
    });
    drop(ended);
    runtime().block_on(async {
        let began = clock::now();
        let mut timer = Timer::after(SECOND);
        assert_eq!(
            kept().len(),
            0,
            "they would keep the runtime that has ended"
        );
        poll_fn(|cx| timer.poll(cx)).await;
        assert_eq!(clock::now() - began, SECOND);
    });
}

#[test]
fn a_thread_keeps_no_timer_of_another_runtime() {
    let (one, other) = (runtime(), runtime());
    let of_one = || one.block_on(async { Timer::after(SECOND) });
    for has_runtime in [false, true] {
        let timer = of_one();
        let other = other.handle().clone();
        let kept = std::thread::spawn(move || {
            let _other = has_runtime.then(|| other.enter());
            let own = has_runtime.then(|| Timer::after(SECOND));
            drop(timer);
            let kept = kept().len();
            drop(own);
            kept
        });
        assert_eq!(kept.join().expect("it drops the timer"), 0);
    }
}

#[test]
fn a_timer_that_goes_to_another_runtime_is_set_in_it() {
    let (one, other) = (runtime(), runtime());
    let mut timer = one.block_on(async { Timer::after(SECOND) });
    drop(one);
    other.block_on(async {
        let began = clock::now();
        timer.set_to(began + SECOND * 2);
        poll_fn(|cx| timer.poll(cx)).await;
        assert_eq!(clock::now() - began, SECOND * 2);
    });
}

#[test]
fn a_timer_is_set_again_where_there_is_no_runtime() {
    let runtime = runtime();
    let mut timer = runtime.block_on(async { Timer::after(SECOND) });
    timer.set_to(timer.instant().expect("it is set") + SECOND);
    runtime.block_on(async {
        let began = clock::now();
        poll_fn(|cx| timer.poll(cx)).await;
        assert_eq!(clock::now() - began, SECOND * 2);
    });
}

#[tokio::test(start_paused = true)]
async fn timers_that_threads_leave_to_others_are_not_registered() {
    let many: Vec<_> = (0..1_000).map(|_| Timer::after(SECOND)).collect();
    drop(many);
    let kept = kept().len();
    assert!((1..=64).contains(&kept), "{kept}");
    let left = std::iter::from_fn(|| SPARE.with(Pool::take));
    assert!(left.take(1_000).all(|timer| timer.sleep.is_none()));
}

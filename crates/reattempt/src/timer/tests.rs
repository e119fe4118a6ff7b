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
fn counts(mut timer: Pin<&mut Timer>, waker: Option<&Waker>, cx: &mut Context<'_>) -> bool {
    let at = clock::now() + SECOND;
    let mut own = waker.map_or_else(|| Context::from_waker(cx.waker()), Context::from_waker);
    timer.as_mut().set_to(at);
    let owner = address(&OWNERS[0][7]);
    assert!(timer.poll(owner, &mut own).is_pending());
    let earlier = at - Duration::from_nanos(1);
    assert!(!is_armed(earlier, cx, &OWNERS[0]), "it is too late");
    assert!(!is_armed(at, cx, &OWNERS[1]), "it is of another future");
    is_armed(at, cx, &OWNERS[0])
}

#[tokio::test(start_paused = true)]
async fn an_armed_timer_counts_until_it_is_dropped() {
    poll_fn(|cx| {
        let mut timer = Box::pin(Timer::default());
        assert!(counts(timer.as_mut(), None, cx));
        let at = clock::now() + SECOND;
        drop(Box::pin(Timer::default()));
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
        let mut timer = pin!(Timer::default());
        assert!(!counts(timer.as_mut(), Some(Waker::noop()), cx));
        let other = Waker::from(Arc::new(Ignores));
        assert!(!counts(timer.as_mut(), Some(&other), cx));
        assert!(counts(timer, None, cx));
        Poll::Ready(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_was_polled_before_does_not_count() {
    poll_fn(|cx| {
        let mut timer = pin!(Timer::default());
        assert!(counts(timer.as_mut(), None, cx));
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
    let mut timer = pin!(Timer::default());
    timer.as_mut().set_to(at);
    poll_fn(|cx| timer.as_mut().poll(owner, cx)).await;
    assert_eq!(clock::now(), at);
    poll_fn(|cx| {
        assert!(timer.as_mut().poll(owner, cx).is_ready());
        assert!(!is_armed(at, cx, &OWNERS[0]));
        Poll::Ready(())
    })
    .await;
}

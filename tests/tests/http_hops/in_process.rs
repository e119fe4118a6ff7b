//! On paused time, with in-process calls between the hops.

use std::time::Duration;

use http::Request;
use tower::ServiceExt;

use super::chain::{Calls, Habits, NEVER, Next, bottom, client, hop};

/// Five clients in a row, each calling the next hop; the last calls the bottom.
const HOPS: usize = 5;

struct Chain {
    top: Next,
    /// How often each hop was called, from the one below the top to the bottom.
    calls: [Calls; HOPS],
}

impl Chain {
    fn new(
        answers: impl Fn(u32) -> u16 + Clone + Send + Sync + 'static,
        habits: [Habits; HOPS],
    ) -> Self {
        let calls: [Calls; HOPS] = Default::default();
        let mut next = bottom(answers, calls[HOPS - 1].clone());
        for at in (0..HOPS - 1).rev() {
            next = hop(next, habits[at + 1], calls[at].clone());
        }
        let top = client(next, habits[0]);
        Self { top, calls }
    }

    /// Makes this many calls at the top sequentially; returns how many succeeded.
    async fn call(&self, times: u32) -> u32 {
        let mut worked = 0;
        for _ in 0..times {
            let outcome = self.top.clone().oneshot(Request::new(())).await;
            worked += u32::from(outcome.is_ok_and(|answer| answer.status().is_success()));
        }
        worked
    }

    /// Makes this many calls at the top; returns how often each hop was called.
    async fn called(&self, times: u32) -> [u32; HOPS] {
        assert_eq!(self.call(times).await, 0);
        self.counts()
    }

    fn counts(&self) -> [u32; HOPS] {
        self.calls.each_ref().map(Calls::count)
    }

    fn at_the_bottom(&self) -> u32 {
        self.counts()[HOPS - 1]
    }
}

const PLAIN: Habits = Habits {
    tell: false,
    throttled: false,
    attempt: None,
};
const TELL: Habits = Habits {
    tell: true,
    throttled: false,
    attempt: None,
};
const THROTTLED: Habits = Habits {
    tell: false,
    throttled: true,
    attempt: None,
};
const BOTH: Habits = Habits {
    tell: true,
    throttled: true,
    attempt: None,
};

/// Independent services with throttles: each hop retries until its own throttle closes.
#[tokio::test(start_paused = true)]
async fn with_throttles_alone_every_hop_spends_its_own() {
    let chain = Chain::new(|_| 503, [THROTTLED; HOPS]);
    assert_eq!(chain.called(1).await, [3, 6, 9, 12, 15]);
    assert_eq!(chain.called(19).await, [23, 26, 29, 32, 35]);
}

#[tokio::test(start_paused = true)]
async fn calls_at_once_stay_below_five_quarters_too() {
    let chain = Chain::new(|_| 503, [BOTH; HOPS]);
    let calls = 200;
    let all = (0..calls).map(|_| chain.top.clone().oneshot(Request::new(())));
    let mut tasks = tokio::task::JoinSet::new();
    for call in all {
        tasks.spawn(call);
    }
    while let Some(done) = tasks.join_next().await {
        assert_eq!(done.unwrap().unwrap().status(), 503);
    }
    assert_eq!(chain.counts()[..4], [calls; 4]);
    assert!(
        chain.at_the_bottom() * 4 < calls * 5,
        "{}",
        chain.at_the_bottom()
    );
}

#[tokio::test(start_paused = true)]
async fn under_a_partial_outage_the_calls_still_work() {
    // One response in twenty fails, and sometimes two in a row.
    let fails = |n: u32| {
        if n % 20 == 0 || n % 140 == 1 {
            503
        } else {
            200
        }
    };
    let chain = Chain::new(fails, [BOTH; HOPS]);
    let calls = 1000;
    assert_eq!(chain.call(calls).await, calls);
    assert_eq!(chain.counts()[..4], [calls; 4]);
    assert!(chain.at_the_bottom() * 100 < calls * 110);
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_the_calls_work_again() {
    let chain = Chain::new(|n| if n < 100 { 503 } else { 200 }, [BOTH; HOPS]);
    chain.call(100).await;
    assert_eq!(chain.call(100).await, 100);
    assert_eq!(chain.counts()[..4], [200; 4]);
}

/// A failure in the middle: the hop above it retries.
#[tokio::test(start_paused = true)]
async fn a_hop_that_fails_itself_is_retried_by_the_hop_above() {
    let (broken, above, top) = (Calls::default(), Calls::default(), Calls::default());
    let next = bottom(|n| if n % 3 == 0 { 200 } else { 503 }, broken.clone());
    let next = hop(next, TELL, above.clone());
    let next = hop(next, TELL, top.clone());
    let client = client(next, TELL);
    let answer = client.oneshot(Request::new(())).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!((top.count(), above.count(), broken.count()), (1, 1, 3));
}

/// Each hop can adopt the signals independently. One that has not retries regardless of the hop
/// below, and is retried by the hop above; no hop above that retries.
#[tokio::test(start_paused = true)]
async fn a_hop_without_the_signals_adds_its_own_and_one_more_factor() {
    let mut habits = [TELL; HOPS];
    habits[3] = PLAIN;
    let chain = Chain::new(|_| 503, habits);
    assert_eq!(chain.called(1).await, [1, 1, 3, 9, 27]);
}

/// The timeout shrinks from hop to hop: a tenth of a second at the bottom, four times as long
/// per hop further up.
fn patient(habits: Habits) -> [Habits; HOPS] {
    let limit = |at| Duration::from_millis(100 * 4_u64.pow((HOPS - 1 - at) as u32));
    std::array::from_fn(|at| Habits {
        attempt: Some(limit(at)),
        ..habits
    })
}

#[tokio::test(start_paused = true)]
async fn a_bottom_that_hangs_is_tried_by_the_hop_above_it_alone() {
    let never = |_| NEVER;
    assert_eq!(
        Chain::new(never, patient(PLAIN)).called(1).await,
        [3, 9, 27, 81, 243]
    );
    assert_eq!(
        Chain::new(never, patient(TELL)).called(10).await,
        [10, 10, 10, 10, 30]
    );
    assert_eq!(
        Chain::new(never, patient(BOTH)).called(20).await,
        [20, 20, 20, 20, 23]
    );
}

/// If all hops have the same timeout per attempt, only the one at the top has time left for another
/// attempt, and none below it has retried.
#[tokio::test(start_paused = true)]
async fn time_that_is_over_for_all_is_tried_again_at_the_top() {
    let same = |habits| {
        [Habits {
            attempt: Some(Duration::from_millis(100)),
            ..habits
        }; HOPS]
    };
    let never = |_| NEVER;
    assert_eq!(Chain::new(never, same(PLAIN)).called(10).await, [30; HOPS]);
    assert_eq!(Chain::new(never, same(TELL)).called(10).await, [30; HOPS]);
}

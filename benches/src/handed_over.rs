//! Calls that one thread begins and another one ends, as where a thread accepts requests and others
//! serve them.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::task::{Context, Waker};
use std::thread;

use http::Method;
use reattempt::{DeadlineLayer, RetryLayer, RouteLayer, RoutePolicy};
use reattempt_http::HttpClientLayer;
use tower::{Service, ServiceBuilder};

use crate::{Count, http_calls, typical};

/// More than a thread keeps of calls that ended.
const AT_ONCE: u64 = 200;
const ROUNDS: u64 = 50;
/// The first calls find nothing to reuse.
const FIRST_ROUNDS: u64 = 10;

/// What each of many calls allocates on the thread that begins it, and on the one that ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocated {
    /// The layers.
    pub name: &'static str,
    /// On the thread that begins the call.
    pub begun: u64,
    /// On the thread that ends it.
    pub ended: u64,
}

/// Begins calls here, and ends them on a thread that lives as long.
fn measure<S, R>(
    total: Count,
    name: &'static str,
    mut service: S,
    request: impl Fn() -> R,
) -> Allocated
where
    S: Service<R>,
    S::Future: Send,
{
    let (hand_over, taken) = sync_channel::<Vec<S::Future>>(1);
    let (empty, returned) = sync_channel(1);
    let runtime = tokio::runtime::Handle::current();
    let mut cx = Context::from_waker(Waker::noop());
    let mut calls = Vec::with_capacity(AT_ONCE as usize);
    let (mut begun, mut requests) = (0, 0);
    let ended = thread::scope(|scope| {
        let ends = scope.spawn(move || {
            let _guard = runtime.enter();
            let mut allocated = 0;
            for (round, mut calls) in (0..).zip(&taken) {
                let (ended, _) = total(&mut || calls.drain(..).for_each(end));
                if round >= FIRST_ROUNDS {
                    allocated += ended;
                }
                empty.send(calls).expect("it is taken");
            }
            allocated
        });
        for round in 0..FIRST_ROUNDS + ROUNDS {
            let (made, _) = total(&mut || {
                for _ in 0..AT_ONCE {
                    drop(request());
                }
            });
            let (all, _) = total(&mut || {
                for _ in 0..AT_ONCE {
                    assert!(service.poll_ready(&mut cx).is_ready(), "not ready");
                    calls.push(service.call(request()));
                }
            });
            if round >= FIRST_ROUNDS {
                begun += all;
                requests += made;
            }
            hand_over.send(std::mem::take(&mut calls)).expect("taken");
            calls = returned.recv().expect("they end");
        }
        drop(hand_over);
        ends.join().expect("no call fails")
    });
    // A single allocation would count.
    let per_call = |all: u64| all.div_ceil(AT_ONCE * ROUNDS);
    Allocated {
        name,
        begun: per_call(begun - requests),
        ended: per_call(ended),
    }
}

fn end<F: Future>(call: F) {
    let mut call: Pin<&mut F> = pin!(call);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut cx).is_ready(), "it is pending");
}

/// All measured stacks. `total` counts what was freed too. Needs a runtime with timers.
#[must_use]
pub fn all(total: Count) -> [Allocated; 2] {
    let http = ServiceBuilder::new()
        .layer(HttpClientLayer::standard())
        .service(http_calls::Server);
    let key_value = ServiceBuilder::new()
        .layer(RouteLayer::new(Arc::new(RoutePolicy::new("bench"))))
        .layer(DeadlineLayer::new(typical::LIMIT))
        .layer(typical::throttle())
        .layer(RetryLayer::new(typical::Classifier, typical::at_once()))
        .layer(typical::reports())
        .service(typical::Server::new(0, 0));
    [
        measure(total, "key-value", key_value, || typical::call(1)),
        measure(total, "http, preset", http, || {
            http_calls::request(Method::GET, "")
        }),
    ]
}

/// What each of many key-value calls allocates that begin together and end together, on one thread.
#[must_use]
pub fn together(total: Count) -> u64 {
    let mut service = typical::six(typical::Server::new(0, 0));
    let mut cx = Context::from_waker(Waker::noop());
    let mut calls = Vec::with_capacity(AT_ONCE as usize);
    let mut round = || {
        for number in 0..AT_ONCE {
            assert!(service.poll_ready(&mut cx).is_ready(), "not ready");
            calls.push(service.call(typical::call(number)));
        }
        calls.drain(..).for_each(end);
    };
    (0..FIRST_ROUNDS).for_each(|_| round());
    let (all, _) = total(&mut || (0..ROUNDS).for_each(|_| round()));
    all.div_ceil(AT_ONCE * ROUNDS)
}

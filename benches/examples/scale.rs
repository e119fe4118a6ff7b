//! How cost and memory grow: threads that share six layers, calls in flight, routes of a table.
//!
//! ```text
//! cargo run --release -p reattempt-benches --example scale            # all three
//! cargo run --release -p reattempt-benches --example scale 100000     # 100,000 calls in flight
//! ```

#![allow(
    clippy::disallowed_methods,
    reason = "measures real time, without tokio's clock"
)]

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Barrier;
use std::task::{Context, Waker};
use std::thread;
use std::time::Instant;

use http::Request;
use reattempt::Route;
use reattempt_benches::typical::{Server, call, drive, six_layers};
use reattempt_benches::{http as routes, with_timers};
use tower::{Layer, Service};

const CALLS: u64 = 1_000_000;

fn main() {
    let in_flight = std::env::args().nth(1).map(|count| count.parse());
    let Ok(in_flight) = in_flight.unwrap_or(Ok(1_000_000)) else {
        eprintln!("usage: scale [CALLS IN FLIGHT]");
        std::process::exit(2);
    };
    threads();
    with_timers(|| flights(in_flight));
    tables();
}

/// Each thread sends calls of its own through layers that all share: policy, throttle, settings.
fn threads() {
    println!(
        "{:>10} {:>16} {:>16}",
        "threads", "calls a second", "ns a call"
    );
    for count in [1, 2, 4, 8] {
        let (layers, start) = (six_layers(), Barrier::new(count + 1));
        let took = thread::scope(|scope| {
            let threads: Vec<_> = (0..count)
                .map(|_| {
                    let (service, start) = (layers.layer(Server::new(0, 0)), &start);
                    scope.spawn(move || {
                        start.wait();
                        drive(service, CALLS, call)
                    })
                })
                .collect();
            start.wait();
            let begun = Instant::now();
            for thread in threads {
                thread.join().expect("no call fails");
            }
            begun.elapsed().as_secs_f64()
        });
        let calls = CALLS as f64 * count as f64;
        println!(
            "{count:>10} {:>16.0} {:>16.1}",
            calls / took,
            took * 1e9 / calls
        );
    }
}

/// Calls that wait for their first attempt, each with a timer for its deadline.
fn flights(count: u64) {
    let mut service = six_layers().layer(Server::new(0, 1));
    let mut cx = Context::from_waker(Waker::noop());
    let mut calls: Vec<Pin<Box<dyn Future<Output = _>>>> = Vec::with_capacity(count as usize);
    let begun = Instant::now();
    let held = allocation_counter::measure(|| {
        for number in 0..count {
            let mut flight: Pin<Box<dyn Future<Output = _>>> = Box::pin(service.call(call(number)));
            assert!(flight.as_mut().poll(&mut cx).is_pending(), "it responded");
            calls.push(flight);
        }
    });
    let begun = begun.elapsed().as_secs_f64();
    let size = calls.first().map_or(0, |call| size_of_val(&**call));
    let ended = Instant::now();
    for flight in &mut calls {
        assert!(flight.as_mut().poll(&mut cx).is_ready(), "it is pending");
    }
    drop(calls);
    println!(
        "{count} calls in flight: {:.0} bytes and {:.2} allocations a call, of which {size} the \
         future; {:.0} ns to send a call, {:.0} ns to end it",
        held.bytes_current as f64 / count as f64,
        held.count_current as f64 / count as f64,
        begun * 1e9 / count as f64,
        ended.elapsed().as_nanos() as f64 / count as f64,
    );
}

/// Tables of HTTP policies: how long one takes to read, and a request to find the last route.
fn tables() {
    for count in [10_usize, 1_000, 15_000] {
        let read = Instant::now();
        let table = routes::table(count);
        let read = read.elapsed();
        let last = (0..count).rfind(|n| n % 3 == 2).unwrap_or_default();
        let request = Request::get(format!("http://api.example/v1/things/{last}"))
            .body(())
            .expect("a valid URI");
        let asked = Instant::now();
        let found = (0..CALLS)
            .filter(|_| black_box(&table).route(black_box(&request)).is_some())
            .count();
        println!(
            "{count} routes: read in {:.1} ms, {:.0} ns for the last one ({found} found)",
            read.as_secs_f64() * 1e3,
            asked.elapsed().as_nanos() as f64 / CALLS as f64,
        );
    }
}

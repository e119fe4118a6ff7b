//! Interleavings of what threads share in a pool.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loom::thread;

use super::{Attempted, CircuitBreaker, CircuitState, HealthPolicy, Outcome, Pool, Sent};
use crate::policy::backoff::Randomness;
use crate::sync::Ordering;

fn pool(now: Instant, backends: usize) -> Arc<Pool> {
    let policy = HealthPolicy::standard()
        .consecutive_failures(1)
        .slow_start(Duration::ZERO)
        .probe_interval(Duration::from_millis(500))
        .randomness(Randomness::Fixed(0.5));
    Arc::new(Pool::new(policy, backends, now))
}

/// An attempt at this backend, sent because the call tried the other.
fn send_to(pool: &Pool, now: Instant, at: usize) -> Sent {
    let attempt = Attempted {
        tried: &[1 - at],
        may_lose: false,
    };
    pool.send(now, attempt).unwrap()
}

fn ejected(pool: &Pool, now: Instant) -> usize {
    let status = pool.status(now);
    assert!(status.iter().all(|one| one.in_flight == 0));
    status.iter().filter(|one| one.is_ejected()).count()
}

/// With two preemptions: without a bound there are too many interleavings.
fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(run);
}

#[test]
fn two_backends_that_fail_at_once_are_not_both_ejected() {
    model(|| {
        let now = Instant::now();
        let pool = pool(now, 2);
        let (one, two) = (send_to(&pool, now, 0), send_to(&pool, now, 1));
        let own = Arc::clone(&pool);
        let other = thread::spawn(move || own.ended(one, now, Outcome::Failure, None));
        pool.ended(two, now, Outcome::Failure, None);
        other.join().unwrap();
        assert_eq!(ejected(&pool, now), 1);
    });
}

#[test]
fn two_hedges_do_not_probe_one_backend_at_once() {
    model(|| {
        let now = Instant::now();
        let pool = pool(now, 2);
        let failed = send_to(&pool, now, 0);
        pool.ended(failed, now, Outcome::Failure, None);
        // Before the next tick, which both would be held up by.
        let later = now + Duration::from_millis(900);
        let hedge = move |pool: &Pool| {
            let attempt = Attempted {
                tried: &[],
                may_lose: true,
            };
            pool.send(later, attempt).unwrap()
        };
        let own = Arc::clone(&pool);
        let other = thread::spawn(move || hedge(&own));
        let sent = [hedge(&pool), other.join().unwrap()];
        assert_eq!(sent.iter().filter(|sent| sent.is_probe()).count(), 1);
        for sent in sent {
            pool.ended(sent, later, Outcome::Success, None);
        }
        assert_eq!(ejected(&pool, later), 0);
    });
}

#[test]
fn a_tick_does_not_forget_what_a_server_asked_for() {
    model(|| {
        let now = Instant::now();
        let pool = pool(now, 2);
        let sent = send_to(&pool, now, 0);
        let later = now + Duration::from_secs(2);
        let own = Arc::clone(&pool);
        let hold = Some(Duration::from_secs(10));
        let other = thread::spawn(move || own.ended(sent, later, Outcome::Success, hold));
        let ticks = send_to(&pool, later, 1);
        other.join().unwrap();
        let plain_until = pool.common.plain_until.load(Ordering::Relaxed);
        assert_eq!(plain_until, 0, "one of them is held");
        pool.ended(ticks, later, Outcome::Success, None);
    });
}

/// Two attempts are unanswered, one is answered, and the next is unanswered while a tick is due.
#[test]
fn a_tick_does_not_forget_an_answer() {
    model(|| {
        let start = Instant::now();
        let at = move |ms| start + Duration::from_millis(ms);
        let policy = HealthPolicy::standard()
            .consecutive_failures(1)
            .interval(Duration::from_millis(100));
        let breaker = Arc::new(CircuitBreaker::new(policy, start));
        let call = |sent, ended, outcome| {
            let sent = breaker.admit(at(sent)).unwrap();
            breaker.ended(sent, at(ended), outcome);
        };
        call(0, 50, Outcome::Success);
        call(1000, 1010, Outcome::TimedOut);
        call(1080, 1090, Outcome::TimedOut);
        call(1100, 1120, Outcome::Success);
        let late = breaker.admit(at(1180)).unwrap();
        let own = Arc::clone(&breaker);
        let other = thread::spawn(move || own.ended(late, at(1215), Outcome::TimedOut));
        let ticks = breaker.admit(at(1210)).unwrap();
        other.join().unwrap();
        breaker.ended(ticks, at(1220), Outcome::Success);
        assert_eq!(breaker.state(at(1220)), CircuitState::Closed);
    });
}

#[test]
fn two_threads_that_open_a_circuit_are_one_event() {
    use std::sync::atomic::{AtomicU32, Ordering};
    model(|| {
        let breaker = Arc::new(CircuitBreaker::new(
            HealthPolicy::standard(),
            Instant::now(),
        ));
        let events = Arc::new(AtomicU32::new(0));
        let counts = Arc::clone(&events);
        breaker.on_event(move |_| {
            counts.fetch_add(1, Ordering::Relaxed);
        });
        let own = Arc::clone(&breaker);
        let other = thread::spawn(move || own.open());
        breaker.open();
        other.join().unwrap();
        assert_eq!(events.load(Ordering::Relaxed), 1);
    });
}

/// Two threads act on a circuit, which was prepared: what listeners know is its state then.
fn known_as_it_is(
    prepare: fn(&CircuitBreaker, Instant),
    one: fn(&CircuitBreaker, Instant),
    two: fn(&CircuitBreaker, Instant),
) {
    model(move || {
        let now = Instant::now();
        let policy = HealthPolicy::standard().consecutive_failures(1);
        let breaker = Arc::new(CircuitBreaker::new(policy, now));
        prepare(&breaker, now);
        let own = Arc::clone(&breaker);
        let other = thread::spawn(move || one(&own, now));
        two(&breaker, now);
        other.join().unwrap();
        let is_open = breaker.state(now) != CircuitState::Closed;
        assert_eq!(breaker.is_known_open(), is_open);
    });
}

fn fail(breaker: &CircuitBreaker, now: Instant) {
    let sent = breaker.admit(now).unwrap();
    breaker.ended(sent, now, Outcome::Failure);
}

/// Long after the failure that opened it.
fn succeed_later(breaker: &CircuitBreaker, now: Instant) {
    let later = now + Duration::from_secs(3600);
    if let Ok(sent) = breaker.admit(later) {
        breaker.ended(sent, later, Outcome::Success);
    }
}

#[test]
fn a_circuit_left_to_itself_as_it_opens_is_known_to_be_open() {
    known_as_it_is(
        |breaker, _| breaker.close(),
        |breaker, _| breaker.automatic(),
        fail,
    );
}

#[test]
fn a_circuit_opened_by_hand_in_a_trial_is_known_to_be_open() {
    known_as_it_is(fail, |breaker, _| breaker.open(), succeed_later);
}

#[test]
fn a_circuit_that_two_threads_switch_is_known_as_it_is() {
    known_as_it_is(
        |_, _| {},
        |breaker, _| breaker.open(),
        |breaker, _| breaker.close(),
    );
}

mod a50_rules;
mod bounds;
mod breaker;
#[cfg(feature = "tokio")]
mod late;
mod live;
mod picks;
#[cfg(feature = "config")]
mod reading;

use std::time::{Duration, Instant};

use super::*;

/// A pool and its clock.
struct Lab {
    pool: Pool,
    now: Instant,
}

#[allow(clippy::disallowed_methods, reason = "only a place to start from")]
fn start() -> Instant {
    Instant::now()
}

/// No backend is ejected.
const NONE: [usize; 0] = [];
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

impl Lab {
    fn new(policy: HealthPolicy, backends: usize) -> Self {
        let policy = policy.randomness(crate::backoff::Randomness::seeded(7));
        let now = start();
        let pool = Pool::new(policy, backends, now);
        Self { pool, now }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// What is due by time happens with the next attempt.
    fn look(&mut self) {
        let sent = self.send();
        self.pool.ended(sent, self.now, Outcome::Dropped, None);
    }

    fn send(&self) -> Sent {
        self.try_send(&[], false).expect("a backend")
    }

    fn try_send(&self, tried: &[usize], may_lose: bool) -> Option<Sent> {
        self.pool.send(self.now, Attempted { tried, may_lose })
    }

    /// An attempt at this backend, because the call tried the others.
    fn send_to(&self, at: usize) -> Sent {
        let others: Vec<_> = (0..self.pool.status(self.now).len())
            .filter(|other| *other != at)
            .collect();
        let sent = self.try_send(&others, false).expect("a backend");
        assert_eq!(sent.at(), at);
        sent
    }

    fn look_after(&mut self, time: Duration) {
        self.pass(time);
        self.look();
    }

    /// An attempt at this backend that ends this long after now; the clock does not move.
    fn ends(&self, at: usize, after: Duration, outcome: Outcome) {
        let sent = self.send_to(at);
        self.pool.ended(sent, self.now + after, outcome, None);
    }

    /// The same, and the clock moves on until then.
    fn lasts(&mut self, at: usize, time: Duration, outcome: Outcome) {
        let sent = self.send_to(at);
        self.pass(time);
        self.pool.ended(sent, self.now, outcome, None);
    }

    /// A success of this backend, at once, that asks for this delay.
    fn pushes_back(&self, at: usize, hold: Duration) {
        let sent = self.send_to(at);
        let outcome = Outcome::Success;
        self.pool.ended(sent, self.now, outcome, Some(hold));
    }

    /// Attempts at this backend, each of a millisecond, and their results.
    fn results(&self, at: usize, successes: usize, failures: usize) {
        let results = [(Outcome::Success, successes), (Outcome::Failure, failures)];
        for (outcome, times) in results {
            (0..times).for_each(|_| self.ends(at, MS, outcome));
        }
    }

    fn ejected(&self) -> Vec<usize> {
        let all = self.pool.status(self.now);
        let is_ejected = |at: &usize| all[*at].is_ejected();
        (0..all.len()).filter(is_ejected).collect()
    }

    /// How many of `calls` attempts of a millisecond each backend gets.
    fn shares(&mut self, calls: usize) -> Vec<usize> {
        let mut shares = vec![0; self.pool.status(self.now).len()];
        for _ in 0..calls {
            let sent = self.send();
            shares[sent.at()] += 1;
            self.pass(MS);
            self.pool.ended(sent, self.now, Outcome::Success, None);
        }
        shares
    }
}

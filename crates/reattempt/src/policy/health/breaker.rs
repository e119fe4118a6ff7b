//! A circuit breaker: the health of one backend, for which there is no other.

use std::mem::replace;
#[cfg(feature = "tokio")]
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::Outcome;
use super::event::{HealthCause, HealthChange, HealthEvent, Listeners};
#[cfg(feature = "tokio")]
use super::late::Open;
use super::live::LiveHealthPolicy;
use super::pool::Pool;
use super::send::Sent;
#[cfg(feature = "tokio")]
use super::waiting::{Waiting, Waits};
use crate::sync::{AtomicU8, Mutex, Ordering};

/// Whether requests are let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitState {
    /// They are.
    Closed,
    /// They are refused for this long.
    Open(Duration),
    /// One is let through at a time, as a trial: a success closes the circuit, a failure opens it
    /// again, for longer if the policy's times grow. So does a trial that is dropped after a long
    /// silence. One that hangs for the time of the opening is not waited for: the next request is a
    /// trial too, and so it is after one that never left the client
    /// ([`Outcome::NeverSent`](super::Outcome::NeverSent)): while each one does, it stays
    /// half-open. A response that begins is a success
    /// here; if it fails at its end, that opens the circuit again at once, with
    /// [`consecutive_failures`](super::HealthPolicy::consecutive_failures) on.
    HalfOpen,
}

const AUTOMATIC: u8 = 0;
const OPEN: u8 = 1;
const CLOSED: u8 = 2;

/// Refuses requests to one backend, or of one route, while it fails.
///
/// The policy's ejection is the opening of the circuit. What compares backends with each other has
/// no part in it: the success rate, the minimum of hosts and the share that may be ejected. Share
/// it in an `Arc`: the layer is one user, and the other switches it from outside.
///
/// Each opening is logged at WARN and each closing at INFO (`tracing`, target `reattempt::health`).
#[derive(Debug)]
pub struct CircuitBreaker {
    pool: Pool,
    switch: Arc<AtomicU8>,
    /// What listeners were last told. Locked while that is compared with what is true, so that of
    /// threads that switch it at once one notifies.
    known_open: Arc<Mutex<bool>>,
    listeners: Arc<Listeners>,
    /// A layer has brought its observer.
    #[cfg(feature = "tokio")]
    is_observed: AtomicBool,
    #[cfg(feature = "tokio")]
    waiting: Arc<Waiting>,
}

impl CircuitBreaker {
    /// A closed circuit that exists from `now` on.
    #[must_use]
    pub fn new(policy: impl Into<LiveHealthPolicy>, now: Instant) -> Self {
        let pool = Pool::returning(policy.into(), 1, now, true);
        let switch = Arc::new(AtomicU8::new(AUTOMATIC));
        let listeners = Arc::new(Listeners::default());
        listeners.add(HealthEvent::log);
        let (switched, notified) = (Arc::clone(&switch), Arc::clone(&listeners));
        let known_open = Arc::new(Mutex::new(false));
        let known = Arc::clone(&known_open);
        #[cfg(feature = "tokio")]
        let waiting = Arc::<Waiting>::default();
        #[cfg(feature = "tokio")]
        let wakes = Arc::clone(&waiting);
        pool.on_event(move |event| {
            // Whatever the switch says here: it may be changed at this instant, by a thread that
            // does not see the opening yet. Callers that are woken ask again.
            #[cfg(feature = "tokio")]
            if event.change == HealthChange::Opened {
                wakes.wake_all();
            }
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            // By hand it is open or closed whatever it decides itself.
            if switched.load(Ordering::Relaxed) != AUTOMATIC {
                return;
            }
            let opened = event.change == HealthChange::Opened;
            let was_open = replace(&mut *known, opened);
            drop(known);
            // It opens again after a failed trial.
            if opened || was_open {
                notified.notify(std::slice::from_ref(event));
            }
        });
        Self {
            pool,
            switch,
            known_open,
            listeners,
            #[cfg(feature = "tokio")]
            is_observed: AtomicBool::new(false),
            #[cfg(feature = "tokio")]
            waiting,
        }
    }

    /// Names it in the log and in events, by its backend or its route for example.
    #[must_use]
    pub fn with_name(self, name: impl Into<Arc<str>>) -> Self {
        self.pool.set_name(0, name);
        self
    }

    /// Calls this function whenever the circuit opens or closes, by itself or by hand; earlier
    /// functions stay. It is called inline and must not block. Events of several threads may arrive
    /// in another order than they happened in: [`state`](Self::state) says what is true now.
    pub fn on_event(&self, listener: impl Fn(&HealthEvent) + Send + Sync + 'static) {
        self.listeners.add(listener);
    }

    /// For layers that share the breaker: true for the first one that has observers, so that one
    /// change is one event.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_first_observed(&self) -> bool {
        !self.is_observed.swap(true, Ordering::Relaxed)
    }

    /// Opens the circuit until it is switched again.
    pub fn open(&self) {
        self.switch(OPEN);
    }

    /// Closes the circuit until it is switched again, whatever fails. Its own decisions go on: a
    /// success ends an opening.
    pub fn close(&self) {
        self.switch(CLOSED);
    }

    /// Leaves the circuit to its own decisions, as at first. They went on meanwhile.
    pub fn automatic(&self) {
        self.switch(AUTOMATIC);
    }

    fn switch(&self, to: u8) {
        let mut known = self
            .known_open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.switch.store(to, Ordering::Relaxed);
        let is_open = match to {
            AUTOMATIC => self.pool.is_ejected(),
            switched => switched == OPEN,
        };
        let was_open = replace(&mut *known, is_open);
        drop(known);
        // Also if it does not seem to be open: it may be opened at this instant.
        #[cfg(feature = "tokio")]
        self.waiting.wake_all();
        if was_open != is_open {
            let change = if is_open {
                HealthChange::Opened
            } else {
                HealthChange::Closed
            };
            self.listeners.notify(&[HealthEvent {
                name: self.pool.name(),
                change,
                cause: HealthCause::ByHand,
                ejected_for: None,
            }]);
        }
    }

    /// What listeners were last told.
    #[cfg(all(test, reattempt_loom))]
    pub(super) fn is_known_open(&self) -> bool {
        *self.known_open.lock().unwrap()
    }

    /// The state now.
    #[must_use]
    pub fn state(&self, now: Instant) -> CircuitState {
        let for_now = self.pool.status(now)[0].ejected_for;
        match (self.switch.load(Ordering::Relaxed), for_now) {
            (OPEN, _) => CircuitState::Open(Duration::MAX),
            (AUTOMATIC, Some(left)) => refusal(left),
            _ => CircuitState::Closed,
        }
    }

    /// Before the backend is asked whether it is ready: the trial of a half-open circuit, so that
    /// only its caller waits; `None` if it is closed. Reads the clock only if it is not.
    ///
    /// # Errors
    /// The state, if a request would be refused now.
    #[cfg(feature = "tokio")]
    pub(crate) fn reserve(
        &self,
        now: impl FnOnce() -> Instant,
    ) -> Result<Option<Sent>, CircuitState> {
        match self.switch.load(Ordering::Relaxed) {
            OPEN => Err(CircuitState::Open(Duration::MAX)),
            CLOSED => Ok(None),
            _ => self.pool.reserve(now).map_err(refusal),
        }
    }

    /// Whether this is the trial, and the circuit was not opened by hand.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_trial(&self, sent: &Sent) -> bool {
        self.switch.load(Ordering::Relaxed) != OPEN && self.pool.is_trial(sent)
    }

    /// A caller that waits for the backend.
    #[cfg(feature = "tokio")]
    pub(crate) fn wait(&self) -> Waits {
        self.waiting.wait()
    }

    /// A trial that was reserved was not sent, for no fault of the backend.
    #[cfg(feature = "tokio")]
    pub(crate) fn unsent(&self, sent: Sent, now: Instant) {
        self.pool.unsent(sent, now);
    }

    /// Lets a request through.
    ///
    /// # Errors
    /// The state, if it is refused.
    pub fn admit(&self, now: Instant) -> Result<Sent, CircuitState> {
        match self.switch.load(Ordering::Relaxed) {
            OPEN => Err(CircuitState::Open(Duration::MAX)),
            CLOSED => Ok(self.pool.force(now)),
            _ => self.pool.admit(now).map_err(refusal),
        }
    }

    /// The response of a request has begun: its end will say whether it succeeded.
    #[cfg(feature = "tokio")]
    pub(crate) fn begun(&self, sent: Sent, now: Instant) -> Option<Open> {
        self.pool.begun(sent, now, None)
    }

    /// A request that was let through is over.
    pub fn ended(&self, sent: Sent, now: Instant, outcome: Outcome) {
        self.pool.ended(sent, now, outcome, None);
    }
}

const fn refusal(left: Duration) -> CircuitState {
    if left.is_zero() {
        CircuitState::HalfOpen
    } else {
        CircuitState::Open(left)
    }
}

//! The state shared by all calls of a scenario: the log, and counts of live values.

use std::sync::atomic::{AtomicI64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use reattempt_tests::alive::count;
use tokio::time::Instant;

use crate::fate::Fate;
use crate::log::{Entry, Event};
use crate::scenario::{Readiness, Scenario};

/// Sends of one call beyond this number succeed, in any scenario.
const MOST_SENDS: usize = 3000;

/// More log entries than this indicate a call that never ends.
const MOST_ENTRIES: usize = 400_000;

#[derive(Debug, Default)]
pub(crate) struct Alive {
    pub(crate) requests: Arc<AtomicI64>,
    pub(crate) uploads: Arc<AtomicI64>,
    pub(crate) attempts: Arc<AtomicI64>,
    pub(crate) replies: Arc<AtomicI64>,
    pub(crate) waiters: Arc<AtomicI64>,
    pub(crate) decisions: Arc<AtomicI64>,
    pub(crate) contexts: Arc<AtomicI64>,
}

#[derive(Debug)]
struct State {
    log: Vec<Entry>,
    /// The call whose future is being polled.
    polled: Option<usize>,
    /// Per call: attempts sent, and readiness requested.
    used: Vec<[usize; 2]>,
    /// Each is kept alive by its call.
    backends: Vec<Weak<str>>,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) alive: Alive,
    /// The index of the table in force.
    pub(crate) table: AtomicUsize,
    began: Instant,
    state: Mutex<State>,
}

impl World {
    pub(crate) fn new(scenario: Scenario) -> Arc<Self> {
        let state = State {
            log: Vec::new(),
            polled: None,
            used: vec![[0; 2]; scenario.calls.len()],
            backends: Vec::new(),
        };
        Arc::new(Self {
            scenario,
            alive: Alive::default(),
            table: AtomicUsize::new(0),
            began: Instant::now(),
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it is held")
    }

    pub(crate) fn now(&self) -> u64 {
        self.at(Instant::now())
    }

    /// Milliseconds since the start of the scenario.
    pub(crate) fn at(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.began);
        u64::try_from(since.as_millis()).expect("no such time")
    }

    /// Logs an event of the call that is being polled.
    pub(crate) fn note(&self, event: Event) {
        let call = self.state().polled.expect("a call is polled");
        self.note_of(call, event);
    }

    pub(crate) fn note_of(&self, call: usize, event: Event) {
        let at = self.now();
        let mut state = self.state();
        state.log.push(Entry { at, call, event });
        let runs_away = state.log.len() > MOST_ENTRIES;
        drop(state);
        assert!(!runs_away, "call {call} runs away");
    }

    pub(crate) fn take_log(&self) -> Vec<Entry> {
        std::mem::take(&mut self.state().log)
    }

    /// Runs a closure in the context of this call.
    pub(crate) fn scoped<T>(&self, call: usize, run: impl FnOnce() -> T) -> T {
        let before = self.state().polled.replace(call);
        let done = run();
        self.state().polled = before;
        done
    }

    pub(crate) fn is_polled(&self, call: usize) -> bool {
        self.state().polled == Some(call)
    }

    /// The index and the fate of the call's next attempt.
    pub(crate) fn next_fate(&self, call: usize) -> (usize, Fate) {
        let place = self.state().used[call][0];
        self.state().used[call][0] += 1;
        (place, self.fate(call, place).clone())
    }

    pub(crate) fn fate(&self, call: usize, place: usize) -> &Fate {
        let plan = &self.scenario.calls[call];
        let again = plan.again && place < MOST_SENDS;
        let at = if again {
            place % plan.fates.len()
        } else {
            place
        };
        plan.fates.get(at).unwrap_or(&Fate::SUCCESS)
    }

    /// How the next instance of the polled call becomes ready.
    pub(crate) fn next_readiness(&self) -> Readiness {
        const AT_ONCE: Readiness = Readiness {
            after: Some(0),
            breaks: false,
        };
        let mut state = self.state();
        let call = state.polled.expect("a call is polled");
        let used = &mut state.used[call][1];
        *used += 1;
        let readiness = &self.scenario.calls[call].readiness;
        readiness.get(*used - 1).copied().unwrap_or(AT_ONCE)
    }

    pub(crate) fn keeps(&self, backend: &Arc<str>) {
        self.state().backends.push(Arc::downgrade(backend));
    }

    /// Lists everything that is still alive.
    pub(crate) fn leaks(&self) -> Vec<String> {
        let alive = &self.alive;
        let counts = [
            ("requests", &alive.requests),
            ("uploads", &alive.uploads),
            ("attempts", &alive.attempts),
            ("replies", &alive.replies),
            ("waiters", &alive.waiters),
            ("decisions", &alive.decisions),
            ("contexts", &alive.contexts),
        ];
        let counts = counts.map(|(name, alive)| (name, count(alive)));
        let mut leaks: Vec<_> = counts
            .iter()
            .filter(|(_, alive)| *alive != 0)
            .map(|(name, alive)| format!("{alive} {name} are alive"))
            .collect();
        let state = self.state();
        let blocks = state.backends.iter().filter(|of| of.strong_count() > 0);
        let blocks = blocks.count();
        if blocks > 0 {
            leaks.push(format!("{blocks} calls are kept with their log"));
        }
        leaks
    }
}

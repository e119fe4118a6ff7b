//! The servers' side: attempts arrive, wait, are served and answered.

use super::World;
use super::backend::Arrival;
use super::call::{NONE, Place};
use super::caller::Beginning;
use super::events::What;
use crate::policy::{OUTCOME_REFUSED, OUTCOME_SUCCESS, answer_outcome};
use crate::random::Words;

impl World<'_> {
    /// An attempt arrives at its backend.
    pub(super) fn arrived(&mut self, id: u32) {
        let Some(attempt) = self.attempts.get_mut(id) else {
            return;
        };
        if let Some(past) = self.past {
            let call = self.calls.get(attempt.call);
            let call = call
                .filter(|_| attempt.awaited)
                .map_or(NONE, |call| call.past);
            let came = past.came(call, attempt.number, self.now, attempt.word);
            attempt.place = Place::Left;
            if let Some((outcome, took)) = came.filter(|_| attempt.awaited) {
                attempt.outcome = outcome;
                self.events.after(self.now, took, What::Settle, id, 0);
            } else {
                self.release(id);
            }
            return;
        }
        let server = &mut self.tiers[usize::from(attempt.tier)].servers[attempt.backend as usize];
        match server.arrive(self.now, &mut Words::of(attempt.word, 1)) {
            Arrival::Enters(outcome) => {
                attempt.outcome = outcome;
                attempt.arrived = self.now;
                if server.is_free(server.workers(self.now)) {
                    return self.start(id);
                }
                attempt.place = Place::Queue;
                if !server.enqueue(id) {
                    self.answer(id, answer_outcome(self.scenario.overload));
                }
            }
            Arrival::Answered(outcome) => self.answer(id, outcome),
            Arrival::Refused => self.answer(id, OUTCOME_REFUSED),
            Arrival::Silent => {
                attempt.place = Place::Left;
                self.release(id);
            }
        }
    }

    /// A worker takes up an attempt.
    fn start(&mut self, id: u32) {
        let Some(attempt) = self.attempts.get_mut(id) else {
            return;
        };
        attempt.place = Place::Worker;
        let server = &mut self.tiers[usize::from(attempt.tier)].servers[attempt.backend as usize];
        server.busy += 1;
        if attempt.counted {
            self.counts.waited(self.now - attempt.arrived);
        }
        let time = server.service(self.now, &mut Words::of(attempt.word, 2));
        self.events.after(self.now, time, What::Served, id, 0);
    }

    /// A worker is done with an attempt, or the next tier's turn has come. `None` only if a policy
    /// could not be read again.
    pub(super) fn served(&mut self, id: u32) -> Option<()> {
        let Some(attempt) = self.attempts.get(id) else {
            return Some(());
        };
        if attempt.place != Place::Worker {
            // It was stopped meanwhile.
            self.release(id);
            return Some(());
        }
        let (tier, outcome) = (usize::from(attempt.tier) + 1, attempt.outcome);
        if tier == self.tiers.len() || outcome != OUTCOME_SUCCESS {
            self.finish(id, outcome);
            return Some(());
        }
        let inner = Beginning {
            tier,
            process: attempt.backend,
            kind: attempt.call_kind,
            word: Words::of(attempt.word, 4).next(),
            serves: id,
            counted: attempt.counted,
            past: NONE,
        };
        let inner = self.begin(inner)?;
        if let Some(attempt) = self.attempts.get_mut(id) {
            attempt.inner = inner;
        }
        Some(())
    }

    /// The worker is free again.
    pub(super) fn finish(&mut self, id: u32, outcome: u16) {
        let Some(attempt) = self.attempts.get_mut(id) else {
            return;
        };
        attempt.inner = NONE;
        let (tier, backend) = (attempt.tier, attempt.backend);
        self.tiers[usize::from(tier)].servers[backend as usize].busy -= 1;
        self.answer(id, outcome);
        self.serve_next(usize::from(tier), backend);
    }

    fn answer(&mut self, id: u32, outcome: u16) {
        let Some(attempt) = self.attempts.get_mut(id) else {
            return;
        };
        attempt.place = Place::Left;
        attempt.outcome = outcome;
        if attempt.awaited {
            self.events.after(self.now, self.back, What::Settle, id, 0);
        } else {
            self.release(id);
        }
    }

    /// Free workers take up what waits.
    pub(super) fn serve_next(&mut self, tier: usize, backend: u32) {
        loop {
            let server = &mut self.tiers[tier].servers[backend as usize];
            if server.waiting == 0 || server.busy >= server.workers(self.now) {
                return;
            }
            let Some(id) = server.next() else {
                return;
            };
            if self
                .attempts
                .get(id)
                .is_some_and(|next| next.place == Place::Queue)
            {
                server.waiting -= 1;
                self.start(id);
            } else {
                self.release(id);
            }
        }
    }

    /// A cancellation arrives at the backend.
    pub(super) fn stopped(&mut self, id: u32) {
        let Some(attempt) = self.attempts.get_mut(id) else {
            return;
        };
        let (place, inner) = (attempt.place, attempt.inner);
        let (tier, backend) = (usize::from(attempt.tier), attempt.backend);
        let server = &mut self.tiers[tier].servers[backend as usize];
        match place {
            Place::Queue => {
                attempt.place = Place::Left;
                if server.leave() {
                    self.tidy_queue(tier, backend);
                }
            }
            Place::Worker => {
                attempt.place = Place::Left;
                attempt.inner = NONE;
                server.busy -= 1;
                if inner != NONE {
                    self.abort(inner);
                    // No event is left that would find it.
                    self.release(id);
                }
                self.serve_next(tier, backend);
            }
            Place::Leaving | Place::Left => {}
        }
        self.release(id);
    }

    fn tidy_queue(&mut self, tier: usize, backend: u32) {
        let mut void = Vec::new();
        let attempts = &self.attempts;
        let server = &mut self.tiers[tier].servers[backend as usize];
        server.tidy(|id| {
            let waits = attempts
                .get(id)
                .is_some_and(|one| one.place == Place::Queue);
            if !waits {
                void.push(id);
            }
            waits
        });
        for id in void {
            self.release(id);
        }
    }
}

//! One server process: workers, a queue in order of arrival, and its faults.

use std::collections::VecDeque;

use crate::policy::{OUTCOME_SUCCESS, answer_outcome};
use crate::random::Words;
use crate::scenario::{Backend, Trouble, TroubleKind};

/// What becomes of an attempt that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It waits or is served, and gets this outcome then.
    Enters(u16),
    /// It is answered at once.
    Answered(u16),
    Refused,
    /// It never gets an answer.
    Silent,
}

#[derive(Debug)]
pub(super) struct Server<'a> {
    spec: &'a Backend,
    pub(super) busy: u32,
    /// Attempts that wait, some of which were cancelled meanwhile.
    queue: VecDeque<u32>,
    /// Of those, how many were not.
    pub(super) waiting: u32,
    /// The tokens of its rate limiters and when they were counted, by fault.
    buckets: Vec<(f64, u64)>,
}

fn is_on(trouble: &Trouble, now: u64) -> bool {
    trouble.from <= now && now < trouble.to
}

impl<'a> Server<'a> {
    pub(super) fn new(spec: &'a Backend) -> Self {
        let full = |trouble: &Trouble| match trouble.kind {
            TroubleKind::Limit { burst, .. } => (burst, trouble.from),
            _ => (0.0, 0),
        };
        Self {
            spec,
            busy: 0,
            queue: VecDeque::new(),
            waiting: 0,
            buckets: spec.faults.iter().map(full).collect(),
        }
    }

    fn active(&self, now: u64) -> impl Iterator<Item = (usize, &'a Trouble)> + use<'a> {
        let faults: &'a [Trouble] = &self.spec.faults;
        faults
            .iter()
            .enumerate()
            .filter(move |(_, trouble)| is_on(trouble, now))
    }

    /// The number of workers now.
    pub(super) fn workers(&self, now: u64) -> u32 {
        let last = self
            .active(now)
            .filter_map(|(_, trouble)| match trouble.kind {
                TroubleKind::Capacity { servers } => Some(servers),
                _ => None,
            });
        last.last().unwrap_or(self.spec.servers)
    }

    /// Of several faults the first that acts decides, in the order of the document.
    pub(super) fn arrive(&mut self, now: u64, words: &mut Words) -> Arrival {
        if self.spec.faults.is_empty() {
            return Arrival::Enters(OUTCOME_SUCCESS);
        }
        let mut later = OUTCOME_SUCCESS;
        for (at, trouble) in self.active(now) {
            match trouble.kind {
                TroubleKind::Refuse => return Arrival::Refused,
                TroubleKind::Error {
                    share,
                    answer,
                    after_service,
                } => {
                    if words.unit() < share {
                        if !after_service {
                            return Arrival::Answered(answer_outcome(answer));
                        }
                        if later == OUTCOME_SUCCESS {
                            later = answer_outcome(answer);
                        }
                    }
                }
                TroubleKind::Silent { share } => {
                    if words.unit() < share {
                        return Arrival::Silent;
                    }
                }
                TroubleKind::Limit {
                    per_s,
                    burst,
                    answer,
                } => {
                    let (tokens, counted) = &mut self.buckets[at];
                    let elapsed = now.saturating_sub(*counted) as f64 / 1e9;
                    *tokens = (*tokens + elapsed * per_s).min(burst);
                    *counted = now;
                    if *tokens < 1.0 {
                        return Arrival::Answered(answer_outcome(answer));
                    }
                    *tokens -= 1.0;
                }
                TroubleKind::Slow { .. } | TroubleKind::Capacity { .. } => {}
            }
        }
        Arrival::Enters(later)
    }

    /// The time that a service takes which starts now.
    pub(super) fn service(&self, now: u64, words: &mut Words) -> u64 {
        let mut time = self.spec.latency.draw(words);
        for (_, trouble) in self.active(now) {
            if let TroubleKind::Slow { factor } = trouble.kind {
                time = (time as f64 * factor).round() as u64;
            }
        }
        time
    }

    pub(super) const fn is_free(&self, workers: u32) -> bool {
        self.waiting == 0 && self.busy < workers
    }

    /// False if the queue is full.
    pub(super) fn enqueue(&mut self, attempt: u32) -> bool {
        let fits = self.spec.queue.is_none_or(|most| self.waiting < most);
        if fits {
            self.queue.push_back(attempt);
            self.waiting += 1;
        }
        fits
    }

    /// The next in the queue; whether it still waits is the caller's to check.
    pub(super) fn next(&mut self) -> Option<u32> {
        self.queue.pop_front()
    }

    /// One that waits was cancelled. True if the queue has become mostly void.
    pub(super) fn leave(&mut self) -> bool {
        self.waiting -= 1;
        self.queue.len() > 64 + 2 * self.waiting as usize
    }

    /// Drops the void places of the queue.
    pub(super) fn tidy(&mut self, mut waits: impl FnMut(u32) -> bool) {
        self.queue.retain(|attempt| waits(*attempt));
    }

    /// Running plus waiting.
    pub(super) const fn load(&self) -> u64 {
        self.busy as u64 + self.waiting as u64
    }

    /// When its number of workers changes.
    pub(super) fn changes(&self) -> impl Iterator<Item = u64> {
        let faults: &'a [Trouble] = &self.spec.faults;
        let capacity = |trouble: &&Trouble| matches!(trouble.kind, TroubleKind::Capacity { .. });
        faults
            .iter()
            .filter(capacity)
            .flat_map(|trouble| [trouble.from, trouble.to])
            .filter(|at| *at != u64::MAX)
    }
}

//! Where the attempts of a call were sent.

use super::{CallState, SEEN_BACKENDS};
use crate::attempt::Backend;
use crate::info::MOST_RECORDS;
use crate::sync::Ordering;

impl CallState {
    pub(crate) fn backend(&self, attempt: u32, backend: Backend) {
        self.in_log(|log| {
            let log = log.get_or_insert_default();
            // A transport may name it early, and again with each poll or the response.
            let mut own = log.backends.iter().rev();
            let own = own.find(|(n, _)| *n == attempt);
            if own.is_some_and(|(_, known)| *known == backend) {
                return;
            }
            if log.backends.len() == MOST_RECORDS {
                log.backends.remove(0);
            }
            log.backends.push((attempt, backend));
        });
        self.flags.fetch_or(SEEN_BACKENDS, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn backend_of(&self, attempt: u32) -> Option<Backend> {
        // Where no transport names its backend, no lock is taken.
        if self.has(SEEN_BACKENDS) {
            self.logged_backend(attempt)
        } else {
            None
        }
    }

    #[inline(never)]
    fn logged_backend(&self, attempt: u32) -> Option<Backend> {
        self.read(|log| {
            log.backends
                .iter()
                .rev()
                .find(|(n, _)| *n == attempt)
                .map(|(_, b)| b.clone())
        })?
    }

    /// Whether an attempt at another backend was sent, and not refused by a circuit breaker.
    #[cold]
    pub(crate) fn was_let_through_elsewhere(&self, refused: u32) -> bool {
        let Some(here) = self.backend_of(refused) else {
            return false;
        };
        let elsewhere = self.read(|log| {
            let was_refused = |attempt: u32| {
                log.info.records.iter().any(|record| {
                    let failure = record.failure.filter(|_| record.number == attempt);
                    failure.is_some_and(|failure| failure.was_refused())
                })
            };
            // A transport may name the backend of an attempt too, in another way.
            let was_here = |attempt: u32| {
                let mut used = log.backends.iter();
                used.any(|(n, backend)| *n == attempt && *backend == here)
            };
            let mut used = log.backends.iter();
            used.any(|(n, _)| *n != refused && !was_here(*n) && !was_refused(*n))
        });
        elsewhere.unwrap_or_default()
    }

    /// The backends used by this call, least recently used first.
    pub(crate) fn backends(&self) -> Vec<Backend> {
        if !self.has(SEEN_BACKENDS) {
            return Vec::new();
        }
        let used = self.read(|log| {
            let mut used: Vec<Backend> = Vec::new();
            for (_, backend) in log.backends.iter().rev() {
                if !used.contains(backend) {
                    used.push(backend.clone());
                }
            }
            used.reverse();
            used
        });
        used.unwrap_or_default()
    }
}

#[cfg(all(test, not(reattempt_loom)))]
mod tests {
    use super::*;

    /// Attempts that dial side by side name their nodes in turn, with every poll.
    #[test]
    fn what_is_named_again_pushes_no_other_backend_out() {
        let state = CallState::default();
        state.backend(1, Backend::new("a"));
        for _ in 0..2 * MOST_RECORDS {
            state.backend(2, Backend::new("b"));
            state.backend(3, Backend::new("c"));
        }
        for (attempt, node) in [(1, "a"), (2, "b"), (3, "c")] {
            assert_eq!(state.backend_of(attempt), Some(Backend::new(node)));
        }
    }
}

//! Where the attempts of a call were sent.

use super::CallState;
use crate::info::{Backend, MOST_RECORDS};

impl CallState {
    pub(crate) fn backend(&self, attempt: u32, backend: Backend) {
        self.write(|log| {
            if log.backends.len() == MOST_RECORDS {
                log.backends.remove(0);
            }
            log.backends.push((attempt, backend));
        });
    }

    pub(crate) fn backend_of(&self, attempt: u32) -> Option<Backend> {
        // A first attempt takes no lock.
        if !self.is_logged() {
            return None;
        }
        self.read(|log| {
            log.backends
                .iter()
                .rev()
                .find(|(n, _)| *n == attempt)
                .map(|(_, b)| b.clone())
        })?
    }

    /// The backends used by this call, least recently used first.
    pub(crate) fn backends(&self) -> Vec<Backend> {
        // A first attempt takes no lock.
        if !self.is_logged() {
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

//! The failure that a strategy holds, and compares with later ones.

use super::{Keep, RetryMachine};
use crate::{Failure, RetryStrategy, Surface};

impl RetryMachine {
    /// Whether the strategy holds a failure.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.held.is_some()
    }

    pub(super) fn hold(&mut self, new: &Failure, strategy: &dyn RetryStrategy) -> Keep {
        match self.held {
            Some(held) if strategy.surface(&held, new) == Surface::Held => Keep::Held,
            _ => {
                self.held = Some(*new);
                Keep::New
            }
        }
    }
}

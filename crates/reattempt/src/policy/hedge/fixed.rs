use std::time::Duration;

use super::{HedgeDelay, HedgeView};

/// The same delay before every hedge (A6, Hedging Policy); zero sends all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed(pub Duration);

impl HedgeDelay for Fixed {
    fn delay(&self, _: &HedgeView<'_>) -> Option<Duration> {
        Some(self.0)
    }

    fn fixed(&self) -> Option<Duration> {
        Some(self.0)
    }
}

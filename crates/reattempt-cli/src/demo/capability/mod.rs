//! What the stack can do beside retries, each on HTTP servers of its own, without and with it.

mod backends;
mod hedging;
mod load;
mod overload;
mod sheet;

use clap::ValueEnum;
use indicatif::ProgressBar;

use super::DemoError;
pub(crate) use sheet::Sheet;

/// A capability of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Capability {
    /// Hedges that spend a given share of extra load
    Hedging,
    /// The governor and admission on an overloaded server
    Overload,
    /// Backends with health, one of which stops answering
    Backends,
}

/// What one capability is shown with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) seed: u64,
    /// A share of the load, to check quickly that it works.
    pub(crate) quick: bool,
}

impl Capability {
    pub(crate) const ALL: [Self; 3] = [Self::Hedging, Self::Overload, Self::Backends];

    /// Calls that it sends.
    pub(crate) const fn calls(self, scale: Scale) -> usize {
        match self {
            Self::Hedging => 2 * hedging::calls(scale),
            Self::Overload => overload::SIDES * overload::calls(scale),
            Self::Backends => 2 * backends::calls(scale),
        }
    }

    /// How long it sends them.
    pub(crate) fn seconds(self, scale: Scale) -> f64 {
        let rate = match self {
            Self::Hedging => hedging::RATE,
            Self::Overload => overload::OFFERED,
            Self::Backends => backends::RATE,
        };
        self.calls(scale) as f64 / f64::from(rate)
    }

    /// Its table.
    pub(crate) async fn show(
        self,
        scale: Scale,
        progress: &ProgressBar,
    ) -> Result<Sheet, DemoError> {
        match self {
            Self::Hedging => hedging::run(scale, progress).await,
            Self::Overload => overload::run(scale, progress).await,
            Self::Backends => backends::run(scale, progress).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_capability_is_that_of_its_calls() {
        let seconds = |quick| {
            let scale = Scale { seed: 1, quick };
            Capability::ALL.map(|one| one.seconds(scale))
        };
        assert_eq!(seconds(false), [7.0, 12.0, 9.0]);
        assert_eq!(seconds(true), [4.6, 4.0, 3.0]);
    }
}

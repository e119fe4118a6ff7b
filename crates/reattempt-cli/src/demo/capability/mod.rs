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

//! The four protocols: their names, and their phases.

use clap::ValueEnum;

use super::trouble::Weather;

/// A protocol of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    Grpc,
    Http,
    Kv,
    Mongodb,
}

impl Protocol {
    pub(crate) const ALL: [Self; 4] = [Self::Grpc, Self::Http, Self::Kv, Self::Mongodb];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Grpc => "gRPC",
            Self::Http => "HTTP",
            Self::Kv => "KV",
            Self::Mongodb => "MongoDB",
        }
    }

    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::Grpc => "one server over HTTP/2, policies from a service config (A6)",
            Self::Http => "one server over HTTP/1.1, Retry-After, replayable bodies",
            Self::Kv => "a Couchbase-like cluster of three nodes, vbuckets, config poll on error",
            Self::Mongodb => {
                "a replica set of three members: Retryable Reads for gets, hedges for searches"
            }
        }
    }

    /// Whether tower's own retry runs beside the stack: where a request can simply be cloned.
    pub(crate) const fn has_tower(self) -> bool {
        matches!(self, Self::Grpc | Self::Http)
    }

    /// How often the load is sent.
    pub(crate) const fn runs(self) -> usize {
        if self.has_tower() { 3 } else { 2 }
    }

    /// Whether its servers can send pushback.
    pub(crate) const fn has_pushback(self) -> bool {
        !matches!(self, Self::Mongodb)
    }

    /// The name of a phase.
    pub(crate) const fn phase(self, weather: Weather) -> &'static str {
        match (weather, self) {
            (Weather::Calm, _) => "calm",
            (Weather::Temporary, _) => "temporary failures",
            (Weather::SlowTail, _) => "slow tail",
            (Weather::Pushback, _) => "pushback",
            (Weather::Overload, _) => "overload",
            (Weather::Recovery, _) => "recovery",
            (Weather::Move, Self::Grpc | Self::Http) => "server restarts",
            (Weather::Move, Self::Kv) => "nodes move",
            (Weather::Move, Self::Mongodb) => "primary moves",
        }
    }

    /// A description of the phase, in one line.
    pub(crate) const fn tells(self, weather: Weather) -> &'static str {
        match (weather, self) {
            (Weather::Calm, _) => "nothing happens",
            (Weather::Temporary, Self::Mongodb) => "24 % fail once, 6 % twice",
            (Weather::Temporary, _) => "30 % fail once or twice",
            (Weather::SlowTail, _) => "7 % are slow, 1 % never answer",
            (Weather::Pushback, _) => "25 %: retry after 20 to 80 ms",
            (Weather::Overload, _) => "all refused; retries are limited",
            (Weather::Recovery, _) => "successes refill the throttle",
            (Weather::Move, Self::Grpc | Self::Http) => "the port is closed for a moment",
            (Weather::Move, Self::Kv) => "vbuckets move; a node fails over",
            (Weather::Move, Self::Mongodb) => "it steps down; the next one dies",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{table, trouble};

    /// The width that the other columns of the table leave.
    const TELLS: usize = 33;

    #[test]
    fn every_phases_text_fits_its_column() {
        for protocol in Protocol::ALL {
            for phase in trouble::phases(100, protocol.has_pushback()) {
                let tells = protocol.tells(phase.weather).chars().count();
                assert!(tells <= TELLS, "{protocol:?} {:?}", phase.weather);
                assert!(protocol.phase(phase.weather).len() <= table::PHASE);
            }
        }
    }
}

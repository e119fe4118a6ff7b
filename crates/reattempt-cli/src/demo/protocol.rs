//! The four protocols: their names, and what their servers go through in each phase.

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
            Self::Mongodb => "a replica set of three members, Retryable Reads: exactly one retry",
        }
    }

    /// Whether its servers can say when to come back.
    pub(crate) const fn has_pushback(self) -> bool {
        !matches!(self, Self::Mongodb)
    }

    /// What a phase is called.
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

    /// What happens in it, in a line.
    pub(crate) const fn tells(self, weather: Weather) -> &'static str {
        match (weather, self) {
            (Weather::Calm, _) => "nothing happens",
            (Weather::Temporary, Self::Grpc) => {
                "30 % of calls fail once or twice, or are refused unseen"
            }
            (Weather::Temporary, Self::Mongodb) => {
                "24 % of calls fail once, 6 % twice; one retry is allowed"
            }
            (Weather::Temporary, _) => "30 % of calls fail once or twice",
            (Weather::SlowTail, _) => "14 % of searches are slow, 2 % of gets never answer",
            (Weather::Pushback, Self::Grpc) => "25 % of calls: grpc-retry-pushback-ms of 20 to 80",
            (Weather::Pushback, Self::Http) => "25 % of calls: 429 with a delay of 20 to 80 ms",
            (Weather::Pushback, _) => "25 % of calls: told to stay away for 20 to 80 ms",
            (Weather::Overload, _) => "every attempt is shed; retries would only add to it",
            (Weather::Recovery, _) => "successes fill the throttle's bucket again",
            (Weather::Move, Self::Grpc | Self::Http) => {
                "the port is closed for a while, then it is back"
            }
            (Weather::Move, Self::Kv) => "vbuckets change nodes; then a node dies, failover",
            (Weather::Move, Self::Mongodb) => "the primary steps down; then the new one dies",
        }
    }
}

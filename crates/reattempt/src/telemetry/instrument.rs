//! The instruments: names, units and buckets.

/// How the values of an instrument are aggregated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InstrumentKind {
    /// A monotonic counter.
    Counter,
    /// The latest value.
    Gauge,
    /// A distribution.
    Histogram,
}

/// A metric, with its OpenTelemetry name, unit and buckets.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub struct Instrument {
    /// The name.
    pub name: &'static str,
    /// How its values are aggregated.
    pub kind: InstrumentKind,
    /// The unit, in UCUM: `s`, or the counted thing in braces.
    pub unit: &'static str,
    /// The description.
    pub description: &'static str,
    /// The upper bounds of a histogram's buckets, in its unit; empty for others.
    pub boundaries: &'static [f64],
}

impl Instrument {
    const fn new(
        name: &'static str,
        kind: InstrumentKind,
        unit: &'static str,
        description: &'static str,
    ) -> Self {
        Self {
            name,
            kind,
            unit,
            description,
            boundaries: &[],
        }
    }

    const fn seconds(
        name: &'static str,
        description: &'static str,
        boundaries: &'static [f64],
    ) -> Self {
        Self {
            boundaries,
            ..Self::new(name, InstrumentKind::Histogram, "s", description)
        }
    }
}

/// All instruments.
pub static INSTRUMENTS: &[&Instrument] = &[
    &ATTEMPTS,
    &STOPPED,
    &HEDGES,
    &RESPONSES,
    &THROTTLE,
    &HEALTH,
    &HTTP_REQUEST_DURATION,
    &DB_OPERATION_DURATION,
];

/// `reattempt.attempts`: attempts that ended, with `kind` and `outcome`; `reason` and `stage` of
/// those that failed.
pub static ATTEMPTS: Instrument = Instrument::new(
    "reattempt.attempts",
    InstrumentKind::Counter,
    "{attempt}",
    "Attempts that ended, by kind and outcome, and by reason and stage of the failure",
);

/// `reattempt.stopped`: calls that ended, with the `reason` why no further attempt was made.
pub static STOPPED: Instrument = Instrument::new(
    "reattempt.stopped",
    InstrumentKind::Counter,
    "{call}",
    "Calls that ended, by the reason why no further attempt was made",
);

/// `reattempt.hedges`: hedges with their `result`: `won`, `lost`, or `refused` before they were
/// sent.
pub static HEDGES: Instrument = Instrument::new(
    "reattempt.hedges",
    InstrumentKind::Counter,
    "{hedge}",
    "Hedges that won, lost, or were refused",
);

/// `reattempt.throttle.tokens`: how far the throttle that is nearest to refusing is from it, of
/// those that counted a failure or refused a hedge in the ten minutes before the last call ended.
pub static THROTTLE: Instrument = Instrument::new(
    "reattempt.throttle.tokens",
    InstrumentKind::Gauge,
    "{token}",
    "Tokens until the first of the throttles that counted a failure refuses retries",
);

/// `reattempt.response.failures`: responses that failed after their head, when their call counted
/// as committed, with `reason`: that of the failure, or the stop reason of the client.
pub static RESPONSES: Instrument = Instrument::new(
    "reattempt.response.failures",
    InstrumentKind::Counter,
    "{response}",
    "Responses that failed after their head",
);

/// `reattempt.health.changes`: backends that were ejected or returned, and circuits that opened or
/// closed, with `change` and `cause`.
pub static HEALTH: Instrument = Instrument::new(
    "reattempt.health.changes",
    InstrumentKind::Counter,
    "{change}",
    "Backends that were ejected or returned, and circuits that opened or closed, by cause",
);

/// `http.client.request.duration` (OpenTelemetry, HTTP metrics): each attempt, from the send to the
/// response head.
pub static HTTP_REQUEST_DURATION: Instrument = Instrument::seconds(
    "http.client.request.duration",
    "Duration of HTTP client requests",
    &[
        0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    ],
);

/// `db.client.operation.duration` (OpenTelemetry, database metrics): each attempt.
pub static DB_OPERATION_DURATION: Instrument = Instrument::seconds(
    "db.client.operation.duration",
    "Duration of database client operations",
    &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0],
);

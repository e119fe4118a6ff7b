//! The instruments of A66 and A96.

/// How the values of an instrument are aggregated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InstrumentKind {
    /// A monotonic counter, updated by [`GrpcMeter::add`](super::GrpcMeter::add).
    Counter,
    /// A distribution, updated by [`GrpcMeter::record`](super::GrpcMeter::record).
    Histogram,
}

/// A metric of a gRPC client, with its OpenTelemetry name, unit and buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Instrument {
    /// `grpc.client.attempt.started` (A66).
    AttemptStarted,
    /// `grpc.client.attempt.duration` (A66): from the send to the status.
    AttemptDuration,
    /// `grpc.client.attempt.sent_total_compressed_message_size` (A66).
    AttemptSent,
    /// `grpc.client.attempt.rcvd_total_compressed_message_size` (A66).
    AttemptReceived,
    /// `grpc.client.call.duration` (A66): as the application sees it.
    CallDuration,
    /// `grpc.client.call.retries` (A96); 0 is not reported.
    CallRetries,
    /// `grpc.client.call.transparent_retries` (A96); 0 is not reported.
    CallTransparentRetries,
    /// `grpc.client.call.hedges` (A96); 0 is not reported.
    CallHedges,
    /// `grpc.client.call.retry_delay` (A96).
    CallRetryDelay,
}

const LATENCY: &[f64] = &[
    0.0, 0.00001, 0.00005, 0.0001, 0.0003, 0.0006, 0.0008, 0.001, 0.002, 0.003, 0.004, 0.005,
    0.006, 0.008, 0.01, 0.013, 0.016, 0.02, 0.025, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.13, 0.16,
    0.2, 0.25, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0,
];
const SIZE: &[f64] = &[
    0.0,
    1024.0,
    2048.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
    268_435_456.0,
    1_073_741_824.0,
    4_294_967_296.0,
];
const UP_TO_FIVE: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0];
const UP_TO_TEN: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 10.0];

impl Instrument {
    /// All instruments, in order.
    pub const ALL: &'static [Self] = &[
        Self::AttemptStarted,
        Self::AttemptDuration,
        Self::AttemptSent,
        Self::AttemptReceived,
        Self::CallDuration,
        Self::CallRetries,
        Self::CallTransparentRetries,
        Self::CallHedges,
        Self::CallRetryDelay,
    ];

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AttemptStarted => "grpc.client.attempt.started",
            Self::AttemptDuration => "grpc.client.attempt.duration",
            Self::AttemptSent => "grpc.client.attempt.sent_total_compressed_message_size",
            Self::AttemptReceived => "grpc.client.attempt.rcvd_total_compressed_message_size",
            Self::CallDuration => "grpc.client.call.duration",
            Self::CallRetries => "grpc.client.call.retries",
            Self::CallTransparentRetries => "grpc.client.call.transparent_retries",
            Self::CallHedges => "grpc.client.call.hedges",
            Self::CallRetryDelay => "grpc.client.call.retry_delay",
        }
    }

    /// The unit, in UCUM: `s`, `By`, or the counted thing in braces.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::AttemptStarted => "{attempt}",
            Self::AttemptDuration | Self::CallDuration | Self::CallRetryDelay => "s",
            Self::AttemptSent | Self::AttemptReceived => "By",
            Self::CallRetries => "{retry}",
            Self::CallTransparentRetries => "{transparent_retry}",
            Self::CallHedges => "{hedge}",
        }
    }

    /// The description.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::AttemptStarted => "Attempts started, including those that have not ended",
            Self::AttemptDuration => "Time from the start of an attempt to its status",
            Self::AttemptSent => {
                "Compressed bytes of all request messages of an attempt, without framing"
            }
            Self::AttemptReceived => {
                "Compressed bytes of all response messages of an attempt, without framing"
            }
            Self::CallDuration => "Time that a call takes from the application's perspective",
            Self::CallRetries => "Retries of a call; zero is not reported",
            Self::CallTransparentRetries => "Transparent retries of a call; zero is not reported",
            Self::CallHedges => "Hedges of a call; zero is not reported",
            Self::CallRetryDelay => {
                "Time of a call without an active attempt, between its attempts"
            }
        }
    }

    /// How the values are aggregated.
    #[must_use]
    pub const fn kind(self) -> InstrumentKind {
        match self {
            Self::AttemptStarted => InstrumentKind::Counter,
            _ => InstrumentKind::Histogram,
        }
    }

    /// The upper bounds of a histogram's buckets, in its unit; empty for a counter.
    #[must_use]
    pub const fn boundaries(self) -> &'static [f64] {
        match self {
            Self::AttemptStarted => &[],
            Self::AttemptDuration | Self::CallDuration | Self::CallRetryDelay => LATENCY,
            Self::AttemptSent | Self::AttemptReceived => SIZE,
            Self::CallRetries | Self::CallHedges => UP_TO_FIVE,
            Self::CallTransparentRetries => UP_TO_TEN,
        }
    }
}

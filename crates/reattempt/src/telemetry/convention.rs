//! What a protocol says about its requests in OpenTelemetry's words.

use tracing::Span;

use super::{DB_OPERATION_DURATION, HTTP_REQUEST_DURATION, Instrument};

/// Which of OpenTelemetry's semantic conventions applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum System {
    /// HTTP.
    Http,
    /// A database, with its `db.system.name`: `couchbase`, `mongodb`.
    Db(&'static str),
}

impl System {
    pub(super) const fn duration(self) -> &'static Instrument {
        match self {
            Self::Http => &HTTP_REQUEST_DURATION,
            Self::Db(_) => &DB_OPERATION_DURATION,
        }
    }
}

/// What a request does, and where.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Operation<'a> {
    /// `http.request.method` (`_OTHER` for one that is not known) or `db.operation.name`: one of a
    /// known set.
    pub name: &'static str,
    /// `server.address`: the host that the request names.
    pub host: Option<&'a str>,
    /// `server.port`.
    pub port: Option<u16>,
}

impl<'a> Operation<'a> {
    /// An operation of this name.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            host: None,
            port: None,
        }
    }

    /// Sets where it goes.
    #[must_use]
    pub const fn at(mut self, host: Option<&'a str>, port: Option<u16>) -> Self {
        self.host = host;
        self.port = port;
        self
    }
}

/// What a protocol says about requests of type `Req` and their responses.
pub trait Convention<Req, Res> {
    /// Which convention it is.
    fn system(&self) -> System;

    /// What a request does, and where.
    fn operation<'a>(&self, request: &'a Req) -> Operation<'a>;

    /// The status of a response that is a success: `http.response.status_code`.
    fn status(&self, response: &Res) -> Option<i32> {
        let _ = response;
        None
    }
}

/// The span of an attempt, whose names are OpenTelemetry's.
pub(super) fn span(system: System, operation: &Operation<'_>, resend: Option<u32>) -> Span {
    use tracing::field::Empty;

    match system {
        System::Http => tracing::info_span!(
            target: "reattempt",
            "http.attempt",
            otel.name = operation.name,
            otel.kind = "client",
            otel.status_code = Empty,
            http.request.method = operation.name,
            server.address = operation.host,
            server.port = operation.port,
            http.request.resend_count = resend,
            http.response.status_code = Empty,
            error.type = Empty,
        ),
        System::Db(system) => tracing::info_span!(
            target: "reattempt",
            "db.attempt",
            otel.name = operation.name,
            otel.kind = "client",
            otel.status_code = Empty,
            db.system.name = system,
            db.operation.name = operation.name,
            server.address = operation.host,
            server.port = operation.port,
            reattempt.resend_count = resend,
            db.response.status_code = Empty,
            error.type = Empty,
        ),
    }
}

/// The end of an attempt, in its span. `error` is `None` for a success.
pub(super) fn end(
    span: &Span,
    system: System,
    status: Option<i32>,
    error: Option<&dyn std::fmt::Display>,
) {
    if span.is_disabled() {
        return;
    }
    if let Some(status) = status {
        match system {
            System::Http => span.record("http.response.status_code", status),
            System::Db(_) => {
                span.record("db.response.status_code", tracing::field::display(status))
            }
        };
    }
    if let Some(error) = error {
        span.record("error.type", tracing::field::display(error));
        span.record("otel.status_code", "ERROR");
    }
}

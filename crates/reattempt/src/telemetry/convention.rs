//! What a protocol says about its requests in OpenTelemetry's words.

use tracing::Span;

use super::error_type::{ErrorType, OTHER};
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

    /// The status of a response with this status of its own. `error` is `None` for a success.
    pub(super) fn status(self, status: Option<i32>, error: Option<ErrorType>) -> Option<i32> {
        match (error, self) {
            // What a database says within its response is its own status.
            (Some(ErrorType::Code(code)), Self::Db(_)) => Some(code),
            (Some(ErrorType::Code(code)), Self::Http) => status.or(Some(code)),
            _ => status,
        }
    }
}

/// What a request does, and where.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Operation<'a> {
    /// `http.request.method` (`_OTHER` for one that is not known, whose spans are named `HTTP`) or
    /// `db.operation.name`: one of a known set.
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

/// What a span is around.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scope {
    /// All attempts of a call.
    Call,
    /// One attempt, with the number of those before it.
    Attempt { before: u32 },
}

/// A span with the fields that all have; the names are OpenTelemetry's.
macro_rules! span_of {
    ($name:literal, $kind:literal, $named:expr, $operation:expr, $($fields:tt)*) => {
        tracing::info_span!(
            target: "reattempt",
            $name,
            otel.name = $named,
            otel.kind = $kind,
            otel.status_code = Empty,
            server.address = $operation.host,
            server.port = $operation.port.map(i64::from),
            error.type = Empty,
            $($fields)*
        )
    };
}

/// The span of a call or an attempt. Its numbers are `i64`: of an unsigned one the bridge to
/// OpenTelemetry makes a text.
pub(super) fn span(scope: Scope, system: System, operation: &Operation<'_>) -> Span {
    use tracing::field::Empty;

    let named = match system {
        // A method that is not known names no span.
        System::Http if operation.name == OTHER => "HTTP",
        _ => operation.name,
    };
    match (system, scope) {
        (System::Http, Scope::Attempt { before }) => span_of!(
            "http.attempt",
            "client",
            named,
            operation,
            http.request.method = operation.name,
            http.request.resend_count = resent(before),
            http.response.status_code = Empty,
        ),
        (System::Http, Scope::Call) => span_of!(
            "http.call",
            "internal",
            named,
            operation,
            http.request.method = operation.name,
            http.response.status_code = Empty,
            reattempt.attempts = Empty,
            reattempt.stopped = Empty,
        ),
        (System::Db(system), Scope::Attempt { before }) => span_of!(
            "db.attempt",
            "client",
            named,
            operation,
            db.system.name = system,
            db.operation.name = operation.name,
            reattempt.resend_count = resent(before),
            db.response.status_code = Empty,
        ),
        (System::Db(system), Scope::Call) => span_of!(
            "db.call",
            "internal",
            named,
            operation,
            db.system.name = system,
            db.operation.name = operation.name,
            db.response.status_code = Empty,
            reattempt.attempts = Empty,
            reattempt.stopped = Empty,
        ),
    }
}

fn resent(before: u32) -> Option<i64> {
    (before > 0).then_some(before.into())
}

/// The end of a call or an attempt, in its span. `error` is `None` for a success.
pub(super) fn end(span: &Span, system: System, status: Option<i32>, error: Option<ErrorType>) {
    if span.is_disabled() {
        return;
    }
    if let Some(status) = system.status(status, error) {
        match system {
            System::Http => span.record("http.response.status_code", i64::from(status)),
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

//! The duration of attempts, by what they did and how they ended.

use std::sync::Arc;
use std::time::Duration;

use super::convention::{Operation, System};
use super::error_type::{ErrorType, OTHER};
use super::meter::{Histogram, Label, LabelValue, Meter};
use super::table::Table;
use crate::failure::reason::UNKNOWN;
use crate::in_drop::may_be_in_drop;

/// At most this many hosts by name; all others are [`OTHER`].
const MOST_HOSTS: usize = 100;
/// At most this many sets of labels; of others only the operation is kept. Fewer than the 2,000 at
/// which OpenTelemetry's SDK keeps nothing of further ones.
const MOST_LABELS: usize = 1900;
/// Longer names are [`OTHER`].
const LONGEST_HOST: usize = 256;
/// What the duration of an attempt is recorded with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Labelled {
    pub(super) system: System,
    pub(super) name: &'static str,
    pub(super) server: Option<(Arc<str>, Option<u16>)>,
    pub(super) status: Option<i32>,
    pub(super) error: Option<ErrorType>,
}

impl Labelled {
    fn labels(&self) -> Vec<Label> {
        let mut labels = Vec::new();
        let name = LabelValue::Static(self.name);
        let status_key = match self.system {
            System::Http => {
                labels.push(("http.request.method", name));
                "http.response.status_code"
            }
            System::Db(system) => {
                labels.push(("db.system.name", LabelValue::Static(system)));
                labels.push(("db.operation.name", name));
                "db.response.status_code"
            }
        };
        if let Some((host, port)) = &self.server {
            labels.push(("server.address", LabelValue::Text(Arc::clone(host))));
            if let Some(port) = port {
                labels.push(("server.port", LabelValue::Number((*port).into())));
            }
        }
        if let Some(status) = self.status {
            let status = match self.system {
                System::Http => LabelValue::Number(status.into()),
                // OpenTelemetry's type of it is string.
                System::Db(_) => LabelValue::Text(status.to_string().into()),
            };
            labels.push((status_key, status));
        }
        if let Some(error) = self.error {
            let text = match error {
                ErrorType::Reason(reason) => LabelValue::Static(reason.name()),
                other => LabelValue::Text(other.to_string().into()),
            };
            labels.push(("error.type", text));
        }
        labels
    }
}

/// The histograms that exist so far.
pub(super) struct Durations {
    hosts: Table<Arc<str>, Arc<str>>,
    /// Of hosts beyond the bound.
    other_host: Arc<str>,
    all: Table<Labelled, Arc<dyn Histogram>>,
}

impl Durations {
    pub(super) fn new() -> Self {
        Self {
            hosts: Table::new(MOST_HOSTS),
            other_host: Arc::from(OTHER),
            all: Table::new(MOST_LABELS),
        }
    }

    /// The operation with its host as it is recorded.
    pub(super) fn began(&self, system: System, operation: &Operation<'_>) -> Labelled {
        let server = operation.host.map(|host| {
            let host = if host.len() > LONGEST_HOST {
                OTHER
            } else {
                host
            };
            let other = || Arc::clone(&self.other_host);
            let host = self.hosts.get(host, other, Arc::clone);
            // The ports of hosts without a name tell nothing, and could be any number.
            let port = operation.port.filter(|_| &*host != OTHER);
            (host, port)
        });
        Labelled {
            system,
            name: operation.name,
            server,
            status: None,
            error: None,
        }
    }

    /// The attempt ended.
    pub(super) fn ended(&self, meter: &dyn Meter, ended: &Labelled, took: Duration) {
        let other = || Labelled {
            server: None,
            status: None,
            error: ended.error.map(|_| ErrorType::Reason(UNKNOWN)),
            ..ended.clone()
        };
        let make = |of: &Labelled| meter.histogram(of.system.duration(), &of.labels());
        may_be_in_drop(|| self.all.get(ended, other, make).record(took.as_secs_f64()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OpenTelemetry's types.
    #[test]
    fn the_status_of_a_database_is_a_text() {
        for (system, key, value) in [
            (
                System::Http,
                "http.response.status_code",
                LabelValue::Number(9),
            ),
            (
                System::Db("shop"),
                "db.response.status_code",
                LabelValue::Text("9".into()),
            ),
        ] {
            let mut labelled = Durations::new().began(system, &Operation::new("GET"));
            labelled.status = Some(9);
            assert!(labelled.labels().contains(&(key, value)), "{system:?}");
        }
    }
}

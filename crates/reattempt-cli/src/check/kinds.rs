//! The kinds of file that can be checked.

use clap::ValueEnum;
use reattempt_couchbase::{ClusterConfig, ErrorMap};
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_grpc::service_config::choices::Choices;
use reattempt_http::HttpPolicies;
use reattempt_http::json::{Fault, Faults};

use super::report::{Findings, Remark};

/// The kind of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// A gRPC service config (A6)
    #[default]
    ServiceConfig,
    /// A list of choices of a gRPC service config (A2), all of which are checked
    ServiceConfigChoices,
    /// An HTTP policy of this project
    HttpPolicy,
    /// A KV error map (RFC 0013)
    ErrorMap,
    /// A Couchbase cluster configuration
    ClusterConfig,
}

impl Kind {
    pub(super) fn check(self, bytes: &[u8]) -> Findings {
        match self {
            Self::ServiceConfig => service_config(bytes),
            Self::ServiceConfigChoices => service_config_choices(bytes),
            Self::HttpPolicy => http_policy(bytes),
            Self::ErrorMap => error_map(bytes),
            Self::ClusterConfig => cluster_config(bytes),
        }
    }
}

fn one_fault(fault: Remark) -> Findings {
    Findings {
        faults: vec![fault],
        warnings: Vec::new(),
    }
}

fn text(bytes: &[u8]) -> Result<&str, Findings> {
    std::str::from_utf8(bytes)
        .map_err(|error| one_fault(Remark::new("$", format!("is not UTF-8: {error}"))))
}

fn remarks(faults: &[Fault]) -> Vec<Remark> {
    let remarks = faults.iter();
    remarks
        .map(|fault| Remark::new(&fault.path, &fault.what))
        .collect()
}

/// Converts the result of a strict parser to faults and warnings.
fn findings(read: Result<Vec<Remark>, Faults>) -> Findings {
    match read {
        Ok(warnings) => Findings {
            faults: Vec::new(),
            warnings,
        },
        Err(faults) => Findings {
            faults: remarks(faults.faults()),
            warnings: remarks(faults.warnings()),
        },
    }
}

fn service_config(bytes: &[u8]) -> Findings {
    match text(bytes) {
        Ok(text) => findings(ServiceConfig::parse(text).map(|config| remarks(config.warnings()))),
        Err(fault) => fault,
    }
}

fn service_config_choices(bytes: &[u8]) -> Findings {
    let choices = match text(bytes).map(Choices::parse) {
        Ok(Ok(choices)) => choices,
        Ok(Err(faults)) => return findings(Err(faults)),
        Err(fault) => return fault,
    };
    let mut all = Findings::default();
    for (at, choice) in choices.iter().enumerate() {
        let found = service_config(choice.service_config().as_bytes());
        let below = format!("$[{at}].serviceConfig");
        let placed = |remark: Remark| remark.below(&below);
        all.faults.extend(found.faults.into_iter().map(placed));
        all.warnings.extend(found.warnings.into_iter().map(placed));
    }
    all
}

fn http_policy(bytes: &[u8]) -> Findings {
    match text(bytes) {
        Ok(text) => findings(HttpPolicies::parse(text).map(|parsed| remarks(&parsed.warnings))),
        Err(fault) => fault,
    }
}

fn error_map(bytes: &[u8]) -> Findings {
    match ErrorMap::check(bytes) {
        Ok(map) => {
            let warnings = map.faults().iter();
            let warnings = warnings.map(|fault| Remark::new(fault.path(), fault.problem()));
            Findings {
                faults: Vec::new(),
                warnings: warnings.collect(),
            }
        }
        Err(refused) => {
            let faults = refused
                .iter()
                .map(|fault| Remark::of_text(&fault.to_string()));
            Findings {
                faults: faults.collect(),
                warnings: Vec::new(),
            }
        }
    }
}

fn cluster_config(bytes: &[u8]) -> Findings {
    // Any host can replace `$HOST`: in a file the node is unknown.
    let faults = ClusterConfig::faults(bytes, "localhost");
    let faults = faults
        .iter()
        .map(|fault| Remark::of_text(&fault.to_string()));
    Findings {
        faults: faults.collect(),
        warnings: Vec::new(),
    }
}

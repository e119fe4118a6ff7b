//! The kinds of file that can be checked.

use clap::ValueEnum;
use reattempt_couchbase::{ClusterConfig, ErrorMap};
use reattempt_grpc::service_config::ServiceConfig;

use super::report::{Findings, Remark};

/// What a file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// A gRPC service config (A6)
    #[default]
    ServiceConfig,
    /// A KV error map (RFC 0013)
    ErrorMap,
    /// A Couchbase cluster configuration
    ClusterConfig,
}

impl Kind {
    pub(super) fn check(self, bytes: &[u8]) -> Findings {
        match self {
            Self::ServiceConfig => service_config(bytes),
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

fn service_config(bytes: &[u8]) -> Findings {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return one_fault(Remark::new("$", format!("is not UTF-8: {error}"))),
    };
    let remarks = |faults: &[reattempt_grpc::service_config::ConfigFault]| {
        let remarks = faults.iter();
        remarks
            .map(|fault| Remark::new(&fault.path, &fault.what))
            .collect()
    };
    match ServiceConfig::parse(text) {
        Ok(config) => Findings {
            faults: Vec::new(),
            warnings: remarks(config.warnings()),
        },
        Err(invalid) => Findings {
            faults: remarks(invalid.faults()),
            warnings: Vec::new(),
        },
    }
}

fn error_map(bytes: &[u8]) -> Findings {
    match ErrorMap::parse(bytes) {
        Ok(map) => {
            let warnings = map.faults().iter();
            let warnings = warnings.map(|fault| Remark::new(fault.path(), fault.problem()));
            Findings {
                faults: Vec::new(),
                warnings: warnings.collect(),
            }
        }
        Err(error) => one_fault(Remark::of_text(&error.to_string())),
    }
}

fn cluster_config(bytes: &[u8]) -> Findings {
    // Any host will do for `$HOST`: in a file it stands for a node that is not known yet.
    match ClusterConfig::parse(bytes, "localhost") {
        Ok(_) => Findings::default(),
        Err(error) => one_fault(Remark::of_text(&error.to_string())),
    }
}

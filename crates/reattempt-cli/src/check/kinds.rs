//! The kinds of file that can be checked.

use clap::ValueEnum;
use reattempt::config::Fault;
use reattempt_couchbase::{ClusterConfig, ErrorMap};
use reattempt_grpc::service_config::choices::Choices;
use reattempt_grpc::service_config::{Options, ServiceConfig};
use reattempt_http::HttpPolicies;
use reattempt_lab::PolicyText;
use reattempt_lab::lint::{Finding, lint};
use serde::Serialize;

use super::findings::Findings;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// A gRPC service config (A6)
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
    /// The name of the flag's value.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ServiceConfig => "service-config",
            Self::ServiceConfigChoices => "service-config-choices",
            Self::HttpPolicy => "http-policy",
            Self::ErrorMap => "error-map",
            Self::ClusterConfig => "cluster-config",
        }
    }

    /// What the lab finds in a policy that can be used; nothing if the kind has no policy.
    pub(super) fn lint(self, bytes: &[u8]) -> Vec<Finding> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        match self {
            Self::ServiceConfig => lint(&PolicyText::ServiceConfig(text)),
            Self::ServiceConfigChoices => lint_choices(&text),
            Self::HttpPolicy => lint(&PolicyText::HttpPolicy(text)),
            Self::ErrorMap | Self::ClusterConfig => Vec::new(),
        }
    }

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

/// The text of a kind that says where it is not UTF-8.
fn text(bytes: &[u8]) -> Result<&str, Findings> {
    std::str::from_utf8(bytes)
        .map_err(|error| Findings::one_fault(format!("is not UTF-8: {error}")))
}

fn service_config(bytes: &[u8]) -> Findings {
    let options = Options::new().log_warnings(false);
    match text(bytes).map(|text| ServiceConfig::parse_with(text, &options)) {
        Ok(read) => Findings::of(read.map(|config| config.warnings().to_vec())),
        Err(fault) => fault,
    }
}

fn service_config_choices(bytes: &[u8]) -> Findings {
    let choices = match text(bytes).map(Choices::parse) {
        Ok(Ok(choices)) => choices,
        Ok(Err(faults)) => return Findings::of(Err(faults)),
        Err(fault) => return fault,
    };
    let mut all = Findings::default();
    for (at, choice) in choices.iter().enumerate() {
        let found = service_config(choice.service_config().as_bytes());
        let below = path_of_choice(at);
        let placed = |fault: Fault| fault.below(&below);
        all.faults.extend(found.faults.into_iter().map(placed));
        all.warnings.extend(found.warnings.into_iter().map(placed));
    }
    all
}

fn path_of_choice(at: usize) -> String {
    format!("$[{at}].serviceConfig")
}

/// Of all choices together: as many as of one policy.
const MOST_FINDINGS: usize = 1000;

fn lint_choices(list: &str) -> Vec<Finding> {
    let choices = Choices::parse(list);
    let choices = choices.iter().flat_map(Choices::iter).enumerate();
    let found = choices.flat_map(|(at, choice)| {
        let config = choice.service_config().to_owned();
        let mut found = lint(&PolicyText::ServiceConfig(config));
        for finding in &mut found {
            finding.path = finding.path.replacen('$', &path_of_choice(at), 1);
        }
        found
    });
    found.take(MOST_FINDINGS).collect()
}

fn http_policy(bytes: &[u8]) -> Findings {
    match text(bytes).map(HttpPolicies::parse) {
        Ok(read) => Findings::of(read.map(|parsed| parsed.warnings)),
        Err(fault) => fault,
    }
}

fn error_map(bytes: &[u8]) -> Findings {
    Findings::of(ErrorMap::parse(bytes).map(|map| map.faults().to_vec()))
}

fn cluster_config(bytes: &[u8]) -> Findings {
    // Any host can replace `$HOST`: in a file the node is unknown.
    let read = ClusterConfig::parse_with_warnings(bytes, "localhost");
    Findings::of(read.map(|(_, warnings)| warnings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lint_looks_at_each_choice_of_a_service_config() {
        let config = r#"{"methodConfig": [{"name": [{}], "retryPolicy": {
            "maxAttempts": 3, "initialBackoff": "0.1s", "maxBackoff": "1s",
            "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}"#;
        let list = format!(r#"[{{"serviceConfig": {{}}}}, {{"serviceConfig": {config}}}]"#);
        let found = Kind::ServiceConfigChoices.lint(list.as_bytes());
        let found: Vec<_> = found
            .iter()
            .map(|found| (found.rule, &*found.path))
            .collect();
        let path = "$[1].serviceConfig.methodConfig[0].retryPolicy";
        assert_eq!(found, [("no-throttle", path)]);
    }

    #[test]
    fn a_kind_without_policies_has_no_findings() {
        for kind in [Kind::ErrorMap, Kind::ClusterConfig] {
            assert_eq!(kind.lint(b"{}"), []);
        }
    }
}

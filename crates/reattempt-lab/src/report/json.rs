//! The result document.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::Outcome;

/// The result of a scenario: each policy's outcome, in the order of the scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// By name.
    #[serde(serialize_with = "in_order")]
    pub policies: Vec<(String, Outcome)>,
}

fn in_order<S: Serializer>(
    policies: &[(String, Outcome)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(policies.len()))?;
    for (name, outcome) in policies {
        map.serialize_entry(name, outcome)?;
    }
    map.end()
}

impl Report {
    /// The result document, on one line.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Names and finite numbers: nothing that JSON does not have.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The outcome of the policy with this name.
    #[must_use]
    pub fn policy(&self, name: &str) -> Option<&Outcome> {
        let named = self.policies.iter().find(|(known, _)| known == name);
        named.map(|(_, outcome)| outcome)
    }
}

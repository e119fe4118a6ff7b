//! What is wrong with a policy.

use serde::Serialize;

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The name of the rule.
    pub rule: &'static str,
    /// Where in the policy.
    pub path: String,
    /// What is wrong, and what to do.
    pub text: String,
    /// What the lab saw in the rule's counter-example.
    pub evidence: String,
}

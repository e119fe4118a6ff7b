//! The kind of a file, by the members of its JSON object.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::IgnoredAny;

use super::kinds::Kind;

/// The kind that a member at the top belongs to alone. An error map needs both of its own.
const MEMBERS: [(&str, Kind); 6] = [
    ("methodConfig", Kind::ServiceConfig),
    ("retryThrottling", Kind::ServiceConfig),
    ("routes", Kind::HttpPolicy),
    ("default", Kind::HttpPolicy),
    ("nodesExt", Kind::ClusterConfig),
    ("vBucketServerMap", Kind::ClusterConfig),
];

/// The kind that the members of a file say; a service config without any of them. An error if they
/// are of two kinds.
pub(super) fn kind(bytes: &[u8]) -> Result<Kind, String> {
    let found = members(bytes);
    let kinds: BTreeSet<Kind> = found.iter().map(|(_, kind)| *kind).collect();
    if kinds.len() > 1 {
        let members = found.iter();
        let members = members.map(|(name, kind)| format!("{name} ({})", kind.name()));
        let listed = members.collect::<Vec<_>>().join(", ");
        return Err(format!("has members of two kinds: {listed}"));
    }
    Ok(kinds.first().copied().unwrap_or(Kind::ServiceConfig))
}

/// The members at the top that say a kind; none of what is not a JSON object.
fn members(bytes: &[u8]) -> Vec<(&'static str, Kind)> {
    let found = serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(bytes).unwrap_or_default();
    let mut members: Vec<_> = MEMBERS.into_iter().collect();
    members.retain(|(name, _)| found.contains_key(*name));
    if ["errors", "version"]
        .iter()
        .all(|name| found.contains_key(*name))
    {
        members.push(("errors", Kind::ErrorMap));
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_at_the_top_say_the_kind() {
        for (text, expected) in [
            (r#"{"methodConfig": 1}"#, Kind::ServiceConfig),
            (r#"{"retryThrottling": {}}"#, Kind::ServiceConfig),
            (r#"{"routes": []}"#, Kind::HttpPolicy),
            (r#"{"default": {}}"#, Kind::HttpPolicy),
            (r#"{"errors": {}, "version": 1}"#, Kind::ErrorMap),
            (r#"{"nodesExt": []}"#, Kind::ClusterConfig),
            (r#"{"vBucketServerMap": {}}"#, Kind::ClusterConfig),
            (r#"{"errors": {}}"#, Kind::ServiceConfig),
            (r#"{"a": {"routes": []}}"#, Kind::ServiceConfig),
            ("{}", Kind::ServiceConfig),
            ("[]", Kind::ServiceConfig),
            ("{", Kind::ServiceConfig),
        ] {
            assert_eq!(kind(text.as_bytes()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn members_of_two_kinds_are_a_fault() {
        let both = br#"{"routes": [], "methodConfig": []}"#;
        let fault = kind(both).unwrap_err();
        let expected =
            "has members of two kinds: methodConfig (service-config), routes (http-policy)";
        assert_eq!(fault, expected);
    }
}

//! What is true of the command events in all answers to a document.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use crate::members::Result;

/// M31: every start has exactly one later end, of the same message on the same connection, and
/// every end has a start. Neither a message nor an operation is of two calls.
pub(crate) fn check(answers: &[Value]) -> Result<()> {
    let (mut open, mut operations) = (BTreeMap::new(), HashSet::new());
    for answer in answers {
        let mut own = HashSet::new();
        for event in answer["events"].as_array().into_iter().flatten() {
            let same = ["command", "operation_id", "connection"].map(|name| event[name].clone());
            let id = event["request_id"].to_string();
            let fits = match event["event"].as_str() {
                Some("started") => open.insert(id, Some(same)).is_none(),
                Some("succeeded" | "failed") => {
                    open.get_mut(&id).and_then(Option::take) == Some(same)
                }
                _ => false,
            };
            if !fits {
                return Err(format!("events: no start and one end: {event}"));
            }
            own.insert(event["operation_id"].to_string());
        }
        if let Some(open) = open.values().find(|open| open.is_some()) {
            return Err(format!("events: no end of {open:?}"));
        }
        for id in own {
            if !operations.insert(id.clone()) {
                return Err(format!("events: operation {id} of two calls"));
            }
        }
    }
    Ok(())
}

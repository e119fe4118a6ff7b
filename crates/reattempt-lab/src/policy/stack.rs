//! A policy and the parts of a stack that its text cannot say.

use std::ops::Deref;

use reattempt::config::{Fault, Json, Members, Place, boolean};

use super::PolicyText;

/// A policy of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stack {
    pub(crate) policy: PolicyText,
    /// Its processes mark failures of calls that have given up, and heed such marks.
    pub(crate) hop_marks: bool,
}

impl Stack {
    /// The policy alone.
    pub(crate) const fn of(policy: PolicyText) -> Self {
        Self {
            policy,
            hop_marks: false,
        }
    }

    /// Reads a policy with its member `with`.
    pub(crate) fn read(
        place: &mut Place<'_>,
        json: Json<'_>,
        others: &mut Vec<Fault>,
    ) -> Option<Self> {
        let policy = PolicyText::read(place, json, others);
        let mut marks = false;
        if let Some(json) = json.get("with").filter(|json| !json.is_null()) {
            let mut place = place.field("with");
            let with = Members::any(&mut place, json)?;
            for (name, json) in with.iter() {
                let mut place = place.field(name);
                if name == "hop_marks" {
                    marks = boolean(&mut place, json)?;
                } else {
                    place.wrong("is not a part that a stack can have in this version");
                }
            }
        }
        Some(Self {
            policy: policy?,
            hop_marks: marks,
        })
    }
}

impl Deref for Stack {
    type Target = PolicyText;

    fn deref(&self) -> &PolicyText {
        &self.policy
    }
}

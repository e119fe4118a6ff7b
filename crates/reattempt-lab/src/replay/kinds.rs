//! The kinds of call of a recording: a route, and whether the call is idempotent.

use std::collections::{HashMap, HashSet};

use super::traffic::{Recorded, Traffic};
use crate::load::CallKind;

/// Kinds of call, each of which reads the policy.
pub(super) const MOST_KINDS: usize = 1000;

/// The kinds so far. Policies repeat requests by their idempotency, so that no kind stands for one
/// of another: there may be one kind more than [`MOST_KINDS`].
#[derive(Debug, Default)]
pub(super) struct Kinds {
    known: HashMap<(u16, bool), u16>,
    pub(super) all: Vec<CallKind>,
    /// Calls that run as those of another route.
    pub(super) others: u64,
}

impl Kinds {
    /// How many a recording has, without a bound.
    pub(super) fn count(traffic: &Traffic) -> usize {
        let kinds = traffic.calls.iter().map(key);
        kinds.collect::<HashSet<_>>().len()
    }

    /// The place of the kind of this call, whose route has this name.
    pub(super) fn of(&mut self, call: &Recorded, name: &str) -> u16 {
        if let Some(known) = self.known.get(&key(call)) {
            return *known;
        }
        let idempotent = Some(call.idempotent);
        let same = |kind: &CallKind| kind.idempotent == idempotent;
        let full = self.all.len() >= MOST_KINDS;
        if let Some(other) = self.all.iter().position(same).filter(|_| full) {
            self.others += 1;
            return other as u16;
        }
        let place = self.all.len() as u16;
        self.all.push(CallKind {
            idempotent,
            ..CallKind::of_route(name)
        });
        self.known.insert(key(call), place);
        place
    }
}

fn key(call: &Recorded) -> (u16, bool) {
    (call.route, call.idempotent)
}

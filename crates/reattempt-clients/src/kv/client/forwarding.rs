//! Chooses the node of a vbucket during a rebalance: first by the current map and, once that node
//! has refused the vbucket, by the fast-forward map, until there is a new revision (SDK-RFC 0005).

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};

use reattempt_couchbase::kv::Status;

use crate::kv::VbucketMap;

use super::response::KvResponse;
use crate::lock::lock;

/// The vbuckets that their nodes of the current map refused, for one revision.
#[derive(Clone, Debug, Default)]
pub(super) struct Forwarding(Arc<Mutex<Refused>>);

#[derive(Debug, Default)]
struct Refused {
    revision: (i64, i64),
    vbuckets: HashSet<u16>,
}

/// One request that was routed by a map with a fast-forward map.
#[derive(Debug)]
pub(super) struct Asked {
    forwarding: Forwarding,
    revision: (i64, i64),
    vbucket: u16,
}

impl Forwarding {
    /// The node for a vbucket, and the handle that must see its response.
    pub(super) fn node<'a>(
        &self,
        map: &'a VbucketMap,
        vbucket: u16,
    ) -> (Option<&'a str>, Option<Asked>) {
        let Some(forward) = map.forward_node_of(vbucket) else {
            return (map.node_of(vbucket), None);
        };
        let revision = (map.rev_epoch, map.rev);
        let refused = self.refused();
        if refused.revision == revision && refused.vbuckets.contains(&vbucket) {
            return (Some(forward), None);
        }
        drop(refused);
        let asked = Asked {
            forwarding: self.clone(),
            revision,
            vbucket,
        };
        (map.node_of(vbucket), Some(asked))
    }

    fn refused(&self) -> MutexGuard<'_, Refused> {
        lock(&self.0)
    }
}

impl Asked {
    /// Records the response.
    pub(super) fn answered(&self, answer: &KvResponse) {
        if answer.status != Status::NOT_MY_VBUCKET {
            return;
        }
        let mut refused = self.forwarding.refused();
        if refused.revision != self.revision {
            if refused.revision > self.revision {
                // A response to a request that was routed by an older map.
                return;
            }
            refused.revision = self.revision;
            refused.vbuckets.clear();
        }
        refused.vbuckets.insert(self.vbucket);
    }
}

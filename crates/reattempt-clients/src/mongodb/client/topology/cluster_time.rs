//! The highest `$clusterTime` of the deployment.

use bson::{Bson, Document, doc};

use super::Topology;
use crate::lock::lock;

/// The longest hash of a `$clusterTime`'s signature that is taken, in bytes; servers send 20.
const MAX_HASH: usize = 64;

impl Topology {
    /// The highest `$clusterTime` seen so far.
    #[must_use]
    pub fn cluster_time(&self) -> Option<Document> {
        lock(&self.inner.cluster_time).clone()
    }

    /// Records a reply's `$clusterTime`, if it is a sound one.
    pub fn saw(&self, reply: &Document) {
        let Ok(new) = reply.get_document("$clusterTime") else {
            return;
        };
        let mut highest = lock(&self.inner.cluster_time);
        let time = |of: &Document| of.get_timestamp("clusterTime").ok();
        if time(new) > highest.as_ref().and_then(time) {
            *highest = sound_time(new).or_else(|| highest.take());
        }
    }
}

/// The members of a `$clusterTime` that a server checks. Each command repeats them to every server,
/// so nothing else that one server sends is taken over.
fn sound_time(sent: &Document) -> Option<Document> {
    let mut sound = doc! { "clusterTime": sent.get_timestamp("clusterTime").ok()? };
    if let Some(signature) = sent.get("signature") {
        let mut checked = Document::new();
        for (name, value) in signature.as_document()? {
            let is_sound = match name.as_str() {
                "hash" => matches!(value, Bson::Binary(hash) if hash.bytes.len() <= MAX_HASH),
                "keyId" => matches!(value, Bson::Int32(_) | Bson::Int64(_)),
                _ => continue,
            };
            if !is_sound {
                return None;
            }
            checked.insert(name, value);
        }
        sound.insert("signature", checked);
    }
    Some(sound)
}

//! The flags of key-value calls.

use serde_json::Value;

use super::{Arguments, Draft, target};
use crate::call::document::{Fault, to_base64};

/// Flags of the key-value protocol alone.
#[derive(Debug, clap::Args)]
#[command(
    next_help_heading = "Key-value (reattempt call couchbase://127.0.0.1 --bucket travel --username u --password p --key k)"
)]
pub(super) struct KvFlags {
    /// The document's key
    #[arg(long)]
    pub(super) key: Option<String>,
    /// The bucket
    #[arg(long)]
    pub(super) bucket: Option<String>,
    /// The user
    #[arg(long)]
    pub(super) username: Option<String>,
    /// The password
    #[arg(long)]
    pub(super) password: Option<String>,
    /// Speaks to plain memcached servers
    #[arg(long)]
    pub(super) memcached: bool,
}

impl Arguments {
    pub(super) fn kv(&self, draft: &mut Draft) -> Result<(), Fault> {
        let flags = &self.kv;
        draft.set("protocol", "kv");
        let (scheme, nodes) = target::split(self.target().unwrap_or_default());
        let port = match scheme {
            Some("couchbase") => Some(11_210),
            Some("memcached") => Some(11_211),
            _ => None,
        };
        // A password may hold a comma.
        let credentials = nodes.rfind('@').map_or(0, |at| at + 1);
        let first = nodes.find(',').unwrap_or(nodes.len());
        let (credentials, nodes) = nodes.split_at(match nodes[..first].contains('@') {
            true => 0,
            false => credentials,
        });
        let nodes = nodes.split(',').enumerate().map(|(at, node)| match at {
            0 => format!("{credentials}{node}"),
            _ => node.to_owned(),
        });
        let nodes: Value = nodes.map(|node| target::with_port(&node, port)).collect();
        draft.set("target", nodes);
        let memcached = flags.memcached || scheme == Some("memcached");
        draft.set("bootstrap", memcached.then_some("memcached"));
        for (name, value) in [
            ("bucket", &flags.bucket),
            ("username", &flags.username),
            ("password", &flags.password),
        ] {
            draft.set(name, value.clone());
        }
        self.couchbase(draft);
        draft.call("op", self.op.as_deref().unwrap_or("get"));
        draft.call("key", flags.key.clone());
        draft.call("value", to_base64(&self.payloads()?.concat()));
        draft.call("idempotent", self.idempotent.then_some(true));
        Ok(())
    }
}

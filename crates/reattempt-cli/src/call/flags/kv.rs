//! The flags of key-value calls.

use reattempt_couchbase::Address;
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

impl KvFlags {
    /// Refuses a flag of the login that would have no effect.
    fn check_login(&self, memcached: bool, target_has_user: bool) -> Result<(), Fault> {
        if memcached {
            for (flag, is_set) in [
                ("--username", self.username.is_some()),
                ("--password", self.password.is_some()),
                ("--bucket", self.bucket.is_some()),
            ] {
                if is_set {
                    let what = "memcached servers have no login and no buckets: leave it out";
                    return Err(Fault::new(flag, what));
                }
            }
        }
        let has_user = target_has_user || self.username.as_ref().is_some_and(|u| !u.is_empty());
        if self.password.is_some() && !has_user {
            let what = "needs --username, or a user before the node";
            return Err(Fault::new("--password", what));
        }
        Ok(())
    }
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
        let target_has_user = nodes.contains('@');
        let (credentials, nodes) = split_credentials(nodes)?;
        let nodes = nodes.split(',').enumerate().map(|(at, node)| match at {
            0 => format!("{credentials}{node}"),
            _ => node.to_owned(),
        });
        let nodes: Value = nodes.map(|node| target::with_port(&node, port)).collect();
        draft.set("target", nodes);
        let memcached = flags.memcached || scheme == Some("memcached");
        draft.set("bootstrap", memcached.then_some("memcached"));
        flags.check_login(memcached, target_has_user)?;
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

/// Splits `user:password@` from the nodes if a comma is in it: a password may hold one. Without a
/// comma it belongs to a node of the list, as it is written. The error does not repeat the text.
fn split_credentials(nodes: &str) -> Result<(&str, &str), Fault> {
    let first = nodes.find(',').unwrap_or(nodes.len());
    let Some(at) = nodes.rfind('@') else {
        return Ok(("", nodes));
    };
    if nodes[..first].contains('@') {
        return Ok(("", nodes));
    }
    let (credentials, nodes) = nodes.split_at(at + 1);
    let login = &credentials[..at];
    let user_has_comma = login.find(':').is_none_or(|colon| first < colon);
    if user_has_comma || login.split(',').any(is_node) {
        let what = "a user and a password stand before the first node, with a comma in them as %2C";
        return Err(Fault::new("the target", what));
    }
    Ok((credentials, nodes))
}

/// Whether a piece of what stands before an `@` is written as a node is: `host:port`, also with a
/// port that is none and with a name of the port (`=mcd`), or `[::1]`.
fn is_node(piece: &str) -> bool {
    let is_address = |text: &str| text.parse::<Address>().is_ok();
    let port = piece.rsplit_once(':').map_or("", |(_, port)| port);
    let number = port.split_once('=').map_or(port, |(number, _)| number);
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number || (piece.ends_with(']') && is_address(&format!("{piece}:1")))
}

//! A scripted key-value client, for the tests of this crate.

#[cfg(feature = "tokio")]
mod running;

use std::sync::Arc;

use reattempt::{Elapsed, Stage};

use crate::Address;
use crate::kv::{ErrorMap, KvAnswer, KvRequest, KvTransportError, Opcode};

#[cfg(feature = "tokio")]
pub(crate) use running::{config, node};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) opcode: Opcode,
    pub(crate) key: Option<&'static [u8]>,
}

impl Request {
    pub(crate) const fn get(key: &'static [u8]) -> Self {
        Self {
            opcode: Opcode::GET,
            key: Some(key),
        }
    }
}

impl KvRequest for Request {
    fn opcode(&self) -> u8 {
        self.opcode.0
    }

    fn key(&self) -> Option<&[u8]> {
        self.key
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) opcode: Opcode,
    pub(crate) value: Vec<u8>,
    pub(crate) framing_extras: Vec<u8>,
    pub(crate) map: Option<Arc<ErrorMap>>,
    pub(crate) node: Option<Address>,
}

impl Answer {
    pub(crate) const fn of(status: u16) -> Self {
        Self {
            status,
            opcode: Opcode::GET,
            value: Vec::new(),
            framing_extras: Vec::new(),
            map: None,
            node: None,
        }
    }

    pub(crate) fn to(mut self, opcode: Opcode) -> Self {
        self.opcode = opcode;
        self
    }

    pub(crate) fn map(mut self, map: &Arc<ErrorMap>) -> Self {
        self.map = Some(Arc::clone(map));
        self
    }
}

impl KvAnswer for Answer {
    fn status(&self) -> u16 {
        self.status
    }

    fn opcode(&self) -> u8 {
        self.opcode.0
    }

    fn value(&self) -> &[u8] {
        &self.value
    }

    fn framing_extras(&self) -> &[u8] {
        &self.framing_extras
    }

    fn error_map(&self) -> Option<&ErrorMap> {
        self.map.as_deref()
    }

    fn node(&self) -> Option<Address> {
        self.node.clone()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lost {
    At(Stage),
    ForGood,
    Elapsed,
}

impl From<Elapsed> for Lost {
    fn from(_: Elapsed) -> Self {
        Self::Elapsed
    }
}

impl KvTransportError for Lost {
    fn stage(&self) -> Stage {
        match self {
            Self::At(stage) => *stage,
            Self::ForGood | Self::Elapsed => Stage::InFlight,
        }
    }

    fn is_fatal(&self) -> bool {
        *self == Self::ForGood
    }
}

/// A map with these entries: `(key, attributes, retry)`.
pub(crate) fn map(entries: &[(&str, &str, &str)]) -> Arc<ErrorMap> {
    let entries: Vec<_> = entries
        .iter()
        .map(|(key, attributes, retry)| {
            let attributes: Vec<_> = attributes.split(' ').map(|a| format!("\"{a}\"")).collect();
            let retry = if retry.is_empty() {
                String::new()
            } else {
                format!(", \"retry\": {retry}")
            };
            format!(
                "\"{key}\": {{\"attrs\": [{}]{retry}}}",
                attributes.join(",")
            )
        })
        .collect();
    let json = format!(
        r#"{{"version": 2, "revision": 1, "errors": {{{}}}}}"#,
        entries.join(",")
    );
    Arc::new(ErrorMap::parse(json.as_bytes()).unwrap())
}

/// A bucket with these nodes (`n1`, `n2` …); all four vbuckets are on node `owner`.
pub(crate) fn bucket(epoch: i64, rev: i64, nodes: usize, owner: usize) -> String {
    let list = |item: &dyn Fn(usize) -> String| {
        let items: Vec<_> = (1..=nodes).map(item).collect();
        items.join(",")
    };
    let ext = list(&|n| format!(r#"{{"hostname": "n{n}", "services": {{"kv": 11210}}}}"#));
    let servers = list(&|n| format!("\"n{n}:11210\""));
    format!(
        r#"{{"name": "b", "revEpoch": {epoch}, "rev": {rev}, "nodesExt": [{ext}], "vBucketServerMap": {{
            "hashAlgorithm": "CRC", "serverList": [{servers}],
            "vBucketMap": [[{owner}, -1], [{owner}, -1], [{owner}, -1], [{owner}, -1]]}}}}"#
    )
}

//! Parses the vbucket server map.

use std::collections::HashMap;

use serde_json::Value;

use super::node::Ports;
use super::origin::address;
use super::{ConfigError, Faults, MAX_NODES, Node, Service};
use crate::cluster_config::vbucket::{Copies, MAX_VBUCKETS};
use crate::cluster_config::{Address, Network, VbucketMap};

/// The maximum number of copies of a vbucket; the server supports one active and three replicas.
const MAX_COPIES: usize = 16;

pub(super) fn vbuckets(
    map: &Value,
    origin: &str,
    nodes: &mut Vec<Node>,
    faults: &mut Faults,
) -> Option<VbucketMap> {
    let object = map
        .as_object()
        .ok_or_else(|| ConfigError::at("$.vBucketServerMap", "must be an object"));
    let object = faults.keep(object)?;
    if let Some(algorithm) = object.get("hashAlgorithm") {
        if algorithm.as_str() != Some("CRC") {
            let path = "$.vBucketServerMap.hashAlgorithm";
            faults.add(ConfigError::at(path, "must be CRC"));
        }
    }
    let servers = faults.keep(servers(object.get("serverList"), origin, nodes))?;
    let current = copies(object.get("vBucketMap"), "vBucketMap", servers.len());
    let current = faults.keep(current);
    let forward = match object.get("vBucketMapForward") {
        None => None,
        forward => faults
            .keep(copies(forward, "vBucketMapForward", servers.len()))
            .flatten(),
    };
    // A bucket that was just created has none yet.
    let current = current.flatten()?;
    let count = |copies: &Copies| copies.servers.len() / copies.width;
    if forward
        .as_ref()
        .is_some_and(|forward| count(forward) != count(&current))
    {
        faults.add(ConfigError::at(
            "$.vBucketServerMap.vBucketMapForward",
            "must have as many vbuckets as vBucketMap",
        ));
        return None;
    }
    Some(VbucketMap::new(servers, current, forward))
}

/// The node of each server. A server that is in no list of nodes becomes a node with key-value
/// only.
fn servers(
    list: Option<&Value>,
    origin: &str,
    nodes: &mut Vec<Node>,
) -> Result<Vec<usize>, ConfigError> {
    let path = "$.vBucketServerMap.serverList";
    let list = list
        .and_then(Value::as_array)
        .ok_or_else(|| ConfigError::at(path, "must be a list of host:port"))?;
    if list.len() > MAX_NODES {
        return Err(ConfigError::at(path, "has more than 4096 servers"));
    }
    let mut by_address = HashMap::with_capacity(nodes.len() * 2);
    for (at, node) in nodes.iter().enumerate() {
        for tls in [true, false] {
            if let Some(address) = node.address(Service::Kv, tls, &Network::Default) {
                by_address.entry(address).or_insert(at);
            }
        }
    }
    let mut servers = Vec::with_capacity(list.len());
    for (at, server) in list.iter().enumerate() {
        let address: Address = server
            .as_str()
            .and_then(|text| address(text, origin))
            .ok_or_else(|| ConfigError::at(format!("{path}[{at}]"), "must be host:port"))?;
        let node = *by_address.entry(address).or_insert_with_key(|address| {
            nodes.push(kv_only(address));
            nodes.len() - 1
        });
        servers.push(node);
    }
    Ok(servers)
}

fn kv_only(address: &Address) -> Node {
    let mut ports = Ports::default();
    ports.0[Service::Kv as usize][0] = Some(address.port());
    Node {
        hostname: address.host().into(),
        ports,
        this_node: false,
        uuid: None,
        alternates: Vec::new(),
    }
}

/// A map's copies as one flat list; `None` if it is empty.
fn copies(map: Option<&Value>, key: &str, servers: usize) -> Result<Option<Copies>, ConfigError> {
    let invalid = |at: String, problem| {
        Err(ConfigError::at(
            format!("$.vBucketServerMap.{key}{at}"),
            problem,
        ))
    };
    let Some(rows) = map.and_then(Value::as_array) else {
        return invalid(String::new(), "must be a list of vbuckets");
    };
    if rows.len() > MAX_VBUCKETS {
        return invalid(String::new(), "has more than 32768 vbuckets");
    }
    let mut width = 0;
    for (vbucket, row) in rows.iter().enumerate() {
        match row.as_array().map(Vec::len) {
            Some(len @ 1..=MAX_COPIES) => width = width.max(len),
            _ => {
                return invalid(
                    format!("[{vbucket}]"),
                    "must be a list of 1 to 16 servers, the active one first",
                );
            }
        }
    }
    if width == 0 {
        return Ok(None);
    }
    let mut flat = vec![-1; rows.len() * width];
    for (vbucket, row) in rows.iter().enumerate() {
        for (copy, server) in row.as_array().into_iter().flatten().enumerate() {
            let number = server
                .as_i64()
                .and_then(|server| i32::try_from(server).ok());
            match number {
                Some(-1) => {}
                Some(server) if usize::try_from(server).is_ok_and(|server| server < servers) => {
                    flat[vbucket * width + copy] = server;
                }
                _ => {
                    return invalid(
                        format!("[{vbucket}][{copy}]"),
                        "must be -1 or the number of a server in serverList",
                    );
                }
            }
        }
    }
    Ok(Some(Copies {
        width,
        servers: flat.into(),
    }))
}

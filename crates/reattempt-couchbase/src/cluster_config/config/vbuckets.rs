//! Parses the vbucket server map.

use std::collections::HashMap;

use reattempt::config::{Json, Place};

use super::node::Ports;
use super::origin::address;
use super::{MAX_NODES, Node, Service};
use crate::cluster_config::vbucket::{Copies, MAX_VBUCKETS};
use crate::cluster_config::{Address, Network, VbucketMap};
use crate::server_document::object;

/// The maximum number of copies of a vbucket; the server supports one active and three replicas.
const MAX_COPIES: usize = 16;

pub(super) fn vbuckets(
    place: &mut Place<'_>,
    json: Json<'_>,
    origin: &str,
    nodes: &mut Vec<Node>,
) -> Option<VbucketMap> {
    let known = [
        "hashAlgorithm",
        "serverList",
        "vBucketMap",
        "vBucketMapForward",
    ];
    let map = object(place, json, &known)?;
    let algorithm = map.get("hashAlgorithm");
    if algorithm.is_some_and(|algorithm| algorithm.as_str().as_deref() != Some("CRC")) {
        place.field("hashAlgorithm").wrong("must be CRC");
    }
    let servers = servers(
        &mut place.field("serverList"),
        map.get("serverList"),
        origin,
        nodes,
    )?;
    let current = copies(
        &mut place.field("vBucketMap"),
        map.get("vBucketMap"),
        servers.len(),
    );
    let mut place = place.field("vBucketMapForward");
    let forward = map.get("vBucketMapForward");
    let forward = forward.and_then(|map| copies(&mut place, Some(map), servers.len()));
    // A bucket that was just created has none yet.
    let current = current?;
    let count = |copies: &Copies| copies.servers.len() / copies.width;
    if forward
        .as_ref()
        .is_some_and(|forward| count(forward) != count(&current))
    {
        return place.refuse("must have as many vbuckets as vBucketMap");
    }
    Some(VbucketMap::new(servers, current, forward))
}

/// The node of each server. A server that is in no list of nodes becomes a node with key-value
/// only.
fn servers(
    place: &mut Place<'_>,
    list: Option<Json<'_>>,
    origin: &str,
    nodes: &mut Vec<Node>,
) -> Option<Vec<usize>> {
    let Some(list) = list.and_then(Json::items) else {
        return place.refuse("must be a list of host:port");
    };
    if list.len() > MAX_NODES {
        return place.refuse("has more than 4096 servers");
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
    for (at, server) in list.into_iter().enumerate() {
        let text = server.as_str();
        let Some(address) = text.and_then(|text| address(&text, origin)) else {
            return place.index(at).refuse("must be host:port");
        };
        let node = *by_address.entry(address).or_insert_with_key(|address| {
            nodes.push(kv_only(address));
            nodes.len() - 1
        });
        servers.push(node);
    }
    Some(servers)
}

fn kv_only(address: &Address) -> Node {
    let mut ports = Ports::default();
    ports.0[Service::Kv as usize][0] = Some(address.port());
    Node {
        hostname: address.host().into(),
        ports,
        uuid: None,
        alternates: Vec::new(),
    }
}

/// A map's copies as one flat list; `None` if it is empty or has a fault.
fn copies(place: &mut Place<'_>, map: Option<Json<'_>>, servers: usize) -> Option<Copies> {
    let Some(vbuckets) = map.and_then(Json::items) else {
        return place.refuse("must be a list of vbuckets");
    };
    if vbuckets.len() > MAX_VBUCKETS {
        return place.refuse("has more than 32768 vbuckets");
    }
    let mut rows = Vec::with_capacity(vbuckets.len());
    for (vbucket, row) in vbuckets.into_iter().enumerate() {
        let row = row.items().unwrap_or_default();
        if !(1..=MAX_COPIES).contains(&row.len()) {
            let mut place = place.index(vbucket);
            return place.refuse("must be a list of 1 to 16 servers, the active one first");
        }
        rows.push(row);
    }
    let width = rows.iter().map(Vec::len).max()?;
    let mut flat = vec![-1; rows.len() * width];
    for (vbucket, row) in rows.into_iter().enumerate() {
        for (copy, server) in row.into_iter().enumerate() {
            let number = server.as_number().and_then(|number| number.parse().ok());
            match number {
                Some(-1) => {}
                Some(server) if usize::try_from(server).is_ok_and(|server| server < servers) => {
                    flat[vbucket * width + copy] = server;
                }
                _ => {
                    let mut place = place.index(vbucket);
                    let mut place = place.index(copy);
                    return place.refuse("must be -1 or the number of a server in serverList");
                }
            }
        }
    }
    Some(Copies {
        width,
        servers: flat.into(),
    })
}

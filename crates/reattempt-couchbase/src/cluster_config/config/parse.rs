//! Parses a configuration from JSON.

use reattempt::config::{Form, Json, Members, Place, Unreadable};

use super::node::{Alternate, Ports};
use super::origin::{HOST, address};
use super::vbuckets::vbuckets;
use super::{ClusterConfig, MAX_BYTES, MAX_NODES, Node, Service};
use crate::address::{bare, canonical, is_host};
use crate::cluster_config::{Address, Revision};
use crate::server_document::{form, not_json, object};

const MAX_NETWORKS: usize = 16;

/// The faults are bounded, because a hostile configuration may contain any number.
pub(super) const FORM: Form = Form {
    most_faults: 99,
    ..form(
        "the cluster configuration",
        MAX_BYTES,
        |unreadable| match unreadable {
            Unreadable::TooLong { bytes, longest } => {
                format!("a configuration of {bytes} bytes is refused: at most {longest} are read")
            }
            other => not_json(other),
        },
    )
};

pub(super) fn config(place: &mut Place<'_>, json: Json<'_>, origin: &str) -> Option<ClusterConfig> {
    let origin = &*canonical(origin);
    let known = [
        "rev",
        "revEpoch",
        "name",
        "nodes",
        "nodesExt",
        "nodeLocator",
        "vBucketServerMap",
    ];
    let root = object(place, json, &known)?;
    let revision = revision(place, &root);
    let bucket = root.optional(place, "name", |place, json| match json.as_str() {
        Some(name) => Some(name.into()),
        None => place.refuse("must be the bucket's name"),
    });
    let mut nodes = nodes(place, &root, origin);
    let vbuckets = root.optional(place, "vBucketServerMap", |place, json| {
        vbuckets(place, json, origin, &mut nodes)
    });
    let locator = root.get("nodeLocator").and_then(Json::as_str);
    if root.get("vBucketServerMap").is_none() && locator.as_deref() == Some("vbucket") {
        let mut place = place.field("vBucketServerMap");
        place.wrong("is missing, and the bucket is located by vbuckets");
    }
    if nodes.is_empty() && !place.has_faults() {
        place.field("nodesExt").wrong("must name at least one node");
    }
    Some(ClusterConfig {
        revision,
        bucket,
        nodes,
        vbuckets,
    })
}

fn revision(place: &mut Place<'_>, root: &Members<'_>) -> Revision {
    let mut integer = |name, must, least| {
        let number = root.optional(place, name, |place, json| {
            let number = json.as_number().and_then(|number| number.parse().ok());
            number
                .filter(|number| *number >= least)
                .or_else(|| place.refuse(must))
        });
        number.unwrap_or_default()
    };
    let rev = integer("rev", "must be an integer from 0 to 2^63-1", 0);
    let epoch = integer(
        "revEpoch",
        "must be an integer from -2^63 to 2^63-1",
        i64::MIN,
    );
    Revision::new(epoch, rev)
}

/// A list of nodes with a bounded length.
fn list<'t>(place: &mut Place<'_>, root: &Members<'t>, name: &str) -> Option<Vec<Json<'t>>> {
    root.optional(place, name, |place, json| match json.items() {
        None => place.refuse("must be a list of nodes"),
        Some(list) if list.len() > MAX_NODES => place.refuse("has more than 4096 nodes"),
        list => list,
    })
}

fn nodes(place: &mut Place<'_>, root: &Members<'_>, origin: &str) -> Vec<Node> {
    let old = list(place, root, "nodes").unwrap_or_default();
    let Some(new) = list(place, root, "nodesExt") else {
        // The older format, without nodesExt, has only key-value and management.
        let mut place = place.field("nodes");
        let nodes = old.into_iter().enumerate();
        return nodes
            .filter_map(|(at, json)| old_node(&mut place.index(at), json, origin))
            .collect();
    };
    let nodes = new.into_iter().enumerate();
    nodes
        .filter_map(|(at, json)| node(place, json, at, old.get(at).copied(), origin))
        .collect()
}

/// The node at this index of `nodesExt`; `root` is the place of the whole configuration.
fn node(
    root: &mut Place<'_>,
    json: Json<'_>,
    at: usize,
    old: Option<Json<'_>>,
    origin: &str,
) -> Option<Node> {
    let mut list = root.field("nodesExt");
    let mut place = list.index(at);
    let node = object(&mut place, json, &NODE)?;
    let hostname = match (node.get("hostname"), old) {
        // The remaining members are checked as well, to report their faults too.
        (Some(hostname), _) => {
            host(&mut place.field("hostname"), hostname, origin).unwrap_or_default()
        }
        // A single node may not know its own name; the older list may contain it.
        (None, Some(old)) if old.get("hostname").is_some() => {
            old_address(&mut root.field("nodes").index(at), old, origin)?
                .host()
                .into()
        }
        (None, _) => known(&mut place.field("hostname"), origin)?.into(),
    };
    let mut list = root.field("nodesExt");
    let place = &mut list.index(at);
    let Some(services) = node.get("services") else {
        return place.field("services").refuse("is missing");
    };
    let ports = ports(&mut place.field("services"), services)?;
    let alternates = match node.get("alternateAddresses") {
        Some(json) => alternates(&mut place.field("alternateAddresses"), json, origin)?,
        None => Vec::new(),
    };
    Some(Node {
        hostname,
        ports,
        alternates,
        ..named(&node)
    })
}

/// The members of a node, in both formats.
const NODE: [&str; 5] = [
    "hostname",
    "services",
    "ports",
    "alternateAddresses",
    "nodeUUID",
];

/// A node with the members that both formats have.
fn named(node: &Members<'_>) -> Node {
    Node {
        hostname: Box::default(),
        ports: Ports::default(),
        uuid: node.get("nodeUUID").and_then(Json::as_str).map(Box::from),
        alternates: Vec::new(),
    }
}

/// The origin, which the caller may not know.
fn known<'a>(place: &mut Place<'_>, origin: &'a str) -> Option<&'a str> {
    if origin.is_empty() {
        return place.refuse("is the host that the configuration came from, which is unknown");
    }
    Some(origin)
}

fn host(place: &mut Place<'_>, json: Json<'_>, origin: &str) -> Option<Box<str>> {
    let text = json.as_str().unwrap_or_default();
    let host = bare(&text);
    if host == HOST {
        return known(place, origin).map(Box::from);
    }
    if !is_host(host) || host.contains('$') {
        return place.refuse("must be a host name, an IPv4 address or an IPv6 address");
    }
    Some(canonical(host))
}

fn ports(place: &mut Place<'_>, json: Json<'_>) -> Option<Ports> {
    let services = object(place, json, Service::NAMES.as_flattened())?;
    let mut ports = Ports::default();
    for (port, name) in ports
        .0
        .as_flattened_mut()
        .iter_mut()
        .zip(Service::NAMES.as_flattened())
    {
        *port = services.optional(place, name, self::port);
    }
    Some(ports)
}

fn port(place: &mut Place<'_>, json: Json<'_>) -> Option<u16> {
    let port = json.as_number().and_then(|port| port.parse().ok());
    port.filter(|port| *port != 0)
        .or_else(|| place.refuse("must be a port from 1 to 65535"))
}

fn alternates(place: &mut Place<'_>, json: Json<'_>, origin: &str) -> Option<Vec<Alternate>> {
    if !json.is_object() {
        return place.refuse(format!("must be an object, got {}", json.describe()));
    }
    let networks = Members::any(place, json)?;
    if networks.iter().count() > MAX_NETWORKS {
        return place.refuse("has more than 16 networks");
    }
    let alternate = |(network, json): (&str, _)| {
        let mut place = place.field(network);
        let alternate = object(&mut place, json, &["hostname", "ports"])?;
        let mut hostname = place.field("hostname");
        let hostname = match alternate.get("hostname") {
            Some(json) => host(&mut hostname, json, origin)?,
            None => return hostname.refuse("is missing"),
        };
        let ports = alternate.get("ports");
        Some(Alternate {
            network: network.into(),
            hostname,
            ports: match ports {
                Some(json) => Some(self::ports(&mut place.field("ports"), json)?),
                None => None,
            },
        })
    };
    networks.iter().map(alternate).collect()
}

/// `hostname` of the older list: the management address.
fn old_address(place: &mut Place<'_>, json: Json<'_>, origin: &str) -> Option<Address> {
    let text = json.get("hostname").and_then(Json::as_str);
    let address = text.and_then(|text| address(&text, origin));
    address.or_else(|| place.field("hostname").refuse("must be host:port"))
}

fn old_node(place: &mut Place<'_>, json: Json<'_>, origin: &str) -> Option<Node> {
    let node = object(place, json, &NODE)?;
    let management = old_address(place, json, origin)?;
    let mut ports = Ports::default();
    ports.0[Service::Management as usize][0] = Some(management.port());
    if let Some(direct) = node.get("ports").and_then(|ports| ports.get("direct")) {
        let kv = port(&mut place.field("ports").field("direct"), direct)?;
        ports.0[Service::Kv as usize][0] = Some(kv);
    }
    Some(Node {
        hostname: management.host().into(),
        ports,
        ..named(&node)
    })
}

//! Parses a configuration from JSON.

use serde_json::{Map, Value};

use super::node::{Alternate, Ports};
use super::origin::{HOST, address};
use super::vbuckets::vbuckets;
use super::{ClusterConfig, ConfigError, Faults, MAX_BYTES, MAX_NODES, Node, Service};
use crate::cluster_config::address::{bare, is_host};
use crate::cluster_config::{Address, Revision};

const MAX_NETWORKS: usize = 16;

type Object = Map<String, Value>;

/// The configuration, and its faults: if there are any, it must not be used.
pub(super) fn config(json: &[u8], origin: &str) -> (Option<ClusterConfig>, Faults) {
    let mut faults = Faults::default();
    let document = faults.keep(document(json));
    let root = document.as_ref().and_then(|document| {
        let root = document.as_object();
        faults.keep(root.ok_or_else(|| ConfigError::at("$", "must be an object")))
    });
    let config = root.map(|root| of_object(root, bare(origin), &mut faults));
    (config, faults)
}

fn document(json: &[u8]) -> Result<Value, ConfigError> {
    if json.len() > MAX_BYTES {
        return Err(ConfigError::TooLarge { bytes: json.len() });
    }
    serde_json::from_slice(json).map_err(|e| ConfigError::NotJson {
        line: e.line(),
        column: e.column(),
        problem: e.to_string(),
    })
}

fn of_object(root: &Object, origin: &str, faults: &mut Faults) -> ClusterConfig {
    let revision = revision(root, faults);
    let bucket = root.get("name").and_then(|name| {
        let name = name.as_str().map(Box::from);
        faults.keep(name.ok_or_else(|| ConfigError::at("$.name", "must be the bucket's name")))
    });
    let mut nodes = nodes(root, origin, faults);
    let vbuckets = match root.get("vBucketServerMap") {
        Some(map) => vbuckets(map, origin, &mut nodes, faults),
        None if root.get("nodeLocator").and_then(Value::as_str) == Some("vbucket") => {
            faults.add(ConfigError::at(
                "$.vBucketServerMap",
                "is missing, and the bucket is located by vbuckets",
            ));
            None
        }
        None => None,
    };
    if nodes.is_empty() && faults.is_empty() {
        faults.add(ConfigError::at("$.nodesExt", "must name at least one node"));
    }
    ClusterConfig {
        revision,
        bucket,
        nodes,
        vbuckets,
    }
}

fn revision(root: &Object, faults: &mut Faults) -> Revision {
    let mut integer = |key, path: &str, problem, least| match root.get(key) {
        None => 0,
        Some(value) => {
            let number = value.as_i64().filter(|number| *number >= least);
            let number = faults.keep(number.ok_or_else(|| ConfigError::at(path, problem)));
            number.unwrap_or_default()
        }
    };
    let not_negative = "must be an integer that is not negative";
    let rev = integer("rev", "$.rev", not_negative, 0);
    let epoch = integer("revEpoch", "$.revEpoch", "must be an integer", i64::MIN);
    Revision::new(epoch, rev)
}

/// A list of objects under a key, with a bounded length.
fn list<'a>(root: &'a Object, key: &str) -> Result<Option<&'a [Value]>, ConfigError> {
    let Some(value) = root.get(key) else {
        return Ok(None);
    };
    let list = value
        .as_array()
        .ok_or_else(|| ConfigError::at(format!("$.{key}"), "must be a list of nodes"))?;
    if list.len() > MAX_NODES {
        return Err(ConfigError::at(
            format!("$.{key}"),
            "has more than 4096 nodes",
        ));
    }
    Ok(Some(list))
}

fn nodes(root: &Object, origin: &str, faults: &mut Faults) -> Vec<Node> {
    let old = faults.keep(list(root, "nodes")).flatten();
    let old = old.unwrap_or_default();
    let new = faults.keep(list(root, "nodesExt")).flatten();
    let mut nodes = Vec::new();
    for (at, value) in new.unwrap_or(old).iter().enumerate() {
        let node = match new {
            Some(_) => node(value, at, old, origin, faults),
            // The older format, without nodesExt, has only key-value and management.
            None => old_node(value, at, origin),
        };
        nodes.extend(faults.keep(node));
    }
    nodes
}

fn object<'a>(value: &'a Value, path: &str) -> Result<&'a Object, ConfigError> {
    value
        .as_object()
        .ok_or_else(|| ConfigError::at(path, "must be an object"))
}

fn node(
    value: &Value,
    at: usize,
    old: &[Value],
    origin: &str,
    faults: &mut Faults,
) -> Result<Node, ConfigError> {
    let path = format!("$.nodesExt[{at}]");
    let node = object(value, &path)?;
    let hostname = match node.get("hostname") {
        // The remaining members are checked as well, to report their faults too.
        Some(hostname) => faults
            .keep(host(hostname, origin, &format!("{path}.hostname")))
            .unwrap_or_default(),
        // A single node may not know its own name; the older list may contain it.
        None => match old.get(at) {
            Some(old) if old.get("hostname").is_some() => {
                old_address(old, at, origin)?.host().into()
            }
            _ => known(origin, &format!("{path}.hostname"))?.into(),
        },
    };
    let ports = match node.get("services") {
        Some(services) => ports(services, &format!("{path}.services"), faults)?,
        None => return Err(ConfigError::at(format!("{path}.services"), "is missing")),
    };
    let alternates = match node.get("alternateAddresses") {
        Some(alternates) => {
            let path = format!("{path}.alternateAddresses");
            self::alternates(alternates, origin, &path, faults)?
        }
        None => Vec::new(),
    };
    Ok(Node {
        hostname,
        ports,
        this_node: node.get("thisNode") == Some(&Value::Bool(true)),
        uuid: node.get("nodeUUID").and_then(Value::as_str).map(Box::from),
        alternates,
    })
}

/// The origin, which the caller may not know.
fn known<'a>(origin: &'a str, path: &str) -> Result<&'a str, ConfigError> {
    if origin.is_empty() {
        let problem = "is the host that the configuration came from, which is unknown";
        return Err(ConfigError::at(path, problem));
    }
    Ok(origin)
}

fn host(value: &Value, origin: &str, path: &str) -> Result<Box<str>, ConfigError> {
    let host = value.as_str().map(bare).unwrap_or_default();
    if host == HOST {
        return Ok(known(origin, path)?.into());
    }
    if !is_host(host) || host.contains('$') {
        return Err(ConfigError::at(
            path,
            "must be a host name, an IPv4 address or an IPv6 address",
        ));
    }
    Ok(host.into())
}

fn ports(value: &Value, path: &str, faults: &mut Faults) -> Result<Ports, ConfigError> {
    let services = object(value, path)?;
    let mut ports = Ports::default();
    for (port, name) in ports
        .0
        .as_flattened_mut()
        .iter_mut()
        .zip(Service::NAMES.as_flattened())
    {
        if let Some(value) = services.get(*name) {
            *port = faults.keep(self::port(value, || format!("{path}.{name}")));
        }
    }
    Ok(ports)
}

fn port(value: &Value, path: impl FnOnce() -> String) -> Result<u16, ConfigError> {
    let port = value.as_u64().and_then(|port| u16::try_from(port).ok());
    port.filter(|port| *port != 0)
        .ok_or_else(|| ConfigError::at(path(), "must be a port from 1 to 65535"))
}

fn alternates(
    value: &Value,
    origin: &str,
    path: &str,
    faults: &mut Faults,
) -> Result<Vec<Alternate>, ConfigError> {
    let networks = object(value, path)?;
    if networks.len() > MAX_NETWORKS {
        return Err(ConfigError::at(path, "has more than 16 networks"));
    }
    networks
        .iter()
        .map(|(network, value)| {
            let path = format!("{path}.{network}");
            let alternate = object(value, &path)?;
            let hostname_path = format!("{path}.hostname");
            let hostname = alternate
                .get("hostname")
                .ok_or_else(|| ConfigError::at(&hostname_path, "is missing"))?;
            Ok(Alternate {
                network: network.as_str().into(),
                hostname: host(hostname, origin, &hostname_path)?,
                ports: alternate
                    .get("ports")
                    .map(|ports| self::ports(ports, &format!("{path}.ports"), faults))
                    .transpose()?,
            })
        })
        .collect()
}

/// `hostname` of the older list: the management address.
fn old_address(value: &Value, at: usize, origin: &str) -> Result<Address, ConfigError> {
    let path = || format!("$.nodes[{at}].hostname");
    let text = value.get("hostname").and_then(Value::as_str);
    let text = text.ok_or_else(|| ConfigError::at(path(), "must be host:port"))?;
    address(text, origin).ok_or_else(|| ConfigError::at(path(), "must be host:port"))
}

fn old_node(value: &Value, at: usize, origin: &str) -> Result<Node, ConfigError> {
    let node = object(value, &format!("$.nodes[{at}]"))?;
    let management = old_address(value, at, origin)?;
    let mut ports = Ports::default();
    ports.0[Service::Management as usize][0] = Some(management.port());
    if let Some(direct) = node.get("ports").and_then(|ports| ports.get("direct")) {
        let kv = port(direct, || format!("$.nodes[{at}].ports.direct"))?;
        ports.0[Service::Kv as usize][0] = Some(kv);
    }
    Ok(Node {
        hostname: management.host().into(),
        ports,
        this_node: node.get("thisNode") == Some(&Value::Bool(true)),
        uuid: node.get("nodeUUID").and_then(Value::as_str).map(Box::from),
        alternates: Vec::new(),
    })
}

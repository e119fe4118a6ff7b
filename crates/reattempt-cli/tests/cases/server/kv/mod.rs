//! The kind `kv`: Couchbase nodes, a cluster of them or several.

mod seen;
mod step;

use reattempt_clients::kv::sasl::Mechanism;
use reattempt_testbed::kv::{Cluster, Node, NodeBuilder};
use serde_json::{Map, Value, json};

use crate::expand::Names;
use crate::members::{Members, Result};

pub(crate) struct Kv {
    clusters: Vec<Cluster>,
    /// For each node of the first cluster a key that it owns at the start.
    keys: Vec<Option<String>>,
}

impl Kv {
    /// `[step, ..]`: one node with these steps for its data requests; then it executes. With
    /// options: an object. `clusters` is a list of such objects.
    pub(super) async fn start(script: Value) -> Result<Self> {
        let scripts = match script {
            Value::Array(_) => vec![json!({"steps": script})],
            Value::Object(mut object) => match object.remove("clusters") {
                Some(Value::Array(all)) if object.is_empty() => all,
                Some(other) => return Err(format!("kv.clusters: must be a list alone: {other}")),
                None => vec![Value::Object(object)],
            },
            other => return Err(format!("kv: must be a list or an object, got {other}")),
        };
        let mut clusters = Vec::new();
        for script in scripts {
            clusters.push(cluster(Members::of("kv", script)?).await?);
        }
        let first = clusters.first().ok_or("kv.clusters: is empty")?;
        let nodes = 0..first.nodes().len();
        let keys = nodes.map(|node| first.key_of(node, "key")).collect();
        Ok(Self { clusters, keys })
    }

    fn nodes(&self) -> Vec<&Node> {
        self.clusters.iter().flat_map(Cluster::nodes).collect()
    }

    /// `addr0`, `port0`, .. for each node of all clusters, `key0`, .. for keys of the first one's
    /// nodes. `server` is the first node.
    pub(super) fn names(&self) -> Names {
        let mut names = super::names(self.nodes()[0].addr().to_string(), self.nodes()[0].addr());
        for (at, node) in self.nodes().into_iter().enumerate() {
            names.insert(format!("addr{at}"), node.addr().to_string().into());
            names.insert(format!("port{at}"), node.addr().port().into());
        }
        for (at, key) in self.keys.iter().enumerate() {
            names.insert(format!("key{at}"), json!(key));
        }
        names
    }

    pub(super) fn seen(&self) -> Value {
        seen::seen(&self.nodes())
    }

    /// Does what the first cluster's methods of these names do; `steps` are added, also to nodes
    /// of other clusters.
    pub(super) async fn act(&self, action: &mut Members) -> Result<()> {
        let cluster = &self.clusters[0];
        step::add(action, &self.nodes())?;
        put(action, cluster)?;
        if let Some((from, to)) = action.take("move_vbuckets")? {
            cluster.move_vbuckets(from, to);
        }
        if let Some((key, to)) = action.take::<(String, _)>("move_vbucket_of")? {
            cluster.move_vbucket(cluster.vbucket_of(key.as_bytes()), to);
        }
        if let Some(node) = action.take("fail_over")? {
            cluster.fail_over(node).await;
        }
        if let Some(node) = action.take("restart")? {
            let started = cluster.restart(node).await;
            started.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

async fn cluster(mut script: Members) -> Result<Cluster> {
    let mut builder = Node::builder();
    if let Some(map) = error_map(&mut script)? {
        builder = match map {
            Value::Null => builder.no_error_map(),
            Value::String(text) => builder.error_map(text),
            map => builder.error_map(map.to_string()),
        };
    }
    if let Some(names) = script.take::<Vec<String>>("mechanisms")? {
        let known = names
            .iter()
            .map(|name| Mechanism::from_name(name.as_bytes()));
        let known = known.collect::<Option<Vec<_>>>();
        builder = builder.mechanisms(&known.ok_or(format!("no such mechanism: {names:?}"))?);
    }
    if let Some(features) = script.take::<Vec<u16>>("features")? {
        builder = builder.features(&features);
    }
    if let Some(name) = script.take::<String>("bucket")? {
        builder = builder.bucket(&name);
    }
    if let Some(count) = script.take("vbuckets")? {
        builder = builder.vbuckets(count);
    }
    if let Some((epoch, rev)) = script.take("revision")? {
        builder = builder.revision(epoch, rev);
    }
    for (name, option) in [
        (
            "require_auth",
            NodeBuilder::require_auth as fn(NodeBuilder) -> NodeBuilder,
        ),
        ("host_placeholder", NodeBuilder::host_placeholder),
    ] {
        if script.flag(name)? {
            builder = option(builder);
        }
    }
    let count = script.take("nodes")?.unwrap_or(1);
    let cluster = builder.start_cluster(count).await;
    let cluster = cluster.map_err(|error| error.to_string())?;
    put(&mut script, &cluster)?;
    step::add(&mut script, &cluster.nodes().iter().collect::<Vec<_>>())?;
    for node in script.take::<Vec<usize>>("stopped")?.unwrap_or_default() {
        cluster.kill(node).await;
    }
    script.finish()?;
    Ok(cluster)
}

/// `error_map`: a text or JSON, null for none; `error_map_of`: `[n, attributes]` of all statuses
/// below n.
fn error_map(script: &mut Members) -> Result<Option<Value>> {
    let Some((below, attributes)) = script.take::<(u32, Value)>("error_map_of")? else {
        return script.take("error_map");
    };
    let entry = |status| {
        let entry = json!({"name": "N", "desc": "d", "attrs": attributes});
        (format!("{status:x}"), entry)
    };
    let errors: Map<_, _> = (0..below).map(entry).collect();
    Ok(Some(json!({"version": 2, "revision": 9, "errors": errors})))
}

/// `put`: documents, a list of keys and values.
fn put(members: &mut Members, cluster: &Cluster) -> Result<()> {
    let documents = members.take::<Vec<(String, String)>>("put")?;
    for (key, value) in documents.unwrap_or_default() {
        cluster.store().put(key, value);
    }
    Ok(())
}

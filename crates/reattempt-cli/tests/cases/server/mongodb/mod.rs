//! The kind `mongodb`: a MongoDB server, the routers of a cluster or a replica set.

mod events;
mod steps;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bson::{Bson, Document, doc};
use reattempt_testbed::mongodb::node::{Role, SeenCommand};
use reattempt_testbed::mongodb::{Node, ReplicaSet};
use serde_json::{Map, Value, json};

pub(super) use self::events::check as check_events;
use self::steps::{Effect, Steps};
use super::names;
use crate::expand::Names;
use crate::members::{Members, Result};

pub(crate) struct MongoDb {
    deployment: Arc<Deployment>,
    steps: Arc<Mutex<Steps>>,
    /// `name:password@`, if there is a user.
    login: String,
}

enum Deployment {
    Set(ReplicaSet),
    Nodes(Vec<Node>),
}

impl MongoDb {
    /// `documents` (a number, or the documents of `db.c`), `on` and `first_attempts` (steps),
    /// `user` (`[name, password]`), `wire_versions` of the nodes; with `members` a replica set,
    /// whose `primary` is the first by default, and with `routers` a list of these.
    pub(super) async fn start(script: Value) -> Result<Self> {
        let mut script = Members::of("mongodb", script)?;
        let mut builder = Node::builder();
        let mut login = String::new();
        if let Some((name, password)) = script.take::<(String, String)>("user")? {
            builder = builder.user(&name, &password).map_err(text)?;
            login = format!("{name}:{password}@");
        }
        let deployment = if let Some(members) = script.take("members")? {
            let set = ReplicaSet::start_with(members, builder).await;
            Deployment::Set(set.map_err(text)?)
        } else {
            let routers: Option<usize> = script.take("routers")?;
            if routers.is_some() {
                builder = builder.role(Role::Mongos);
            }
            let mut nodes = Vec::new();
            for _ in 0..routers.unwrap_or(1) {
                nodes.push(builder.clone().start().await.map_err(text)?);
            }
            Deployment::Nodes(nodes)
        };
        if let Some(primary) = script.take::<Value>("primary")? {
            deployment.elect(&primary)?;
        }
        let versions: Vec<i32> = script.take("wire_versions")?.unwrap_or_default();
        for (node, version) in deployment.nodes().iter().zip(versions) {
            node.set_max_wire_version(version);
        }
        let documents = match script.take("documents")?.unwrap_or(json!(1)) {
            Value::Array(documents) => documents.into_iter().map(document).collect(),
            count => {
                let count: i32 = serde_json::from_value(count).map_err(text)?;
                Ok((0..count).map(|n| doc! { "_id": n, "x": n }).collect())
            }
        };
        let documents: Vec<Document> = documents?;
        // All nodes have one store.
        let inserted = deployment.nodes()[0].store().insert("db", "c", documents);
        inserted.map_err(|error| format!("{error:?}"))?;
        let steps = Arc::new(Mutex::new(Steps::read(&mut script)?));
        script.finish()?;
        let deployment = Arc::new(deployment);
        for (member, node) in deployment.nodes().iter().enumerate() {
            let (steps, deployment) = (Arc::clone(&steps), Arc::downgrade(&deployment));
            node.script().handler(move |command| {
                let (step, effect) = lock(&steps).take(member, command)?;
                if let Some(effect) = effect {
                    deployment.upgrade()?.cause(member, &effect);
                }
                Some(step)
            });
        }
        Ok(Self {
            deployment,
            steps,
            login,
        })
    }

    /// `base` is a connection string that options can follow; `addr1` is the second address.
    pub(super) fn names(&self) -> Names {
        let hosts: Vec<_> = self.nodes().iter().map(Node::address).collect();
        let list = hosts.join(",");
        let mut server = format!("mongodb://{}{list}/", self.login);
        let mut joint = '?';
        if let Deployment::Set(_) = *self.deployment {
            server += &format!("?replicaSet={}", ReplicaSet::NAME);
            joint = '&';
        }
        let base = format!("{server}{joint}");
        let mut names = names(server, hosts[0]);
        names.insert("base".to_owned(), base.into());
        for (member, address) in hosts.into_iter().enumerate().skip(1) {
            names.insert(format!("addr{member}"), address.into());
        }
        names
    }

    /// `commands` are the data commands. `named` counts all commands by their names, `hellos` are
    /// the documents of the handshakes, and `by_connection` of a member has the names by the
    /// number of the connection.
    pub(super) fn seen(&self) -> Value {
        let mut all = Vec::new();
        for (member, node) in self.nodes().iter().enumerate() {
            all.extend(node.seen().into_iter().map(|command| (member, command)));
        }
        all.sort_by_key(|(_, command)| command.at);
        let mut members = vec![json!({"count": 0, "by_connection": {}}); self.nodes().len()];
        let (mut commands, mut hellos, mut named) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut first = None;
        for (member, command) in all {
            *named.entry(command.name.clone()).or_insert(0) += 1;
            let of_member = &mut members[member];
            let order = &mut of_member["by_connection"][command.connection.to_string()];
            match order {
                Value::Array(order) => order.push(json!(command.name)),
                order => *order = json!([command.name]),
            }
            if command.is_data() {
                of_member["count"] = json!(of_member["count"].as_u64().unwrap_or(0) + 1);
                let at = command.at - *first.get_or_insert(command.at);
                let mut seen = seen(command);
                seen["at_ms"] = json!(at.as_secs_f64() * 1000.0);
                seen["member"] = json!(member);
                seen["server"] = json!(self.nodes()[member].address());
                commands.push(seen);
            } else if command.name == "hello" {
                hellos.push(Bson::from(command.document).into_relaxed_extjson());
            }
        }
        let store = self.nodes()[0].store();
        let stored = store.collections("db").into_iter();
        let stored: Map<_, _> = stored
            .map(|name| (name.clone(), store.documents("db", &name).len().into()))
            .collect();
        json!({
            "count": commands.len(),
            "commands": commands,
            "named": named,
            "hellos": hellos,
            "members": members,
            "connections": self.nodes().iter().map(Node::connections).sum::<u64>(),
            "stored": stored,
            "steps_left": lock(&self.steps).left(),
        })
    }

    /// `stop` a member by its number, or the `"last"` that got a data command; `elect` another
    /// primary, or none.
    pub(super) async fn act(&self, action: &mut Members) -> Result<()> {
        if let Some(member) = action.take::<Value>("stop")? {
            let seen = self.seen();
            let last = seen["commands"].as_array().and_then(|all| all.last());
            let member = match member.as_str() {
                Some("last") => last.and_then(|last| last["member"].as_u64()),
                _ => member.as_u64().or((member == true).then_some(0)),
            };
            let node = member.and_then(|member| self.nodes().get(usize::try_from(member).ok()?));
            node.ok_or("stop: no such member")?.stop().await;
        }
        match action.take::<Value>("elect")? {
            Some(primary) => self.deployment.elect(&primary),
            None => Ok(()),
        }
    }

    fn nodes(&self) -> &[Node] {
        self.deployment.nodes()
    }
}

impl Deployment {
    fn nodes(&self) -> &[Node] {
        match self {
            Self::Set(set) => set.nodes(),
            Self::Nodes(nodes) => nodes,
        }
    }

    fn elect(&self, primary: &Value) -> Result<()> {
        let primary: Option<usize> = serde_json::from_value(primary.clone()).map_err(text)?;
        match self {
            Self::Set(set) => set.elect(primary),
            Self::Nodes(_) => return Err("a primary without a replica set".to_owned()),
        }
        Ok(())
    }

    fn cause(&self, member: usize, effect: &Effect) {
        let node = &self.nodes()[member];
        match effect {
            Effect::Elects(primary) => drop(self.elect(primary)),
            Effect::RefusesConnections(count) => node.refuse_connections(*count),
            Effect::SetsWireVersion(version) => node.set_max_wire_version(*version),
        }
    }
}

/// The document is without the cluster time, which stands beside it.
fn seen(mut command: SeenCommand) -> Value {
    let time = command.document.remove("$clusterTime");
    json!({
        "name": command.name,
        "database": command.database,
        "document": Bson::from(command.document).into_relaxed_extjson(),
        "cluster_time": time.map(Bson::into_relaxed_extjson),
        "request_id": command.request_id,
        "connection": command.connection,
    })
}

/// Extended JSON.
fn document(value: Value) -> Result<Document> {
    match Bson::try_from(value).map_err(text)? {
        Bson::Document(document) => Ok(document),
        other => Err(format!("must be a document, got {other}")),
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

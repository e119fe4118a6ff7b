//! The client's knowledge of servers, and how a server's answer changes it.

use std::collections::BTreeMap;

use bson::Document;
use bson::oid::ObjectId;

use super::ReadPreference;
use super::server_error::Printable;
use crate::mongodb::wire::{cut, number};

/// Maximum number of members of a set; further ones are ignored.
const MAX_MEMBERS: usize = 50;

/// Maximum number of known or monitored servers: a set has 50 members at most.
pub(super) const MAX_SERVERS: usize = 100;

/// How many bytes of an error are kept with a server: an error of the selection has all of them.
const MAX_ERROR: usize = 512;

/// How many bytes of a server's names are printed, as long as a host name may be.
const MAX_NAME: usize = 255;

/// The role of a server, as reported by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// Not checked yet, or failed since.
    Unknown,
    /// A single server without a replica set.
    Standalone,
    /// A router.
    Mongos,
    /// Accepts writes.
    Primary,
    /// Accepts reads that allow a secondary.
    Secondary,
    /// A member of a set that accepts no commands.
    OtherMember,
    /// Started for a set but not a member yet, or no longer: its set is unknown.
    Ghost,
}

/// What is known of one server.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerDescription {
    /// `host:port`, as the client dials it.
    pub address: String,
    /// Its role.
    pub kind: ServerKind,
    /// Its set.
    pub set_name: Option<String>,
    /// The members that it listed.
    pub hosts: Vec<String>,
    /// Its own name for itself.
    pub me: Option<String>,
    /// Its wire version.
    pub max_wire_version: i32,
    /// Whether it supports sessions.
    pub sessions: bool,
    /// Increases with elections.
    pub election_id: Option<ObjectId>,
    /// Why its role is unknown, at most 512 bytes.
    pub error: Option<String>,
}

impl ServerDescription {
    /// A server that was not checked yet.
    #[must_use]
    pub fn unknown(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            kind: ServerKind::Unknown,
            set_name: None,
            hosts: Vec::new(),
            me: None,
            max_wire_version: 0,
            sessions: false,
            election_id: None,
            error: None,
        }
    }

    /// A server that failed. Of the error the first 512 bytes are kept.
    #[must_use]
    pub fn failed(address: &str, error: String) -> Self {
        let error = Printable(cut(&error, MAX_ERROR)).to_string();
        Self {
            error: Some(cut(&error, MAX_ERROR).to_owned()),
            ..Self::unknown(address)
        }
    }

    /// Reads the answer to `hello` or `isMaster`.
    #[must_use]
    pub fn from_hello(address: &str, hello: &Document) -> Self {
        // Old servers and substitutes use 1 for true.
        let flag = |name: &str| number(hello.get(name)).is_some_and(|flag| flag != 0.0);
        let set_name = hello.get_str("setName").ok().map(str::to_owned);
        let writable = flag("isWritablePrimary") || flag("ismaster");
        let kind = match (&set_name, hello.get_str("msg")) {
            (_, Ok("isdbgrid")) => ServerKind::Mongos,
            (Some(_), _) if flag("hidden") => ServerKind::OtherMember,
            (Some(_), _) if writable => ServerKind::Primary,
            (Some(_), _) if flag("secondary") => ServerKind::Secondary,
            (Some(_), _) => ServerKind::OtherMember,
            (None, _) if flag("isreplicaset") => ServerKind::Ghost,
            (None, _) => ServerKind::Standalone,
        };
        let named = |field: &str| {
            let list = hello
                .get_array(field)
                .map(Vec::as_slice)
                .unwrap_or_default();
            let names: Vec<String> = list
                .iter()
                .filter_map(|host| host.as_str())
                .map(str::to_lowercase)
                .collect();
            names
        };
        let mut hosts = named("hosts");
        hosts.extend(named("passives"));
        hosts.truncate(MAX_MEMBERS);
        Self {
            address: address.to_owned(),
            kind,
            set_name,
            hosts,
            me: hello.get_str("me").ok().map(str::to_lowercase),
            max_wire_version: number(hello.get("maxWireVersion")).unwrap_or(0.0) as i32,
            sessions: hello.contains_key("logicalSessionTimeoutMinutes"),
            election_id: hello.get_object_id("electionId").ok(),
            error: None,
        }
    }
}

/// The type of the deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopologyKind {
    /// Not known yet.
    Unknown,
    /// One server, with a direct connection.
    Single,
    /// A replica set.
    ReplicaSet,
    /// Routers of a sharded cluster.
    Sharded,
}

/// The client's knowledge of the deployment.
#[derive(Debug, Clone, PartialEq)]
pub struct TopologyDescription {
    /// What it is.
    pub kind: TopologyKind,
    /// The name of the set, once known or configured.
    pub set_name: Option<String>,
    /// The servers, by address.
    pub servers: BTreeMap<String, ServerDescription>,
    last_election: Option<ObjectId>,
    seeds: Vec<String>,
    configured_set: Option<String>,
}

impl TopologyDescription {
    /// The state before the first answer of any seed.
    #[must_use]
    pub fn new(seeds: &[String], set_name: Option<String>, direct: bool) -> Self {
        let kind = match (direct, &set_name) {
            (true, _) => TopologyKind::Single,
            (false, Some(_)) => TopologyKind::ReplicaSet,
            (false, None) => TopologyKind::Unknown,
        };
        let servers: BTreeMap<_, _> = seeds
            .iter()
            .map(|s| (s.clone(), ServerDescription::unknown(s)))
            .collect();
        Self {
            kind,
            configured_set: set_name.clone(),
            set_name,
            // Each once: a single seed may be a standalone, however often it is named.
            seeds: servers.keys().cloned().collect(),
            servers,
            last_election: None,
        }
    }

    /// Applies new information about one server. Without any server left it starts again with the
    /// seeds: one answer of one server must not end the client.
    pub fn apply(&mut self, new: ServerDescription) {
        let address = new.address.clone();
        self.apply_to_known(new);
        if self.servers.is_empty() {
            *self = Self::new(&self.seeds, self.configured_set.clone(), false);
            // With an error, so that their new monitors do not start at once, see `watch_servers`.
            for server in self.servers.values_mut() {
                let error = format!("no server was left: {address} is not of this deployment");
                *server = ServerDescription::failed(&server.address, error);
            }
        }
    }

    fn apply_to_known(&mut self, new: ServerDescription) {
        if !self.servers.contains_key(&new.address) {
            // Removed while the check was in progress.
            return;
        }
        if new.kind == ServerKind::Unknown {
            self.servers.insert(new.address.clone(), new);
            return;
        }
        if self.kind == TopologyKind::Unknown {
            self.kind = match new.kind {
                ServerKind::Mongos => TopologyKind::Sharded,
                ServerKind::Standalone if self.seeds.len() == 1 => TopologyKind::Single,
                ServerKind::Standalone | ServerKind::Unknown | ServerKind::Ghost => {
                    TopologyKind::Unknown
                }
                ServerKind::Primary | ServerKind::Secondary | ServerKind::OtherMember => {
                    TopologyKind::ReplicaSet
                }
            };
        }
        match (self.kind, new.kind) {
            (TopologyKind::Single, _) => self.apply_single(new),
            (TopologyKind::Sharded, ServerKind::Mongos) => {
                self.servers.insert(new.address.clone(), new);
            }
            (
                TopologyKind::ReplicaSet,
                ServerKind::Primary | ServerKind::Secondary | ServerKind::OtherMember,
            ) => self.apply_member(new),
            // Its role is still open; its next answer decides.
            (TopologyKind::Unknown | TopologyKind::ReplicaSet, ServerKind::Ghost) => {
                self.servers.insert(new.address.clone(), new);
            }
            // Of another type than the deployment.
            _ => {
                self.servers.remove(&new.address);
            }
        }
    }

    fn apply_single(&mut self, new: ServerDescription) {
        let wrong = self.set_name.is_some() && self.set_name != new.set_name;
        let new = if wrong {
            let named = |set: &'_ Option<String>| -> String {
                let name = set.as_deref().map(|name| cut(name, MAX_NAME));
                format!("{name:?}")
            };
            let (own, other) = (named(&self.set_name), named(&new.set_name));
            let error = format!("is not of set {own} but of {other}");
            ServerDescription::failed(&new.address, error)
        } else {
            new
        };
        self.servers.insert(new.address.clone(), new);
    }

    fn apply_member(&mut self, new: ServerDescription) {
        let set_name = self
            .set_name
            .get_or_insert_with(|| new.set_name.clone().unwrap_or_default());
        if new.set_name.as_ref() != Some(set_name) {
            self.servers.remove(&new.address);
            return;
        }
        let primary = new.kind == ServerKind::Primary;
        if primary {
            let over = |last| new.election_id.is_some_and(|election| election < last);
            if self.last_election.is_some_and(over) {
                let error = "primary of an election that is over".to_owned();
                let stale = ServerDescription::failed(&new.address, error);
                self.servers.insert(stale.address.clone(), stale);
                return;
            }
            self.last_election = new.election_id.or(self.last_election);
            for other in self.servers.values_mut() {
                if other.kind == ServerKind::Primary && other.address != new.address {
                    let error = format!("{} is the primary now", new.address);
                    *other = ServerDescription::failed(&other.address, error);
                }
            }
        }
        let known = self
            .servers
            .values()
            .any(|server| server.kind == ServerKind::Primary);
        if primary || !known {
            // Only a primary removes names from the list: other members must not add new ones
            // without limit.
            let room = if primary {
                usize::MAX
            } else {
                MAX_SERVERS.saturating_sub(self.servers.len())
            };
            let is_new = |host: &&String| !self.servers.contains_key(*host);
            let fresh: Vec<_> = new.hosts.iter().filter(is_new).take(room).collect();
            for host in fresh {
                let unknown = || ServerDescription::unknown(host);
                self.servers.entry(host.clone()).or_insert_with(unknown);
            }
        }
        let hosts = new.hosts.clone();
        let other_name = new.me.as_ref().is_some_and(|me| *me != new.address);
        if other_name && !primary {
            // The server is in the list under its own name. A primary's own list determines the
            // names of the members.
            self.servers.remove(&new.address);
        } else {
            self.servers.insert(new.address.clone(), new);
        }
        // An empty list of a primary is ignored, because it would remove all servers.
        if primary && !hosts.is_empty() {
            self.servers.retain(|address, _| hosts.contains(address));
        }
    }

    /// The servers that may answer; those in `avoid` only when there is no other.
    #[must_use]
    pub fn suitable(
        &self,
        preference: ReadPreference,
        avoid: &[String],
    ) -> Vec<&ServerDescription> {
        let wanted = self.among(preference, |server| !avoid.contains(&server.address));
        if wanted.is_empty() && !avoid.is_empty() {
            return self.among(preference, |_| true);
        }
        wanted
    }

    fn among(
        &self,
        preference: ReadPreference,
        eligible: impl Fn(&ServerDescription) -> bool,
    ) -> Vec<&ServerDescription> {
        let of = |kinds: &[ServerKind]| -> Vec<&ServerDescription> {
            self.servers
                .values()
                .filter(|server| kinds.contains(&server.kind) && eligible(server))
                .collect()
        };
        let (primary, secondary) = ([ServerKind::Primary], [ServerKind::Secondary]);
        let or_else = |first: &[ServerKind], then: &[ServerKind]| {
            let found = of(first);
            if found.is_empty() { of(then) } else { found }
        };
        match self.kind {
            TopologyKind::Unknown => Vec::new(),
            TopologyKind::Single => self
                .servers
                .values()
                .filter(|server| server.kind != ServerKind::Unknown && eligible(server))
                .collect(),
            TopologyKind::Sharded => of(&[ServerKind::Mongos]),
            TopologyKind::ReplicaSet => match preference {
                ReadPreference::Primary => of(&primary),
                ReadPreference::PrimaryPreferred => or_else(&primary, &secondary),
                ReadPreference::Secondary => of(&secondary),
                ReadPreference::SecondaryPreferred => or_else(&secondary, &primary),
                ReadPreference::Nearest => of(&[ServerKind::Primary, ServerKind::Secondary]),
            },
        }
    }
}

impl std::fmt::Display for TopologyDescription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.kind)?;
        for server in self.servers.values() {
            let address = Printable(cut(&server.address, MAX_NAME));
            write!(f, ", {address} {:?}", server.kind)?;
            if let Some(error) = &server.error {
                write!(f, " ({error})")?;
            }
        }
        Ok(())
    }
}

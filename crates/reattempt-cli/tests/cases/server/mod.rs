//! The servers of a case. A kind is the member of a case that holds its script, an arm of
//! [`Server`], and a module with `start`, `names`, `seen` and, where it has actions of its own,
//! `act`.

mod grpc;
mod http;
mod kv;
mod listener;
mod mongodb;
mod raw;

use serde_json::Value;

use super::expand::Names;
use super::members::{Members, Result};

/// The members of a case that are a kind of server.
pub(crate) const KINDS: [&str; 6] = ["http", "raw", "listener", "grpc", "kv", "mongodb"];

pub(crate) enum Server {
    Http(http::Http),
    Raw(raw::Raw),
    Listener(listener::Listener),
    Grpc(grpc::Grpc),
    Kv(kv::Kv),
    MongoDb(mongodb::MongoDb),
}

impl Server {
    pub(crate) async fn start(kind: &str, script: Value) -> Result<Self> {
        Ok(match kind {
            "http" => Self::Http(http::Http::start(script).await?),
            "raw" => Self::Raw(raw::Raw::start(&script).await?),
            "listener" => Self::Listener(listener::Listener::start(&script).await?),
            "grpc" => Self::Grpc(grpc::Grpc::start(script).await?),
            "kv" => Self::Kv(kv::Kv::start(script).await?),
            "mongodb" => Self::MongoDb(mongodb::MongoDb::start(script).await?),
            other => return Err(format!("{other}: no such kind of server")),
        })
    }

    /// What the case's names `server` and others stand for.
    pub(crate) fn names(&self) -> Names {
        match self {
            Self::Http(server) => server.names(),
            Self::Raw(server) => server.names(),
            Self::Listener(server) => server.names(),
            Self::Grpc(server) => server.names(),
            Self::Kv(server) => server.names(),
            Self::MongoDb(server) => server.names(),
        }
    }

    /// What the servers saw until now; `count` is the number of requests.
    pub(crate) fn seen(&self) -> Value {
        match self {
            Self::Http(server) => server.seen(),
            Self::Raw(server) => server.seen(),
            Self::Listener(_) => serde_json::json!({"count": 0}),
            Self::Grpc(server) => server.seen(),
            Self::Kv(server) => server.seen(),
            Self::MongoDb(server) => server.seen(),
        }
    }

    /// What is true of the answers to every document of this kind, whatever the case expects.
    pub(crate) fn check(&self, answers: &[Value]) -> Result<()> {
        match self {
            Self::MongoDb(_) => mongodb::check_events(answers),
            _ => Ok(()),
        }
    }

    /// Does one thing to the servers while the program runs.
    pub(crate) async fn act(&self, action: &mut Members) -> Result<()> {
        match self {
            Self::Http(server) => server.act(action).await,
            Self::Grpc(server) => server.act(action).await,
            Self::Kv(server) => server.act(action).await,
            Self::MongoDb(server) => server.act(action).await,
            Self::Raw(_) | Self::Listener(_) => Ok(()),
        }
    }
}

/// The names of a server with one address.
fn names(server: impl Into<Value>, address: impl ToString) -> Names {
    Names::from_iter([
        ("server".to_owned(), server.into()),
        ("addr".to_owned(), address.to_string().into()),
    ])
}

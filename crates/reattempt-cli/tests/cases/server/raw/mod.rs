//! The kind `raw`: a server on sockets that performs what its script says, right or wrong.

mod op;
mod peer;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use self::op::ops;
use self::peer::Peer;
use super::names;
use crate::expand::Names;
use crate::members::Result;

pub(crate) struct Raw {
    target: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    accepted: AtomicUsize,
    heads: Mutex<Vec<String>>,
}

impl Raw {
    /// A list of operations for every connection, or a list of such lists, of which the last is
    /// for all further connections.
    pub(super) async fn start(script: &Value) -> Result<Self> {
        let lists = match script
            .as_array()
            .filter(|script| script.first().is_some_and(Value::is_array))
        {
            Some(lists) => lists.iter().map(ops).collect(),
            None => ops(script).map(|ops| vec![ops]),
        };
        let lists = Arc::new(lists?);
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.map_err(|error| error.to_string())?;
        let target = listener
            .local_addr()
            .map_err(|error| error.to_string())?
            .to_string();
        let shared = Arc::new(Shared::default());
        let of_task = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let number = of_task.accepted.fetch_add(1, Ordering::SeqCst);
                let (lists, shared) = (Arc::clone(&lists), Arc::clone(&of_task));
                tokio::spawn(async move {
                    socket.set_nodelay(true)?;
                    let mut peer = Peer {
                        socket,
                        stream: 0,
                        read: Vec::new(),
                        shared,
                    };
                    let last = lists.len() - 1;
                    peer.perform(&lists[number.min(last)]).await
                });
            }
        });
        Ok(Self {
            target,
            shared,
            task,
        })
    }

    pub(super) fn names(&self) -> Names {
        names(self.target.clone(), &self.target)
    }

    /// `requests`: the heads of the HTTP/1.1 requests that were read completely.
    pub(super) fn seen(&self) -> Value {
        let heads = self.shared.heads.lock().unwrap().clone();
        let connections = self.shared.accepted.load(Ordering::SeqCst);
        json!({"count": heads.len(), "connections": connections, "requests": heads})
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.task.abort();
    }
}

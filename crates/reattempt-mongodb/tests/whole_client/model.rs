//! A minimal client below the stack: it selects a server, checks out a connection, encodes the
//! command, updates the topology, and records these steps in order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reattempt::{Backend, Call, Elapsed, HasCallContext};
use reattempt_mongodb::{
    Deprioritized, ErrorLabels, FailureKind, MongoFailure, ReadCall, ReadOperation, WrittenFor,
    report_wire_version, unless_all,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What the client's error contains.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Failed {
    /// An attempt of this number failed with this fault.
    Attempt(u32, Fault),
    /// The time limit of the whole call or of one attempt elapsed.
    TimedOut(reattempt::DeadlineScope),
}

/// An error from a server or from the client itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) kind: FailureKind,
    pub(crate) labels: &'static [&'static str],
}

pub(crate) const fn fault(kind: FailureKind) -> Fault {
    Fault { kind, labels: &[] }
}

impl MongoFailure for Failed {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Attempt(_, fault) => fault.kind,
            // To the layer above, an attempt that took too long is a network timeout (E2).
            Self::TimedOut(_) => FailureKind::network_in_flight(),
        }
    }

    fn labels(&self) -> ErrorLabels {
        match self {
            Self::Attempt(_, fault) => ErrorLabels::read(fault.labels),
            Self::TimedOut(_) => ErrorLabels::NONE,
        }
    }
}

impl From<Elapsed> for Failed {
    fn from(elapsed: Elapsed) -> Self {
        Self::TimedOut(elapsed.scope)
    }
}

/// The logical request. Its session lives as long as the operation.
#[derive(Clone, Debug)]
pub(crate) struct Find {
    session: u32,
    written_for: WrittenFor,
}

impl Find {
    pub(crate) fn new() -> Self {
        static SESSIONS: AtomicU32 = AtomicU32::new(1);
        Self {
            session: SESSIONS.fetch_add(1, Ordering::Relaxed),
            written_for: WrittenFor::default(),
        }
    }
}

impl ReadCall for Find {
    fn operation(&self) -> ReadOperation {
        ReadOperation::Find
    }
}

/// What happens to one attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The server replies after this long.
    Works(Duration),
    /// The attempt fails at once.
    Fails(Fault),
    /// The server never replies.
    Hangs,
    /// Server selection takes this long and fails.
    NoServer(Duration),
    /// The server of this wire version fails with this fault.
    FailsOn(i32, Fault),
    /// The server of this wire version replies, if the command may be sent to it.
    WorksOn(i32),
}

/// One message, as sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) request_id: u32,
    pub(crate) session: u32,
    pub(crate) cluster_time: u32,
}

/// What the client did, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Did {
    Selected(&'static str),
    Sent(Message),
    ToldTopology(&'static str),
    /// The attempt was dropped before it completed.
    ClosedConnection,
}

#[derive(Clone)]
pub(crate) struct Client {
    steps: Arc<Mutex<VecDeque<Step>>>,
    did: Arc<Mutex<Vec<Did>>>,
    servers: Vec<&'static str>,
    deprioritized: Deprioritized,
    /// A single connection (E1).
    pool: Arc<Semaphore>,
    clock: Arc<AtomicU32>,
}

/// Closes the connection of an attempt that is dropped midway.
struct Connection {
    did: Arc<Mutex<Vec<Did>>>,
    open: bool,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.open {
            self.did.lock().unwrap().push(Did::ClosedConnection);
        }
    }
}

impl Client {
    pub(crate) fn new(servers: &[&'static str], steps: &[Step]) -> Self {
        Self {
            steps: Arc::new(Mutex::new(steps.iter().copied().collect())),
            did: Arc::default(),
            servers: servers.to_vec(),
            deprioritized: Deprioritized::current().overload_retargeting(true),
            pool: Arc::new(Semaphore::new(1)),
            clock: Arc::default(),
        }
    }

    pub(crate) fn did(&self) -> Vec<Did> {
        self.did.lock().unwrap().clone()
    }

    pub(crate) fn sent(&self) -> Vec<Message> {
        let sent = |did| match did {
            Did::Sent(message) => Some(message),
            _ => None,
        };
        self.did().into_iter().filter_map(sent).collect()
    }

    fn note(&self, did: Did) {
        self.did.lock().unwrap().push(did);
    }

    /// One attempt.
    pub(crate) async fn attempt(self, call: Call<Find>) -> Result<(), Failed> {
        let context = call.context().expect("a call has a context");
        let number = context.attempt();
        let next = self.steps.lock().unwrap().pop_front();
        let step = next.unwrap_or(Step::Works(Duration::ZERO));
        if let Step::NoServer(wait) = step {
            tokio::time::sleep(wait).await;
            return Err(Failed::Attempt(number, fault(FailureKind::Selection)));
        }
        let avoided = self.deprioritized.servers(context, false);
        let server = unless_all(self.servers.clone(), &avoided, |server| server)[0];
        self.note(Did::Selected(server));
        let reporter = context.reporter();
        reporter.backend(Backend::new(server));
        let mut connection = Connection {
            did: Arc::clone(&self.did),
            open: false,
            _permit: Arc::clone(&self.pool)
                .acquire_owned()
                .await
                .expect("the semaphore is never closed"),
        };
        let wire_version = match step {
            Step::FailsOn(version, _) | Step::WorksOn(version) => version,
            _ => 17,
        };
        let supported = report_wire_version(&reporter, wire_version) || number == 1;
        if !supported || !call.request.written_for.may_send_to(wire_version) {
            let refused = fault(FailureKind::NotSupported);
            return Err(Failed::Attempt(number, refused));
        }
        let tick = self.clock.fetch_add(1, Ordering::Relaxed) + 1;
        self.note(Did::Sent(Message {
            request_id: 1000 + tick,
            session: call.request.session,
            cluster_time: tick,
        }));
        connection.open = true;
        let outcome = match step {
            Step::Works(after) => {
                tokio::time::sleep(after).await;
                Ok(())
            }
            Step::Fails(fault) | Step::FailsOn(_, fault) => Err(fault),
            Step::WorksOn(_) | Step::NoServer(_) => Ok(()),
            Step::Hangs => std::future::pending().await,
        };
        connection.open = false;
        outcome.map_err(|fault| {
            // Whatever cleared the pool has already updated the topology (M20).
            if fault.kind != FailureKind::PoolCleared {
                self.note(Did::ToldTopology(server));
            }
            Failed::Attempt(number, fault)
        })
    }
}

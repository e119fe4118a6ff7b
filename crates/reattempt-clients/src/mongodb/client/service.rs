//! The client as a tower service: one call, one attempt.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_service::Service;

use super::connection::next_request_id;
use super::encoded::Encoded;
use super::event::{CommandEvent, EventKind, OnEvent, Pending};
use super::request::Target;
use super::server_error::is_ok;
use super::{
    ClientOptions, During, MongoError, MongoReply, MongoRequest, Progress, Selected, ServerError,
    Topology,
};

/// A client of one deployment. Clones share its topology and its pools.
#[derive(Clone)]
pub struct Client {
    topology: Topology,
    options: Arc<ClientOptions>,
    on_event: Option<OnEvent>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Starts to watch the deployment. Must be called within a tokio runtime.
    #[must_use]
    pub fn new(options: ClientOptions) -> Self {
        let topology = Topology::new(options.clone());
        Self {
            topology,
            options: Arc::new(options),
            on_event: None,
        }
    }

    /// Calls `listener` for every command of this client and of its later clones.
    #[must_use]
    pub fn on_event<F>(mut self, listener: F) -> Self
    where
        F: Fn(CommandEvent) + Send + Sync + 'static,
    {
        self.on_event = Some(Arc::new(listener));
        self
    }

    /// The client's view of the deployment.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The options of the client.
    #[must_use]
    pub fn options(&self) -> &ClientOptions {
        &self.options
    }

    async fn attempt(self, request: MongoRequest) -> Result<MongoReply, MongoError> {
        let preference = request.preference(self.options.read_preference);
        let selected = match &request.pinned {
            Some(address) => {
                self.topology
                    .select_pinned(address, request.deadline)
                    .await?
            }
            None => {
                self.topology
                    .select(preference, request.deadline, &request.avoid)
                    .await?
            }
        };
        let Selected {
            server,
            topology,
            pool,
        } = selected;
        request.on_progress.tell(Progress::Selected {
            server: &server.address,
            max_wire_version: server.max_wire_version,
        });
        // Until this returns: before the caller can ask for the next one (E1), and after a failure
        // has cleared the pool: a caller that waits would get the connection.
        let mut lease = match pool.check_out(Some(server.max_wire_version)).await {
            Ok(lease) => lease,
            Err(failed) => {
                self.topology
                    .on_error(&pool, failed.generation, &failed.error);
                return Err(failed.error);
            }
        };
        let generation = lease.generation();
        let connection = lease.connection();
        let mut origin = connection.origin().clone();
        let connection_id = connection.id();
        // The server may have been replaced by an older one since this connection was made, or
        // since the last look at it.
        let offered = connection.description().max_wire_version;
        let wire_version = offered.min(server.max_wire_version);
        origin.max_wire_version = Some(wire_version);
        let cluster_time = self.topology.cluster_time();
        let command = request.encode(&Target {
            origin: origin.clone(),
            kind: connection.description().kind,
            topology,
            wire_version,
            sessions: connection.description().sessions,
            cluster_time: cluster_time.as_ref(),
            preference,
        })?;
        let request_id = next_request_id();
        // Before any event: a command that cannot be written was never one.
        let message = Encoded::new(request_id, &command, &origin)?;
        let started = CommandEvent {
            kind: EventKind::Started,
            command: request.command_name().to_owned(),
            request_id,
            operation_id: request.operation_id,
            connection: connection_id,
            server: server.address.clone(),
        };
        let pending = Pending::start(self.on_event.clone(), started);
        request.on_progress.tell(Progress::Sending);
        let outcome = lease.send(&message, self.options.socket_timeout).await;
        let error = match outcome {
            Ok(reply) => {
                request.on_progress.tell(Progress::Answered);
                self.topology.saw(&reply.document);
                request.session.saw(&reply.document);
                if is_ok(&reply.document) {
                    // To the server it did, also if its answer lacks what was asked for.
                    pending.succeeded();
                    // It may tell of a changed state; the answer is a success all the same (M7).
                    if let Ok(concern) = reply.document.get_document("writeConcernError") {
                        let (origin, concern) = (origin.clone(), concern.clone());
                        let error = ServerError::read(origin, concern, request_id, false).into();
                        self.topology.on_error(&pool, generation, &error);
                    }
                    let reply = MongoReply {
                        document: reply.document,
                        list: reply.list,
                        bytes: reply.bytes,
                        server: server.address,
                        max_wire_version: wire_version,
                        request_id,
                        connection_id,
                    };
                    return match reply.fault(&request) {
                        None => Ok(reply),
                        Some(lacks) => Err(MongoError::Protocol {
                            origin,
                            during: During::Receive,
                            message: format!(
                                "the reply to {} says ok and has {lacks}",
                                request.command_name()
                            ),
                        }),
                    };
                }
                ServerError::read(origin, reply.document, request_id, false).into()
            }
            Err(error) => error,
        };
        self.topology.on_error(&pool, generation, &error);
        drop(pending);
        Err(error)
    }
}

/// One call in progress. Dropping it closes its connection; one that is still being opened serves
/// another call.
pub type ClientFuture = Pin<Box<dyn Future<Output = Result<MongoReply, MongoError>> + Send>>;

impl Service<MongoRequest> for Client {
    type Response = MongoReply;
    type Error = MongoError;
    type Future = ClientFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), MongoError>> {
        // Waiting for a server or a connection is part of the call: it has its own errors.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: MongoRequest) -> ClientFuture {
        Box::pin(self.clone().attempt(request))
    }
}

//! A connection of either HTTP version: how it is opened, run and used.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::io;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper_util::rt::TokioIo;
use reattempt::{AttemptReporter, Backend, Stage};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::error::TransportError;
use super::inbound::{Inbound, Listening, Socket};
use super::tls::Tls;

#[derive(Debug, thiserror::Error)]
#[error("cannot connect to {authority}: {source}")]
struct CannotConnect {
    authority: String,
    source: TransportError,
}

/// Where to connect.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) authority: String,
    pub(super) tls: Option<Tls>,
    pub(super) backend: Backend,
}

impl Address {
    /// A new connection, and what its server says on it.
    pub(super) async fn dial(&self) -> Result<(TokioIo<Listening>, Inbound), TransportError> {
        let socket = TcpStream::connect(&self.authority)
            .await
            .map_err(|error| self.unconnected(error))?;
        socket.set_nodelay(true)?;
        let socket: Socket = match &self.tls {
            None => Box::new(socket),
            Some(tls) => {
                let encrypted = tls.connect(socket).await;
                encrypted.map_err(|error| self.unconnected(error))?
            }
        };
        let inbound = Inbound::default();
        Ok((TokioIo::new(inbound.listen(socket)), inbound))
    }

    /// Independent of the source's own kind: this error means that nothing was sent.
    pub(super) fn unconnected(&self, source: impl Into<TransportError>) -> TransportError {
        let error = CannotConnect {
            authority: self.authority.clone(),
            source: source.into(),
        };
        Box::new(io::Error::new(io::ErrorKind::ConnectionRefused, error))
    }
}

/// The task of a connection. Clones are of the same one.
#[derive(Clone)]
pub(super) struct Running(watch::Receiver<()>);

impl Running {
    /// Runs a connection until it ends.
    pub(super) fn start(
        connection: impl Future<Output = hyper::Result<()>> + Send + 'static,
    ) -> Self {
        let (running, ended) = watch::channel(());
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection ended");
            }
            drop(running);
        });
        Self(ended)
    }

    /// Drops the kept senders of the connection, by `release`, once its task has ended.
    ///
    /// hyper's queue may keep a request that came at the very moment when its connection ended,
    /// until the last sender is dropped: with a sender that is kept, such a request would wait for
    /// ever.
    pub(super) async fn then<F: Future>(mut self, release: impl FnOnce() -> F) -> Infallible {
        while self.0.changed().await.is_ok() {}
        release().await;
        pending().await
    }
}

/// Why a request has no answer, and the request itself if nothing of it was sent.
pub(super) type Unanswered<B> = (TransportError, Option<Request<B>>);

/// Waits for the answer of a request; `released` is [`Running::then`]. If the request was not sent,
/// the reported stage is reset.
pub(super) async fn sending<B, F>(
    reporter: &AttemptReporter,
    sending: F,
    released: impl Future<Output = Infallible>,
) -> Result<Response<Incoming>, Unanswered<B>>
where
    F: Future<Output = Result<Response<Incoming>, TrySendError<Request<B>>>>,
{
    let sent = tokio::select! {
        biased;
        sent = sending => sent,
        never = released => match never {},
    };
    sent.map_err(|mut error| {
        let unsent = error.take_message();
        if unsent.is_some() {
            reporter.stage(Stage::Dispatch);
        }
        (error.into_error().into(), unsent)
    })
}

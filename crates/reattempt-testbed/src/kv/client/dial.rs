//! Waiting for a node's connection, shared by all callers that need it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use super::connection::Connection;
use super::error::ClientError;
use super::node::NodeClient;

/// The result of dialling.
pub(super) type Dialled = Result<Connection, ClientError>;

/// Resolves to a node's connection.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct ConnectFuture(State);

#[derive(Debug)]
enum State {
    Known(Option<Connection>),
    /// Holds the client: this may be the last handle, and a dropped client does not dial.
    Dialling {
        result: oneshot::Receiver<Dialled>,
        client: NodeClient,
    },
}

impl ConnectFuture {
    pub(super) fn known(connection: Connection) -> Self {
        Self(State::Known(Some(connection)))
    }

    pub(super) fn dialling(result: oneshot::Receiver<Dialled>, client: NodeClient) -> Self {
        Self(State::Dialling { result, client })
    }
}

impl Future for ConnectFuture {
    type Output = Dialled;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Dialled> {
        match &mut self.0 {
            State::Known(connection) => {
                Poll::Ready(Ok(connection.take().expect("polled after completion")))
            }
            State::Dialling { result, client } => {
                let result = ready!(Pin::new(result).poll(cx));
                Poll::Ready(result.unwrap_or_else(|_| Err(client.dial_ended())))
            }
        }
    }
}

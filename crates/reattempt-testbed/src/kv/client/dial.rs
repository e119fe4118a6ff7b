//! Waiting for the connection of a node, shared by all who need it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use super::connection::Connection;
use super::error::ClientError;
use super::node::NodeClient;

/// What dialling comes to.
pub(super) type Dialled = Result<Connection, ClientError>;

/// The connection of a node, as soon as there is one.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct ConnectFuture(State);

#[derive(Debug)]
enum State {
    Known(Option<Connection>),
    /// Holds the client: it may be all that is left of it, and a client that is gone does not dial.
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

//! The ways in which a server ends a connection.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The peer has already disconnected.
    Gone,
    /// Orderly: everything written arrives, then the end of the stream (FIN).
    Close,
    /// A TCP reset (RST); written data may be lost.
    Abort,
}

/// How long the peer may take to close its side after the server closed its own.
const LINGER: Duration = Duration::from_secs(2);

/// Ends a connection. `rest` reads and discards until the peer closes.
///
/// A socket that is closed with unread bytes sends RST, which can destroy a response that the peer
/// has not read yet. So an orderly close waits for the peer.
pub(crate) async fn end(ending: Ending, mut write: OwnedWriteHalf, rest: impl Future<Output = ()>) {
    match ending {
        Ending::Gone => {}
        Ending::Close => {
            if write.shutdown().await.is_ok() {
                let _ = tokio::time::timeout(LINGER, rest).await;
            }
        }
        Ending::Abort => {
            if abort_on_close(&write).is_ok() {
                // Dropping it would send FIN before the RST.
                write.forget();
            }
        }
    }
}

// `set_linger` is deprecated because closing can block; with a linger time of zero it does not. Its
// replacement is not in all tokio versions that this workspace allows.
#[allow(deprecated)]
fn abort_on_close(write: &OwnedWriteHalf) -> io::Result<()> {
    write.as_ref().set_linger(Some(Duration::ZERO))
}

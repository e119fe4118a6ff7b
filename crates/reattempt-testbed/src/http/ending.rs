//! The ways in which a server lets go of a connection.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The peer is gone already.
    Gone,
    /// In order: everything written arrives, then the end of the stream (FIN).
    Close,
    /// With a TCP reset (RST); what was written may be lost.
    Abort,
}

/// How long the peer may take to close its side after we closed ours.
const LINGER: Duration = Duration::from_secs(2);

/// Ends a connection. `rest` reads and discards until the peer has closed.
///
/// A socket closed with unread bytes in it sends RST, which can destroy an answer that the peer
/// has not read yet; that is why a close in order waits for the peer.
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

// The linger time is zero, so that closing does not block, which is why it is deprecated; its
// replacement is not in all versions of tokio that this workspace allows.
#[allow(deprecated)]
fn abort_on_close(write: &OwnedWriteHalf) -> io::Result<()> {
    write.as_ref().set_linger(Some(Duration::ZERO))
}

//! A scripted server for HTTP/1.1 and HTTP/2 (prior knowledge), both on one port.
//!
//! ```
//! use reattempt_testbed::http::{Script, Server, Step};
//! use std::time::Duration;
//!
//! # async fn run() -> std::io::Result<()> {
//! let script = Script::new()
//!     .then(Step::status(503).header("retry-after", "1"))
//!     .then(
//!         Step::status(200)
//!             .body("hello")
//!             .after(Duration::from_millis(20)),
//!     )
//!     .otherwise(Step::status(404));
//! let server = Server::start(script).await?;
//! println!("listening at {}", server.uri());
//! // … send requests …
//! for request in server.seen() {
//!     println!("{} {}", request.method, request.path);
//! }
//! # Ok(())
//! # }
//! ```

mod call;
pub(crate) mod desk;
mod ending;
mod h1;
pub(crate) mod h2;
mod log;
mod options;
pub(crate) mod perform;
pub mod reading;
pub mod script;
mod seen;
pub mod server;
pub(crate) mod step;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

pub use self::h2::ErrorCode;
pub use self::options::{Options, Protocol};
pub use self::seen::{Cancelled, SeenRequest};
pub(crate) use self::server::{Connection, Wire};
pub use self::step::Step;

/// HTTP/1.1 and HTTP/2 as a protocol of [`Server`].
#[derive(Clone, Copy, Debug)]
pub struct Http;

/// A scripted HTTP server.
pub type Server = server::Server<Http>;

/// The script of a [`Server`], request by request.
pub type Script = script::Script<SeenRequest, Step>;

impl From<Step> for Script {
    fn from(step: Step) -> Self {
        Self::new().otherwise(step)
    }
}

impl Wire for Http {
    type Seen = SeenRequest;
    type Step = Step;

    fn was_cancelled(seen: &SeenRequest) -> bool {
        seen.cancelled.is_some()
    }

    async fn serve(mut connection: Connection<Self>) {
        let mut read = BytesMut::with_capacity(4096);
        let http2 = match connection.desk.options.protocol {
            Protocol::Http1 => false,
            Protocol::Http2 => true,
            Protocol::Both => match begins_with_preface(&mut connection.socket, &mut read).await {
                Some(http2) => http2,
                None => return,
            },
        };
        let Connection {
            socket,
            number,
            desk,
        } = connection;
        if !http2 {
            return h1::serve(socket, number, desk, read).await;
        }
        let bounds = desk.options.bounds();
        h2::serve(socket, read, bounds, |stream| {
            call::answer(stream, number, Arc::clone(&desk))
        })
        .await;
    }
}

/// Reads until it is certain; `None` when the client closes the connection first.
async fn begins_with_preface(socket: &mut TcpStream, read: &mut BytesMut) -> Option<bool> {
    loop {
        let known = read.len().min(h2::PREFACE.len());
        if read[..known] != h2::PREFACE[..known] {
            return Some(false);
        }
        if known == h2::PREFACE.len() {
            return Some(true);
        }
        if !matches!(socket.read_buf(read).await, Ok(1..)) {
            return None;
        }
    }
}

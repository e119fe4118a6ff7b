//! A scripted gRPC server on the testbed's raw HTTP/2: it can fail a call in every way on the wire.
//!
//! Messages are plain bytes; no generated service is needed.
//!
//! ```
//! use reattempt_testbed::grpc::{Script, Server, Step};
//!
//! # async fn run() -> std::io::Result<()> {
//! // UNAVAILABLE twice, the second time with pushback, then an answer.
//! let script = Script::new()
//!     .then(Step::trailers_only(14, "not yet"))
//!     .then(Step::trailers_only(14, "not yet").pushback("10"))
//!     .otherwise(Step::ok("hello"));
//! let server = Server::start(script).await?;
//! // … make a call to server.uri() …
//! for call in server.seen() {
//!     println!(
//!         "{} after {:?} attempts",
//!         call.path,
//!         call.previous_attempts()
//!     );
//! }
//! # Ok(())
//! # }
//! ```

mod call;
mod seen;
mod step;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::BytesMut;
pub use reattempt_clients::grpc::frame_message;

use crate::http::h2;
pub use crate::http::{Cancelled, ErrorCode, Options};
use crate::http::{Connection, Wire, script, server};

pub use self::seen::SeenCall;
pub use self::step::Step;

/// gRPC over HTTP/2 as a protocol of [`Server`].
#[derive(Clone, Copy, Debug)]
pub struct Grpc;

/// A scripted gRPC server.
pub type Server = server::Server<Grpc>;

/// The script of a [`Server`], call by call.
pub type Script = script::Script<SeenCall, Step>;

impl From<Step> for Script {
    fn from(step: Step) -> Self {
        Self::new().otherwise(step)
    }
}

impl Wire for Grpc {
    type Seen = SeenCall;
    type Step = Step;

    fn was_cancelled(seen: &SeenCall) -> bool {
        seen.cancelled.is_some()
    }

    async fn serve(connection: Connection<Self>) {
        let Connection {
            socket,
            number,
            desk,
        } = connection;
        let bounds = desk.options.bounds();
        h2::serve(socket, BytesMut::new(), bounds, |stream| {
            call::answer(stream, number, Arc::clone(&desk))
        })
        .await;
    }
}

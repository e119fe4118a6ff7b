//! A small raw HTTP/2 server side: it can do on the wire what a library would never let it do.

mod connection;
mod dispatch;
mod error_code;
mod flow;
mod frame;
mod head;
mod hpack;
mod stream;

pub(crate) use connection::serve;
pub use error_code::ErrorCode;
pub(crate) use frame::PREFACE;
pub(crate) use head::Head;
pub(crate) use stream::{Ended, Inbound, Reply, Stream, Then, ended};

/// What one HTTP/2 connection is held to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) concurrent_streams: u32,
    pub(crate) body: usize,
}

//! Whole calls over loopback: the client's CPU time a call, of several contenders in one run.
//!
//! The server runs in another process, so that its time does not count. Contenders take turns,
//! round by round, so that whatever else the machine does falls on all of them: read the ratios
//! inside of one run.

mod contest;
mod cpu;
mod server;

pub use contest::{Case, Contest, Figure};
pub use server::ServerProcess;

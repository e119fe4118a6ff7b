//! Whole calls over loopback: the client's CPU time per call, of several contenders in one run.
//!
//! The server runs in another process, so that its time does not count. Contenders take turns in
//! each round, so that other load on the machine affects all of them: compare ratios within one
//! run.

mod contest;
mod cpu;
mod server;

pub use contest::{Case, Contest, Figure};
pub use server::ServerProcess;

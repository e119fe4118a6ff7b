//! The documented stacks around the clients of hyper-util, reqwest and tonic, against a third-party
//! server: Debian's nginx. If it is not installed, the tests print a line and pass. The tests of
//! `reattempt call` against it are in `crates/reattempt-cli/tests/command/nginx.rs`.

mod answers;
mod client;
mod load;
mod reloads;
#[path = "../etcd/stack.rs"]
mod stack;

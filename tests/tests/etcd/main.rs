//! The documented gRPC stack around tonic channels to a third-party cluster: three members of
//! Debian's etcd, which are killed, stopped and cut off under load. If etcd is not installed, the
//! tests print a line and pass.

mod client;
mod cluster;
mod faults;
mod health;
mod load;
mod messages;
mod proxy;
mod stack;

//! The documented gRPC stack around tonic channels to a cluster that others wrote: three members of
//! Debian's etcd, which are killed, stopped and cut off under load. Where etcd is not installed the
//! tests print a line and pass.

mod client;
mod cluster;
mod faults;
mod load;
mod messages;
mod proxy;

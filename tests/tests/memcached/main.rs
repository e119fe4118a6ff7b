//! The KV client and the stack against a server that others wrote: Debian's memcached, which speaks
//! this protocol and knows nothing of Couchbase. Where it is not installed the tests say so and
//! pass. Rule numbers as in docs/conformance/couchbase.md.

mod operations;
mod restart;
mod server;

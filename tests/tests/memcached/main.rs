//! The KV client and the stack against a third-party server: Debian's memcached, which speaks this
//! protocol without Couchbase's extensions. If it is not installed, the tests print a line and
//! pass. Rule numbers are those of docs/conformance/couchbase.md.

mod operations;
mod restart;
mod server;

//! RFC 0049, Retry Handling. Rule numbers are those of docs/conformance/couchbase.md.

mod connections;
mod kv;
mod reasons;
mod services;
mod statuses;

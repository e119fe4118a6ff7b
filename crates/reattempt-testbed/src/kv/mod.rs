//! The kv side of the testbed.

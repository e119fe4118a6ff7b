mod failover;
mod parsing;
mod stale;
mod store;

mod parsing;
mod stale;
mod store;

//! Five services in a row, three tries each: what one call at the top costs the one at the bottom.

mod chain;
mod in_process;
mod wire;

//! Five services in a row, three attempts each: how many calls at the bottom one call at the top
//! causes.

mod chain;
mod in_process;
mod wire;

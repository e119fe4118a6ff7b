//! The HTTP stack around hyper-util's client, against a third-party server: Debian's nginx. If it
//! is not installed, the tests print a line and pass.

mod answers;
mod client;
mod load;
mod server;

//! The HTTP stack around hyper-util's client, against a server that others wrote: Debian's nginx.
//! Where it is not installed the tests say so and pass.

mod answers;
mod client;
mod load;
mod server;

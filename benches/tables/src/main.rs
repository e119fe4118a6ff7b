//! Prints the tables of the guides, in virtual time.
//!
//! - `cargo run --release -p reattempt-tables overload`: what each throttle does to a server in
//!   trouble (`docs/overload.md`);
//! - `cargo run --release -p reattempt-tables backends`: what callers feel of one of three backends
//!   that is silent, fails or is slow (`docs/backends.md`);
//! - both without an argument. The table of hedging is `reattempt-hedging-tables`.

mod backends;
mod overload;

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("overload") => overload::print(),
        Some("backends") => backends::print(),
        None => {
            overload::print();
            backends::print();
        }
        Some(other) => {
            eprintln!("no table {other}: overload, backends");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

//! Runs a scenario file and prints its result:
//! `cargo run --release -p reattempt-lab --example lab FILE`.

use reattempt_lab::{Limits, Scenario};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("a file is needed")?;
    let scenario = Scenario::parse(&std::fs::read(file)?)?;
    println!("{}", scenario.run(&Limits::default())?.to_json());
    Ok(())
}

//! A function that is retried. Its dependencies are those of `crates/reattempt/README.md`.

use std::time::Duration;

use tokio::net::TcpStream;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("an address is needed")?;
    let socket = reattempt::retry(|_| TcpStream::connect(address.clone()))
        .timeout(Duration::from_secs(5))
        .await?;
    println!("{}", socket.peer_addr()?);
    Ok(())
}

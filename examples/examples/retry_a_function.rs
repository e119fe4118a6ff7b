//! Retries a function, without a service: `reattempt::retry`.
//!
//! A server closes the first two connections of each client without an answer. Run with
//! `cargo run -p reattempt-examples --example retry_a_function`.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use reattempt::{Attempt, Backend, ClientError, Stage, StopReason};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Asks the server for one line.
async fn ask(server: SocketAddr, attempt: Attempt) -> io::Result<String> {
    attempt.reporter().backend(Backend::new(server.to_string()));
    let connected = TcpStream::connect(server).await;
    if connected.is_err() {
        // Nothing was sent: safe to repeat for any request.
        attempt.reporter().stage(Stage::Dispatch);
    }
    let mut stream = connected?;
    stream.write_all(b"ping\n").await?;
    let mut answer = String::new();
    match stream.read_to_string(&mut answer).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(answer),
    }
}

/// Answers every third connection.
async fn serve(listener: TcpListener) -> io::Result<()> {
    for connection in 1.. {
        let (mut stream, _) = listener.accept().await?;
        let mut line = [0; 5];
        stream.read_exact(&mut line).await?;
        if connection % 3 == 0 {
            stream.write_all(b"pong\n").await?;
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let server = listener.local_addr()?;
    tokio::spawn(serve(listener));

    let (answer, info) = reattempt::retry(|attempt| ask(server, attempt))
        .timeout(Duration::from_secs(5))
        .with_info()
        .await;
    println!("{info:#}");
    assert_eq!(answer?, "pong\n");
    assert_eq!(info.attempts(), 3);

    // The same for a request that must not take effect twice: the server may have acted on it.
    let (answer, info) = reattempt::retry(|attempt| ask(server, attempt))
        .not_idempotent()
        .with_info()
        .await;
    assert!(answer.is_err());
    assert_eq!(info.stopped(), Some(StopReason::NotIdempotent));

    // Only errors for which the predicate is true are retried; the error is the function's own.
    let closed = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let refused = reattempt::retry(|attempt| ask(closed, attempt))
        .when(|error| error.kind() == io::ErrorKind::UnexpectedEof)
        .timeout(Duration::from_secs(5))
        .await;
    match refused {
        Err(ClientError::Transport(error)) => {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            println!("not retried: {error}");
        }
        other => panic!("a closed port answered: {other:?}"),
    }
    Ok(())
}

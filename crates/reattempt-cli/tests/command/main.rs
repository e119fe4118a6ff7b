//! The built program where no case of `tests/cases` reaches: flags, exit statuses, TLS, `check`,
//! nginx, random failures of a MongoDB server.

mod causes;
mod check;
mod flags;
mod log;
mod mongodb;
mod nginx;
mod scripts;
#[cfg(feature = "tls")]
mod tls;

use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// Long enough for a slow machine; no passing test waits this long.
const SOON: Duration = Duration::from_secs(60);

/// Runs the program with these arguments and this standard input.
async fn run(arguments: &[&str], input: String) -> Output {
    run_logged(None, arguments, input).await
}

/// The same with this `RUST_LOG`.
async fn run_logged(log: Option<&str>, arguments: &[&str], input: String) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reattempt"));
    match log {
        Some(log) => command.env("RUST_LOG", log),
        None => command.env_remove("RUST_LOG"),
    };
    let mut child = command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let ended = async move {
        // A program that rejects its arguments closes its input unread.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        child.wait_with_output().await.unwrap()
    };
    timeout(SOON, ended).await.expect("the program hangs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The answer lines of a valid document.
async fn answers(document: Value) -> Vec<Value> {
    let output = run(&["call", "--json"], document.to_string()).await;
    assert!(
        output.status.success(),
        "{:?}: {}",
        output.status,
        text(&output.stderr)
    );
    // A layer in the wrong place would log a warning.
    assert_eq!(text(&output.stderr), "");
    text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// One field of every attempt.
fn each(answer: &Value, field: &str) -> Vec<Value> {
    let attempts = answer["attempts"].as_array().unwrap();
    attempts
        .iter()
        .map(|attempt| attempt[field].clone())
        .collect()
}

/// A document around these calls.
fn document(protocol: &str, target: &str, calls: Value) -> Value {
    json!({"protocol": protocol, "target": target, "linger_ms": 0, "calls": calls})
}

/// The same with another field of the document.
fn with(mut document: Value, name: &str, value: Value) -> Value {
    document[name] = value;
    document
}

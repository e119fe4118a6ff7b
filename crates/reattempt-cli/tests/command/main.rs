//! The built program where no case of `tests/cases` reaches: flags, exit statuses, TLS, `check`,
//! `lab`, nginx, random failures of a MongoDB server.

mod causes;
mod check;
mod flags;
mod lab;
mod log;
mod mongodb;
mod nginx;
mod scripts;
#[cfg(feature = "tls")]
mod tls;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use reattempt_testbed::http;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Long enough for a slow machine; no passing test waits this long.
const SOON: Duration = Duration::from_secs(60);

/// How the program ended, and what it wrote.
#[derive(Debug, PartialEq)]
struct Ended {
    status: Option<i32>,
    out: String,
    err: String,
}

impl Ended {
    /// The standard output of a program that ended with this status and without a complaint.
    #[track_caller]
    fn says(self, status: i32) -> String {
        let ended = (self.status, &*self.err);
        assert_eq!(ended, (Some(status), ""), "{}", self.out);
        self.out
    }

    /// The line, or lines, on standard error of a program that ended with this status and wrote
    /// nothing else.
    #[track_caller]
    fn complains(self, status: i32) -> String {
        let ended = (self.status, &*self.out);
        assert_eq!(ended, (Some(status), ""), "{}", self.err);
        self.err.trim_end().to_owned()
    }
}

/// The program with the arguments of this line, read as a shell does: `'..'` is one word.
fn program(line: &str) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_reattempt"));
    for (n, part) in line.split('\'').enumerate() {
        match n % 2 {
            0 => program.args(part.split_whitespace()),
            _ => program.arg(part),
        };
    }
    program
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    program
}

/// The end of the program, which gets this standard input if it is piped.
async fn end_of(mut child: Child, input: &str) -> Ended {
    let stdin = child.stdin.take();
    let ended = async {
        if let Some(mut stdin) = stdin {
            // A program that rejects its arguments closes its input unread.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        child.wait_with_output().await.unwrap()
    };
    let output = timeout(SOON, ended).await.expect("the program hangs");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended {
        status: output.status.code(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

async fn run(line: impl AsRef<str>) -> Ended {
    run_with(line.as_ref(), "").await
}

/// With this standard input.
async fn run_with(line: &str, input: &str) -> Ended {
    let child = program(line).stdin(Stdio::piped()).spawn().unwrap();
    end_of(child, input).await
}

#[track_caller]
fn has<const N: usize>(said: &str, parts: [&str; N]) {
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// A path in the folder of the tests.
fn path(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    path.into_os_string().into_string().unwrap()
}

/// Creates a file for one test.
fn file(name: &str, content: impl AsRef<[u8]>) -> String {
    std::fs::write(path(name), content).unwrap();
    path(name)
}

async fn http_server(script: impl Into<http::Script>) -> http::Server {
    http::Server::start(script.into()).await.unwrap()
}

/// The answer lines of a valid document.
async fn answers(document: Value) -> Vec<Value> {
    // A layer in the wrong place would log a warning.
    let said = run_with("call --json", &document.to_string()).await.says(0);
    said.lines()
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

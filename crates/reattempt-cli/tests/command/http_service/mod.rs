//! `reattempt call` to the Couchbase services over HTTP.

mod answers;
mod bodies;
mod calls;

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reattempt_testbed::http::{Script, Server, Step};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{answer, assert_times, document, each, ms, run, text, with};

const ROWS: &str = r#"{"results": [{"n": 1}], "status": "success"}"#;

fn works() -> Step {
    Step::status(200).body(ROWS)
}

/// An answer of the query or analytics service with this error.
fn fails(status: u16, code: i64, message: &str) -> Step {
    let errors = json!([{"code": code, "msg": message}, {"code": 1, "msg": "another"}]);
    let body = json!({"requestID": "7", "results": [], "errors": errors, "status": "fatal"});
    Step::status(status).body(body.to_string())
}

/// A document to this service with one call.
fn to(server: &Server, service: &str, call: Value) -> Value {
    let mut whole = json!({"method": "POST", "path": "/service"});
    for (name, value) in call.as_object().unwrap() {
        whole[name] = value.clone();
    }
    let document = document("http", &server.uri(), json!([whole]));
    with(document, "service", json!(service))
}

async fn call(server: &Server, service: &str, call: Value) -> Value {
    answer(to(server, service, call)).await
}

async fn start(script: impl Into<Script>) -> Server {
    Server::start(script).await.unwrap()
}

fn body(answer: &Value) -> String {
    let body = STANDARD.decode(answer["body"].as_str().unwrap()).unwrap();
    String::from_utf8(body).unwrap()
}

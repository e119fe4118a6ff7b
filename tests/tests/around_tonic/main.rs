//! tonic's generated client with the documented stack around its channel, against a tonic server on
//! loopback.
//!
//! Rule numbers are those of docs/conformance/grpc.md.

mod bodies;
mod connections;
mod deadline;
mod endpoints;
mod health;
mod hedging;
mod info;
mod retry;
mod server;
mod stack;
mod streams;
mod types;

use std::time::Duration;

use reattempt::backoff::Randomness;
use reattempt::{CallContext, RetryInfo, RetryInfoHandle, RetryThrottle};
use reattempt_grpc::service_config::{Options, ServiceConfig};
use reattempt_tests::within;
use server::Seen;
use tonic::{Request, Status};

/// An item of a cart.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Item {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The quantity.
    #[prost(uint32, tag = "2")]
    pub count: u32,
}

/// The content of a cart.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Receipt {
    /// The names of the items.
    #[prost(string, repeated, tag = "1")]
    pub names: Vec<String>,
}

#[allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "generated"
)]
mod shop {
    include!(concat!(env!("OUT_DIR"), "/shop.Cart.rs"));
}

/// A config for every method, with a bucket of ten tokens; each delay is exactly half of its upper
/// bound.
fn config(members: &str) -> ServiceConfig {
    let text = format!(
        r#"{{"methodConfig":[{{"name":[{{}}],{members}}}],"retryThrottling":{{"maxTokens":10,"tokenRatio":0.5}}}}"#
    );
    let options = Options::new().randomness(Randomness::Fixed(0.5));
    ServiceConfig::parse_with(&text, &options).expect("a service config")
}

/// Retries UNAVAILABLE with almost no delay.
fn retrying(attempts: u32) -> ServiceConfig {
    config(&format!(
        r#""retryPolicy":{{"maxAttempts":{attempts},"initialBackoff":"0.002s","maxBackoff":"0.002s",
        "backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE"]}}"#
    ))
}

/// Hedges; UNAVAILABLE is not fatal.
fn hedging(attempts: u32, delay: &str) -> ServiceConfig {
    config(&format!(
        r#""hedgingPolicy":{{"maxAttempts":{attempts},"hedgingDelay":"{delay}","nonFatalStatusCodes":["UNAVAILABLE"]}}"#
    ))
}

/// No policy, only a bucket.
fn no_policy() -> ServiceConfig {
    config(r#""waitForReady":false"#)
}

fn item(name: &str) -> Item {
    Item {
        name: name.to_owned(),
        count: 1,
    }
}

/// An item with this quantity.
fn items(name: &str, count: u32) -> Item {
    Item {
        name: name.to_owned(),
        count,
    }
}

/// A request, and a watch on its call.
fn watched<M>(message: M) -> (Request<M>, RetryInfoHandle) {
    let mut request = Request::new(message);
    let watch = RetryInfo::track(request.extensions_mut());
    (request, watch)
}

/// `grpc-previous-rpc-attempts` of each call that the server saw.
fn previous(seen: &[Seen]) -> Vec<Option<&str>> {
    seen.iter().map(Seen::previous).collect()
}

fn busy() -> Status {
    Status::unavailable("busy")
}

fn pushing_back(value: &str) -> Status {
    let mut status = busy();
    let value = value.parse().expect("a value");
    status
        .metadata_mut()
        .insert("grpc-retry-pushback-ms", value);
    status
}

/// Tokens in the bucket, in thousandths.
fn tokens(config: &ServiceConfig) -> u64 {
    let bucket = config.throttle().expect("a bucket");
    bucket.milli_tokens().expect("it counts tokens")
}

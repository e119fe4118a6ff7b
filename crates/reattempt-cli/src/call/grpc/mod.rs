//! gRPC calls: raw messages over HTTP/2, through the layers of A6.

mod exchange;
mod kind;
mod metadata;
mod payloads;
mod reply;
mod stack;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, TE, USER_AGENT};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Request, Uri};
use reattempt_clients::grpc::Messages;
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_grpc::{Code, WaitForReady};
use serde_json::Value;

use super::answer::{Answer, Shown};
use super::document::{Base64, Document, Fields, Head, Millis};
use super::schedule::{Caller, Plan, unless_cancelled};
use super::story::Story;
use super::transport::{Tls, Transport, Version};
use super::user_info::without_query;
use exchange::{end, exchange};
use kind::Kind;
use payloads::Payloads;
use reply::Reply;
use stack::{ChannelOptions, Stack};

/// Maximum bytes of all messages of one answer: 64 MiB, as for the body of an HTTP answer.
const LONGEST_ANSWER: usize = 64 << 20;

/// Maximum number of messages of one answer. Empty messages add no bytes but still use memory.
const MOST_MESSAGES: usize = 100_000;

/// The default user agent; the call's metadata may set another.
const AGENT: &str = concat!("grpc-rust-reattempt/", env!("CARGO_PKG_VERSION"));

/// Calls one gRPC server, or none if the service config is invalid.
#[derive(Debug)]
pub(crate) struct GrpcCaller {
    channel: Result<Channel, String>,
    scheme: Scheme,
    authority: String,
}

#[derive(Debug)]
struct Channel {
    stack: Stack,
    config: Option<Arc<ServiceConfig>>,
}

impl Channel {
    /// The message decoder of an answer: the service config may limit the message length, otherwise
    /// gRPC's default applies.
    fn messages(&self, call: &GrpcCall) -> Messages {
        let method = self.config.as_ref().map(|c| c.method(call.method.path()));
        let messages = match method.and_then(|method| method.max_response_message_bytes) {
            Some(bytes) => Messages::at_most(usize::try_from(bytes).unwrap_or(usize::MAX)),
            None => Messages::default(),
        };
        messages.of_one_stream(LONGEST_ANSWER, MOST_MESSAGES)
    }
}

/// The fields of one call.
#[derive(Clone, Debug)]
pub(crate) struct GrpcCall {
    method: PathAndQuery,
    kind: Kind,
    payloads: Vec<Bytes>,
    gap: Duration,
    half_close_after: Duration,
    metadata: HeaderMap,
    wait_for_ready: Option<bool>,
}

/// Where a service config that cannot be used is reported; nothing is sent either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// In the answer of each call, for programs.
    PerCall,
    /// As a fault of the document, for people.
    AsFault,
}

pub(crate) fn plan(mut document: Document, refused: Refused) -> Option<Plan<GrpcCaller>> {
    let (is_tls, authority) = document.one_target(address).unwrap_or_default();
    let tls = Tls::read(&mut document.rest, is_tls, &authority, Version::Grpc);
    let transport = Transport::new(&authority, Version::Grpc, tls);
    let options = ChannelOptions::read(document.rest.nested("channel_options"));
    let setup = &document.setup;
    let config = stack::service_config(&mut document.rest, setup, &options);
    if let (Err(faults), Refused::AsFault) = (&config, refused) {
        document.rest.add_all("service_config", faults);
    }
    let channel = config.map(|config| Channel {
        stack: stack::stack(setup, transport, config.clone(), &options),
        config,
    });
    let caller = GrpcCaller {
        channel: channel.map_err(|faults| faults.listed()),
        scheme: if is_tls { Scheme::HTTPS } else { Scheme::HTTP },
        authority,
    };
    Plan::new(document, || Some(caller), read)
}

/// Whether a target has TLS, and its host and port.
fn address(target: &str) -> Result<(bool, String), String> {
    if target.contains('@') {
        let what = "a gRPC target takes no user and password: put an `authorization` in the metadata of the calls";
        return Err(what.to_owned());
    }
    let (is_tls, authority) = match target.split_once("://") {
        None => (false, target),
        Some(("grpc" | "http", rest)) => (false, rest.trim_end_matches('/')),
        Some(("grpcs" | "https", rest)) => (true, rest.trim_end_matches('/')),
        // No authority has a slash.
        Some(_) => (false, target),
    };
    if !is_host_and_port(authority) {
        return Err(format!(
            "must be host:port, grpc:// or grpcs://host:port, got {}",
            without_query(target)
        ));
    }
    Ok((is_tls, authority.to_owned()))
}

fn is_host_and_port(target: &str) -> bool {
    target
        .parse::<Authority>()
        .is_ok_and(|authority| !authority.host().is_empty() && authority.port_u16().is_some())
}

fn path(method: &str) -> Result<PathAndQuery, String> {
    let parts: Vec<&str> = method.split('/').collect();
    let path = match parts[..] {
        ["", service, name] if !service.is_empty() && !name.is_empty() => method.parse().ok(),
        _ => None,
    };
    // The path parser drops text from a '#' on, which would call another method.
    let path = path.filter(|path: &PathAndQuery| path.as_str() == method);
    path.ok_or_else(|| {
        format!(
            "must be /package.Service/Method, got {}",
            without_query(method)
        )
    })
}

fn read(fields: &mut Fields) -> Option<GrpcCall> {
    let method = fields.required::<String>("method");
    let method = method.and_then(|method| fields.accept("method", path(&method)));
    let kind: Kind = fields.or("kind", Kind::default());
    let payloads: Vec<Base64> = fields.or("payloads", Vec::new());
    let mut payloads: Vec<_> = payloads.into_iter().map(|Base64(bytes)| bytes).collect();
    if payloads.is_empty() && kind.asks_once() {
        // Such a call always has one message, by default an empty one.
        payloads.push(Bytes::new());
    }
    let gap = fields.or("payload_gap_ms", Millis::default()).0;
    let half_close_after = fields.or("half_close_after_ms", Millis::default()).0;
    let metadata = metadata::read(fields);
    let wait_for_ready = fields.optional("wait_for_ready");
    Some(GrpcCall {
        method: method?,
        kind,
        payloads,
        gap,
        half_close_after,
        metadata,
        wait_for_ready,
    })
}

impl GrpcCaller {
    fn request(&self, call: GrpcCall) -> Request<Payloads> {
        let mut request = Request::new(Payloads::new(
            &call.payloads,
            call.gap,
            call.half_close_after,
        ));
        *request.method_mut() = http::Method::POST;
        let mut uri = http::uri::Parts::default();
        uri.scheme = Some(self.scheme.clone());
        uri.authority = self.authority.parse().ok();
        uri.path_and_query = Some(call.method);
        *request.uri_mut() = Uri::from_parts(uri).unwrap_or_default();
        *request.headers_mut() = call.metadata;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static(AGENT));
        if let Some(waits) = call.wait_for_ready {
            // The service config provides the default.
            request.extensions_mut().insert(WaitForReady(waits));
        }
        request
    }
}

impl Caller for GrpcCaller {
    type Call = GrpcCall;

    async fn call(&self, head: Head, call: GrpcCall) -> Answer {
        let channel = match &self.channel {
            Ok(channel) => channel,
            Err(refused) => return refuse(head, refused),
        };
        let kind = call.kind;
        let messages = channel.messages(&call);
        let mut request = self.request(call);
        let story = Story::begin(&head, &mut request);
        let mut reply = Reply::default();
        let exchange = exchange(channel.stack.clone(), kind, messages, request, &mut reply);
        let read = unless_cancelled(&head, exchange).await;
        let end = end(read, kind, &reply, &story.info());
        let mut answer = story.end(head.call, end.ending);
        // The layers returned an answer that could not be read; the attempt failed for a reason of
        // this client.
        let fatal = answer.attempts.iter_mut().filter(|a| a.verdict == "fatal");
        for attempt in fatal {
            let reason = end.status.code.reason().map(|reason| reason.name());
            attempt.reason = attempt.reason.or(reason);
        }
        answer.error = (end.status.code != Code::Ok)
            .then(|| format!("{}: {}", end.status.code, end.status.message));
        answer.timeout = end.timeout;
        let line = format!("code {} ({})", end.status.code.number(), end.status.code);
        answer.for_people.push(Shown::Text(line));
        let messages = reply.messages.iter().cloned().map(Shown::Bytes);
        answer.for_people.extend(messages);
        answer
            .with("code", end.status.code.number())
            .with("message", end.status.message)
            .with("initial_metadata", reply.initial_metadata())
            .with("trailing_metadata", reply.trailing_metadata())
            .with("previous_attempts", reply.previous_attempts())
            .with_messages("responses", reply.messages)
    }
}

/// The answer when the service config is invalid.
fn refuse(head: Head, refused: &str) -> Answer {
    let mut answer = Answer::unsent(head.call);
    answer.error = Some(format!("the service config cannot be used: {refused}"));
    answer
        .with("code", Value::Null)
        .with("config_error", refused)
        .with("message", "")
        .with("responses", Vec::<Value>::new())
        .with("initial_metadata", Value::Object(Default::default()))
        .with("trailing_metadata", Value::Object(Default::default()))
        .with("previous_attempts", Value::Null)
}

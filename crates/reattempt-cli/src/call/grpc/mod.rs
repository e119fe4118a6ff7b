//! gRPC calls: raw messages over plain HTTP/2, through the layers of A6.

mod payloads;
mod reply;
mod stack;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, TE};
use http::uri::PathAndQuery;
use http::{HeaderMap, Request, Uri};
use http_body_util::BodyExt;
use reattempt::{Elapsed, RetryInfo, Stopped};
use reattempt_grpc::Code;
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_testbed::grpc::Messages;
use serde::Deserialize;
use serde_json::Value;
use tower::ServiceExt;

use super::answer::{Answer, Timeout, readable};
use super::attempts::Ending;
use super::document::{Base64, Document, Fault, Fields, Head, Millis, to_base64};
use super::http::{chain, headers};
use super::schedule::{Caller, Plan, cancelled};
use super::story::Story;
use super::transport::WaitForReady;
use payloads::Payloads;
use reply::{Reply, Status};
use stack::{ChannelOptions, Stack};

/// Calls one gRPC server; or nobody, where its service config cannot be used.
#[derive(Debug)]
pub(crate) struct GrpcCaller {
    channel: Result<Channel, String>,
    authority: String,
}

#[derive(Debug)]
struct Channel {
    stack: Stack,
    config: Option<Arc<ServiceConfig>>,
}

/// What the document says of one call.
#[derive(Debug)]
pub(crate) struct GrpcCall {
    method: PathAndQuery,
    payloads: Vec<Bytes>,
    gap: Duration,
    half_close_after: Duration,
    metadata: HeaderMap,
    wait_for_ready: Option<bool>,
}

/// Raw messages make no difference between the kinds; the name has to be right all the same.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    #[default]
    Unary,
    ServerStream,
    ClientStream,
    Bidi,
}

pub(crate) fn plan(mut document: Document) -> Result<Plan<GrpcCaller>, Fault> {
    let authority = document.setup.one_target()?.to_owned();
    if authority.parse::<http::uri::Authority>().is_err() || !authority.contains(':') {
        let what = format!("must be host:port, got {authority:?}");
        return Err(Fault::new("$.target", what));
    }
    let options = ChannelOptions::read(document.rest.nested("channel_options")?)?;
    let text = document.rest.text("service_config");
    let channel = stack::service_config(text.as_deref(), &document.setup, &options).map(|config| {
        let stack = stack::stack(&document.setup, &authority, config.clone(), &options);
        Channel { stack, config }
    });
    Plan::new(document, GrpcCaller { channel, authority }, read)
}

fn read(fields: &mut Fields) -> Result<GrpcCall, Fault> {
    let method: String = fields.required("method")?;
    let parts: Vec<&str> = method.split('/').collect();
    let path = match parts[..] {
        ["", service, name] if !service.is_empty() && !name.is_empty() => method.parse().ok(),
        _ => None,
    };
    let Some(path) = path else {
        let what = format!("must be /package.Service/Method, got {method:?}");
        return Err(fields.fault("method", what));
    };
    let _: Kind = fields.or("kind", Kind::default())?;
    let payloads: Vec<Base64> = fields.or("payloads", Vec::new())?;
    Ok(GrpcCall {
        method: path,
        payloads: payloads.into_iter().map(|Base64(bytes)| bytes).collect(),
        gap: fields.or("payload_gap_ms", Millis::default())?.0,
        half_close_after: fields.or("half_close_after_ms", Millis::default())?.0,
        metadata: headers(fields, "metadata")?,
        wait_for_ready: fields.optional("wait_for_ready")?,
    })
}

/// How the call ended for its caller.
#[derive(Debug)]
struct End {
    status: Status,
    ending: Ending,
    timeout: Option<Timeout>,
}

impl End {
    fn of(status: Status) -> Self {
        let ending = match status.code {
            Code::Ok => Ending::Success,
            _ => Ending::Failure,
        };
        Self {
            status,
            ending,
            timeout: None,
        }
    }

    fn deadline(status: Status, timeout: Timeout) -> Self {
        Self {
            status,
            ending: Ending::Deadline,
            timeout: Some(timeout),
        }
    }
}

/// How far the answer could be read.
#[derive(Debug)]
enum Read {
    /// To its end.
    Whole,
    /// The deadline passed before its head.
    Elapsed(Timeout),
    /// It broke off, or never came; the layers know the code.
    Broken(String),
    /// Its messages cannot be read.
    Malformed(String),
}

async fn exchange(stack: Stack, request: Request<Payloads>, reply: &mut Reply) -> Read {
    let response = match stack.oneshot(request).await {
        Ok(response) => response,
        Err(error) => return Read::Broken(chain(&*error)),
    };
    let (head, mut body) = response.into_parts();
    reply.head(head.status, head.headers);
    if let Some(elapsed) = head.extensions.get::<Elapsed>() {
        return Read::Elapsed(Timeout::from(elapsed));
    }
    let mut messages = Messages::default();
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return Read::Broken(chain(&error)),
        };
        match frame.into_data() {
            Ok(data) => {
                messages.push(&data);
                loop {
                    match messages.next_message() {
                        Ok(Some(message)) => reply.messages.push(message),
                        Ok(None) => break,
                        Err(error) => return Read::Malformed(error.to_string()),
                    }
                }
            }
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    reply.trailers(trailers);
                }
            }
        }
    }
    match messages.finish() {
        Err(error) if reply.status().is_some_and(|status| status.code == Code::Ok) => {
            Read::Malformed(error.to_string())
        }
        _ => Read::Whole,
    }
}

/// The code that the layers found for an answer that did not come, or broke off.
fn code_found(info: &RetryInfo) -> Code {
    let code = info
        .records()
        .filter_map(|record| record.failure?.code)
        .last();
    code.and_then(|code| Code::from_number(code.into()))
        .unwrap_or(Code::Unknown)
}

fn end(read: Option<Read>, reply: &Reply, info: &RetryInfo) -> End {
    let Some(read) = read else {
        let status = Status::new(Code::Cancelled, "the caller cancelled");
        return End {
            ending: Ending::Cancelled,
            ..End::of(status)
        };
    };
    match read {
        Read::Broken(error) => End::of(Status::new(code_found(info), error)),
        Read::Malformed(error) => End::of(Status::new(Code::Internal, error)),
        Read::Elapsed(timeout) => {
            let status = reply.status();
            End::deadline(status.unwrap_or_else(|| own_deadline("")), timeout)
        }
        Read::Whole => {
            let status = reply
                .status()
                .unwrap_or_else(|| Status::new(Code::Unknown, "the stream ended without a status"));
            if info.stopped() == Some(Stopped::Deadline) && status.code == Code::DeadlineExceeded {
                // The answer had begun, so the server has the request, and nothing says that
                // it may take effect twice.
                return End::deadline(status, Timeout::Ambiguous);
            }
            End::of(status)
        }
    }
}

fn own_deadline(message: &str) -> Status {
    Status::new(Code::DeadlineExceeded, message)
}

impl GrpcCaller {
    fn request(&self, call: GrpcCall, channel: &Channel) -> Request<Payloads> {
        // What the call does not say, the service config may.
        let configured = channel
            .config
            .as_ref()
            .and_then(|config| config.method(call.method.path()).wait_for_ready);
        let waits = call.wait_for_ready.or(configured).unwrap_or(false);
        let mut request = Request::new(Payloads::new(
            &call.payloads,
            call.gap,
            call.half_close_after,
        ));
        *request.method_mut() = http::Method::POST;
        let mut uri = http::uri::Parts::default();
        uri.scheme = Some(http::uri::Scheme::HTTP);
        uri.authority = self.authority.parse().ok();
        uri.path_and_query = Some(call.method);
        *request.uri_mut() = Uri::from_parts(uri).unwrap_or_default();
        *request.headers_mut() = call.metadata;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(TE, HeaderValue::from_static("trailers"));
        if waits {
            request.extensions_mut().insert(WaitForReady);
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
        let mut request = self.request(call, channel);
        let story = Story::begin(&head, &mut request);
        let mut reply = Reply::default();
        let read = tokio::select! {
            biased;
            read = exchange(channel.stack.clone(), request, &mut reply) => Some(read),
            () = cancelled(&head) => None,
        };
        let end = end(read, &reply, &story.info());
        let mut answer = story.end(head.call, end.ending);
        answer.error = (end.status.code != Code::Ok)
            .then(|| format!("{}: {}", end.status.code, end.status.message));
        answer.timeout = end.timeout;
        let line = format!("code {} ({})", end.status.code.number(), end.status.code);
        answer.for_people.push(line);
        let messages = reply.messages.iter().map(|message| readable(message));
        answer.for_people.extend(messages);
        let responses = reply.messages.iter().map(|message| to_base64(message));
        answer
            .with("code", end.status.code.number())
            .with("message", end.status.message)
            .with("responses", responses.collect::<Vec<_>>())
            .with("initial_metadata", reply.initial_metadata())
            .with("trailing_metadata", reply.trailing_metadata())
            .with("previous_attempts", reply.previous_attempts())
    }
}

/// The answer where the service config cannot be used.
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

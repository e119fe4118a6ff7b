//! HTTP calls: the layers around HTTP/1.1 or HTTP/2 connections, including those of the
//! Couchbase services.

mod base;
mod received;
mod service;
mod stack;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::Full;
use reattempt::{HasCallContext, Idempotency, StopReason};
use reattempt_couchbase::service::ReadOnly;
use reattempt_http::reasons::HTTP_BODY_FAILED;
use serde_json::{Map, Value};
use tower::ServiceExt;

use super::answer::{Answer, Shown, Timeout};
use super::attempts::Ending;
use super::document::{Base64, Document, Fields, Head, Whole};
use super::named_values;
use super::schedule::{Caller, Plan, unless_cancelled};
use super::story::Story;
use super::transport::{Tls, Transport, Version};
use super::user_info::{self, without_query};
use base::Base;
use received::{Broken, LONGEST_BODY, Received, too_slow};
use service::Settings;
use stack::Stack;

/// Calls one HTTP server.
#[derive(Debug)]
pub(crate) struct HttpCaller {
    stack: Stack,
    base: Base,
    /// The Couchbase service, if the document names one.
    service: Option<Settings>,
    /// The most bytes that are read of an answer's body.
    longest_body: usize,
}

/// What becomes of it (RFC 9110, section 7.1).
const FRAGMENT: &str = "what follows a # is not sent; in a path it is %23";

/// The fields of one request.
#[derive(Clone, Debug)]
pub(crate) struct HttpCall {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    idempotency: Idempotency,
    read_only: bool,
}

pub(crate) fn plan(mut document: Document) -> Option<Plan<HttpCaller>> {
    let base = document.one_target(|target| {
        if target.contains('#') {
            document.rest.warn(format_args!("$.target: {FRAGMENT}"));
        }
        Base::of(target)
    });
    let base = base.unwrap_or_else(Base::unknown);
    let version = match document.rest.or("version", Whole(1)) {
        Whole(1) => Version::Http1,
        Whole(2) => Version::Http2,
        Whole(other) => {
            let what = format!("must be 1 or 2, got {other}");
            document.rest.wrong("version", what);
            Version::Http1
        }
    };
    let service = Settings::read(&mut document.rest);
    let tls = Tls::read(&mut document.rest, base.is_tls, &base.authority, version);
    let transport = Transport::new(&base.authority, version, tls);
    let stack = match &service {
        None => {
            let (policies, breaker) = stack::policies(&mut document);
            stack::stack(&document.setup, policies, breaker, transport)
        }
        Some(service) => service.stack(&document.setup, transport),
    };
    let to_service = service.is_some();
    let caller = HttpCaller {
        stack,
        base: base.clone(),
        service,
        longest_body: LONGEST_BODY,
    };
    Plan::new(
        document,
        || Some(caller),
        |fields| read(fields, &base, version, to_service),
    )
}

fn read(fields: &mut Fields, base: &Base, version: Version, to_service: bool) -> Option<HttpCall> {
    let name: String = fields.or("method", "GET".to_owned());
    let method = Method::from_bytes(name.as_bytes());
    let method = method.map_err(|_| format!("is no HTTP method: {}", without_query(&name)));
    let method = fields.accept("method", method);
    let path: Option<String> = fields.optional("path");
    let uri = base.uri(path.as_deref()).map_err(|error| {
        // It may be a whole URL.
        let path = user_info::shown(path.as_deref().unwrap_or_default());
        format!("{error}: {path}")
    });
    let uri = fields.accept("path", uri);
    if path.is_some_and(|path| path.contains('#')) {
        fields.warn(fields.fault("path", FRAGMENT));
    }
    let idempotency = match fields.optional("idempotent") {
        None => Idempotency::Unknown,
        Some(true) => Idempotency::Idempotent,
        Some(false) => Idempotency::NotIdempotent,
    };
    let headers = headers(fields, version);
    let mut headers = fields.accept("headers", headers).unwrap_or_default();
    let body = fields.or("body", Base64::default()).0;
    let read_only = to_service && fields.or("readonly", false);
    if let Some(authorization) = &base.authorization {
        // A header of the call takes precedence.
        let entry = headers.entry(AUTHORIZATION);
        entry.or_insert_with(|| authorization.clone());
    }
    let uri = base::at_host(uri?, &headers);
    Some(HttpCall {
        method: method?,
        uri,
        headers,
        body,
        idempotency,
        read_only,
    })
}

fn headers(fields: &mut Fields, version: Version) -> Result<HeaderMap, String> {
    let said = named_values::read(fields, "headers");
    let mut headers = HeaderMap::new();
    for (key, values) in said {
        let fault = |what| format!("{}: {what}", named_values::shown(&key));
        let header: HeaderName = key.parse().map_err(|_| fault("is no header name"))?;
        let values = values.into_vec();
        if is_of_connection(&header, &values, version) {
            let warning = fault("is the connection's own, ignored");
            fields.warn(fields.fault("headers", warning));
            continue;
        }
        for value in values {
            let value = HeaderValue::from_bytes(value.as_bytes())
                .map_err(|_| fault("has a value that no header can have"))?;
            headers.append(header.clone(), value);
        }
    }
    Ok(headers)
}

/// Whether the connection sets or forbids a header: the length is that of the body, and HTTP/2 has
/// frames instead of the others (RFC 9113, section 8.2.2).
fn is_of_connection(header: &HeaderName, values: &[String], version: Version) -> bool {
    match header.as_str() {
        "content-length" | "transfer-encoding" => true,
        "connection" | "keep-alive" | "proxy-connection" | "upgrade" => version == Version::Http2,
        "te" => version == Version::Http2 && values != ["trailers"],
        _ => false,
    }
}

/// Headers as shown in the answer: each name with a list of its values.
fn shown(headers: &HeaderMap) -> Value {
    let mut shown = Map::new();
    for name in headers.keys() {
        let values = headers.get_all(name).iter();
        let values = values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        shown.insert(name.to_string(), values.collect());
    }
    shown.into()
}

impl HttpCaller {
    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        story: &Story,
        received: &mut Received,
    ) -> Result<(), Broken> {
        let response = self.stack.clone().oneshot(request).await;
        let response = response.map_err(Broken::call)?;
        let stopped = story.info().stopped();
        let well = |stopped: &_| matches!(stopped, StopReason::Success | StopReason::Committed);
        received.failed = stopped.filter(|stopped| !well(stopped));
        match received.failed {
            Some(_) => received.read_failed(response, story.limit).await,
            None => received.read(response).await,
        }
    }
}

impl Caller for HttpCaller {
    type Call = HttpCall;

    async fn call(&self, head: Head, call: HttpCall) -> Answer {
        let mut request = Request::new(Full::new(call.body));
        *request.method_mut() = call.method;
        *request.uri_mut() = call.uri;
        *request.headers_mut() = call.headers;
        request.context_mut().set_idempotency(call.idempotency);
        if call.read_only {
            request.extensions_mut().insert(ReadOnly);
        }
        let story = Story::begin(&head, &mut request);
        let mut received = Received::at_most(self.longest_body);
        let exchange = self.exchange(request, &story, &mut received);
        let outcome = unless_cancelled(&head, exchange).await;
        let body_failed =
            received.head.is_some() && matches!(outcome, Some(Err(Broken::Failed(_))));
        let mut timeout = None;
        let (ending, error) = match outcome {
            None => (Ending::Cancelled, Some("the caller left".to_owned())),
            Some(Err(Broken::Elapsed(elapsed))) => {
                timeout = Some(Timeout::from(&elapsed));
                (Ending::Deadline, Some(elapsed.to_string()))
            }
            Some(Err(Broken::TooSlow(elapsed))) => {
                timeout = Some(Timeout::from(&elapsed));
                (Ending::Deadline, Some(too_slow(&elapsed)))
            }
            // The bound is this client's: what was read is judged, and no attempt failed.
            Some(Err(Broken::TooLong(most))) => {
                let what = format!("the answer's body has more than {most} bytes, the most read");
                (Ending::Success, Some(what))
            }
            Some(Err(Broken::Failed(error))) => (Ending::Failure, Some(error)),
            Some(Ok(())) => (Ending::Success, None),
        };
        let reported = self.service.as_ref().map(|service| {
            let whole = ending == Ending::Success;
            service.reported(&received, whole, &story.info())
        });
        // A good status whose body contained an error after the head was returned.
        let ending = match &reported {
            Some(reported) if reported.is_error() && ending == Ending::Success => Ending::Failure,
            _ => ending,
        };
        let mut answer = story.end(head.call, ending);
        if body_failed {
            // The layers of a service see no failure of a body after its head.
            let fatal = answer.attempts.iter_mut().filter(|a| a.verdict == "fatal");
            fatal.for_each(|attempt| {
                attempt.reason.get_or_insert(HTTP_BODY_FAILED.name());
            });
        }
        if let Some(stopped) = received.failed.filter(|_| ending == Ending::Failure) {
            // A deadline that passed later ended the body alone.
            answer.stopped = Some(stopped.name());
        }
        answer.error = error;
        answer.timeout = timeout;
        let answer = tell(answer, received, &self.base);
        match reported {
            Some(reported) => reported.add_to(answer),
            None => answer,
        }
    }
}

/// Adds the received part of the answer.
fn tell(mut answer: Answer, received: Received, base: &Base) -> Answer {
    let body = received.body.freeze();
    let status = received.head.as_ref().map(|(status, _)| *status);
    if let Some(status) = status {
        let line = format!("{} from {}", status, base.authority);
        answer.for_people.push(Shown::Text(line));
        if !body.is_empty() {
            answer.for_people.push(Shown::Bytes(body.clone()));
        }
    }
    let headers = received.head.as_ref().map(|(_, headers)| headers);
    answer
        .with("status", status.map(|status| status.as_u16()))
        .with("headers", headers.map(shown))
        .with_bytes("body", body)
}

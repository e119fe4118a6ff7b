//! HTTP calls: the layers around a plain HTTP/1.1 or HTTP/2 connection.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use reattempt::backoff::{Backoff, Jitter};
use reattempt::observe::LogObserver;
use reattempt::strategy::Standard;
use reattempt::throttle::TokenBucket;
use reattempt::{
    Annotated, CallContext, DeadlineLayer, Elapsed, HedgeLayer, Idempotency, PushbackLayer,
    RetryLayer, ThrottleLayer, TimeLimit,
};
use reattempt_http::body::{
    BufferBudget, DeadlineBody, DeadlineBodyError, DeadlineBodyLayer, OutcomeBody,
    OutcomeBodyLayer, ReplayBody, ReplayBodyLayer,
};
use reattempt_http::{HttpStatus, IdempotencyKeyLayer, RetryAfter};
use serde_json::Value;
use std::sync::Arc;
use tokio::time::Instant;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceBuilder, ServiceExt};

use super::answer::{Answer, InMillis, Timeout, readable};
use super::attempts::{Ending, Journal, JournalLayer, JournalObserver, stopped};
use super::document::{Base64, Document, Fault, Fields, Head, OneOrMany, Setup, to_base64};
use super::schedule::{Caller, Plan, cancelled};
use super::transport::{Transport, TransportError, Version};

/// The most bytes that are read of an answer's body.
const LONGEST_BODY: usize = 64 << 20;

type RequestBody = ReplayBody<Full<Bytes>>;
type ResponseBody = DeadlineBody<OutcomeBody<DeadlineBody<Incoming>>>;
type Stack = BoxCloneSyncService<Request<Full<Bytes>>, Response<ResponseBody>, TransportError>;

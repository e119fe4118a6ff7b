//! The layers of a gRPC channel, in their documented order.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use reattempt::backoff::Backoff;
use reattempt::strategy::MaxAttempts;
use reattempt::{DeadlineLayer, HedgeLayer, PushbackLayer, RetryLayer, Route, RouteLayer};
use reattempt_grpc::service_config::{Options, ServiceConfig};
use reattempt_grpc::{
    AsGrpcStatus, CodeSet, GrpcClassifier, GrpcOutcomeBody, GrpcOutcomeLayer, GrpcPushback,
    GrpcTimeoutLayer, LimitedRequestBody, LimitedResponseBody, MessageLimitLayer,
    PreviousAttemptsLayer, WaitForReadyLayer,
};
use reattempt_http::RefusedStream;
use reattempt_http::body::{
    BufferBudget, DeadlineBody, DeadlineBodyLayer, ReplayBody, ReplayBodyLayer,
};
use serde::Deserialize;
use tower::ServiceBuilder;
use tower::util::BoxCloneSyncService;

use super::payloads::Payloads;
use crate::call::attempts::{JournalLayer, JournalObserver};
use crate::call::document::{Faults, Fields, Setup, Whole};
use crate::call::transport::{AnswerBody, Transport, TransportError};

type ResponseBody = DeadlineBody<LimitedResponseBody<GrpcOutcomeBody<AnswerBody>>, AsGrpcStatus>;
pub(super) type Stack =
    BoxCloneSyncService<Request<Payloads>, Response<ResponseBody>, TransportError>;

/// The channel options that A6 leaves to the client.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChannelOptions {
    enable_retries: bool,
    per_rpc_buffer: Option<usize>,
    buffer: Option<usize>,
    max_attempts_limit: Option<u32>,
    refused: RefusedStream,
}

/// [`RefusedStream`], as written in the document.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RefusedChoice {
    Unprocessed,
    Ambiguous,
}

impl ChannelOptions {
    pub(super) fn read(mut fields: Fields) -> Self {
        let enable_retries = fields.or("enable_retries", true);
        let mut bytes = |name| {
            let bytes = fields.optional::<Whole>(name);
            bytes.map(|bytes| bytes.cut(usize::MAX))
        };
        let options = Self {
            enable_retries,
            per_rpc_buffer: bytes("per_rpc_retry_buffer_size"),
            buffer: bytes("retry_buffer_size"),
            max_attempts_limit: fields
                .optional::<Whole>("max_attempts_limit")
                .map(|limit| limit.cut(u32::MAX)),
            refused: match fields.or("refused", RefusedChoice::Unprocessed) {
                RefusedChoice::Unprocessed => RefusedStream::Unprocessed,
                RefusedChoice::Ambiguous => RefusedStream::Ambiguous,
            },
        };
        fields.finish();
        options
    }

    fn replay(&self) -> ReplayBodyLayer {
        let mut layer = ReplayBodyLayer::new();
        if let Some(bytes) = self.per_rpc_buffer {
            layer = layer.bytes_per_call(bytes);
        }
        if let Some(bytes) = self.buffer {
            layer = layer.budget(BufferBudget::new(bytes));
        }
        layer
    }
}

/// Reads the service config, if there is one.
pub(super) fn service_config(
    fields: &mut Fields,
    setup: &Setup,
    channel: &ChannelOptions,
) -> Result<Option<Arc<ServiceConfig>>, Faults> {
    let mut options = Options::new()
        .randomness(setup.randomness.clone())
        .on_deadline(setup.on_deadline_or_cap())
        .retries(channel.enable_retries)
        .log_warnings(false);
    if let Some(limit) = channel.max_attempts_limit {
        // A limit of one means one attempt.
        options.max_attempts_limit = limit.max(1);
    }
    let Some(text) = fields.text("service_config") else {
        return Ok(None);
    };
    let config = ServiceConfig::parse_with(&text, &options)?;
    for warning in config.warnings() {
        // Advice on a valid config is the task of `reattempt check`.
        if warning.is_advice() {
            tracing::info!("service config: {warning}");
        } else {
            fields.warn(format_args!("service config: {warning}"));
        }
    }
    Ok(Some(Arc::new(config)))
}

/// The layers around one server.
pub(super) fn stack(
    setup: &Setup,
    transport: Transport<ReplayBody<LimitedRequestBody<Payloads>>>,
    config: Option<Arc<ServiceConfig>>,
    options: &ChannelOptions,
) -> Stack {
    // A6: without a policy only requests that the server application never saw are retried.
    let classifier = GrpcClassifier::new()
        .retryable(CodeSet::EMPTY)
        .refused(options.refused);
    let no_policy = MaxAttempts::new(1, Backoff::constant(Duration::ZERO))
        .on_deadline(setup.on_deadline_or_cap());
    let observer = Arc::new(JournalObserver);
    let transparent = options.enable_retries;
    let policies = move |request: &Request<Payloads>| config.as_ref()?.route(request);
    let service = ServiceBuilder::new()
        .layer(RouteLayer::new(policies))
        .layer(GrpcTimeoutLayer)
        .layer(DeadlineLayer::no_timeout().on_elapsed(AsGrpcStatus))
        .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
        .layer(MessageLimitLayer::new())
        .layer(options.replay())
        .layer(
            RetryLayer::new(classifier, no_policy)
                .transparent(transparent)
                .observer(observer.clone()),
        )
        .layer(
            HedgeLayer::by_policy(classifier)
                .transparent(transparent)
                .observer(observer),
        )
        .layer(JournalLayer)
        .layer(WaitForReadyLayer::new().randomness(setup.randomness.clone()))
        .layer(PreviousAttemptsLayer)
        .layer(PushbackLayer::new(GrpcPushback))
        .layer(GrpcOutcomeLayer::new())
        .service(transport);
    BoxCloneSyncService::new(service)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use reattempt::backoff::Randomness;
    use serde_json::json;

    use super::*;
    use crate::call::document::Document;
    use crate::call::grpc::Refused;
    use crate::call::schedule::Caller as _;

    #[tokio::test]
    async fn waiting_for_readiness_draws_from_the_documents_seed() {
        // Bound, so that no one else listens there, and refused.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let document = json!({
            "target": socket.local_addr().unwrap().to_string(),
            "calls": [{"method": "/a.B/C", "wait_for_ready": true, "timeout_ms": 200}],
        });
        let mut document = Document::parse(document.to_string().as_bytes());
        let draws = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&draws);
        document.setup.randomness = Randomness::drawn(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            0.5
        });
        let mut plan = crate::call::grpc::plan(document, Refused::PerCall).unwrap();
        let (head, call) = plan.calls.remove(0);
        let answer = plan.caller.call(head, call).await;
        assert_eq!(answer.stopped, Some("deadline"), "{answer:?}");
        assert!(draws.load(Ordering::Relaxed) > 0);
    }
}

//! The layers of a gRPC channel, in their documented order.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use reattempt::backoff::Backoff;
use reattempt::observe::LogObserver;
use reattempt::strategy::Attempts;
use reattempt::{DeadlineLayer, HedgeLayer, PushbackLayer, RetryLayer, RouteLayer};
use reattempt_grpc::{
    AsGrpcStatus, CodeSet, GrpcClassifier, GrpcOutcomeBody, GrpcOutcomeLayer, GrpcPushback,
    GrpcTimeoutLayer, PreviousAttemptsLayer,
};
use reattempt_http::body::{BufferBudget, DeadlineBody, DeadlineBodyLayer, ReplayBodyLayer};
use serde_json::Value;
use tower::ServiceBuilder;
use tower::util::BoxCloneSyncService;

use super::payloads::Payloads;
use crate::call::attempts::{JournalLayer, JournalObserver};
use crate::call::document::{Fault, Fields, Setup};
use crate::call::transport::{AnswerBody, Transport, TransportError, Version};

type ResponseBody = DeadlineBody<GrpcOutcomeBody<AnswerBody>, AsGrpcStatus>;
pub(super) type Stack =
    BoxCloneSyncService<Request<Payloads>, Response<ResponseBody>, TransportError>;

/// The options of a channel that A6 leaves to the client.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChannelOptions {
    enable_retries: bool,
    per_rpc_buffer: Option<usize>,
    buffer: Option<usize>,
    max_attempts_limit: Option<u32>,
}

impl ChannelOptions {
    pub(super) fn read(mut fields: Fields) -> Result<Self, Fault> {
        let options = Self {
            enable_retries: fields.or("enable_retries", true)?,
            per_rpc_buffer: fields.optional("per_rpc_retry_buffer_size")?,
            buffer: fields.optional("retry_buffer_size")?,
            max_attempts_limit: fields.optional("max_attempts_limit")?,
        };
        fields.finish();
        Ok(options)
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

/// The stack of layers, or why the service config cannot be used.
pub(super) fn stack(
    setup: &Setup,
    authority: &str,
    config: Option<Value>,
    options: &ChannelOptions,
) -> Result<Stack, String> {
    // A6: without a policy nothing is retried but what the server's application never saw.
    let classifier = GrpcClassifier::new().retryable(CodeSet::EMPTY);
    let no_policy = Attempts::new(1, Backoff::constant(Duration::ZERO)).on_deadline(setup.on_deadline);
    let observer = Arc::new((LogObserver, JournalObserver));
    let transparent = options.enable_retries;
    let service = ServiceBuilder::new()
        .layer(RouteLayer::new(|_: &Request<Payloads>| None))
        .layer(GrpcTimeoutLayer)
        .layer(DeadlineLayer::unlimited().on_elapsed(AsGrpcStatus))
        .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
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
        .layer(PreviousAttemptsLayer)
        .layer(PushbackLayer::new(GrpcPushback))
        .layer(GrpcOutcomeLayer::new())
        .layer(JournalLayer)
        .service(Transport::new(authority, Version::Http2));
    Ok(BoxCloneSyncService::new(service))
}

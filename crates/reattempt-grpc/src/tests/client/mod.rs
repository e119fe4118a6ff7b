//! `GrpcClientLayer` beside the single layers in the documented order, on paused time.

mod case;
mod decisions;
mod health;
mod telemetry;
mod types;

use reattempt::AttemptRecord;
use tonic::Status as TonicStatus;
use tonic::body::Body as TonicBody;
use tower_layer::Layer;

use super::*;

/// The scripted server below tonic's body type, which reads each request to its end.
#[derive(Clone)]
struct Wire {
    server: Server,
    bodies: Arc<Mutex<Vec<Bytes>>>,
}

impl Wire {
    fn new(script: &[Step]) -> Self {
        Self {
            server: Server::new(script),
            bodies: Arc::default(),
        }
    }

    fn channel(
        &self,
    ) -> impl Service<Request<TonicBody>, Response = Response<Body>, Error = Broken, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static
    + use<> {
        let wire = self.clone();
        service_fn(move |request: Request<TonicBody>| {
            let wire = wire.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await;
                let body = body.map_err(|_| Broken(TransportFault::RequestFailed))?;
                wire.bodies.lock().unwrap().push(body.to_bytes());
                wire.server.attempt(Request::from_parts(head, ())).await
            }
        })
    }
}

/// What the layers can be told besides the service config.
#[derive(Clone, Default)]
struct Settings {
    timeout: Option<Duration>,
    classifier: GrpcClassifier,
    intransparent: bool,
    bodies: ReplayBodyLayer,
    messages: MessageLimitLayer,
}

impl Settings {
    fn preset(&self, config: ServiceConfig) -> GrpcClientLayer<ServiceConfig> {
        let layer = GrpcClientLayer::new(config)
            .classifier(self.classifier)
            .transparent(!self.intransparent)
            .bodies(self.bodies.clone())
            .message_limits(self.messages)
            .wait_for_ready(waiting());
        match self.timeout {
            Some(timeout) => layer.timeout(timeout),
            None => layer,
        }
    }

    /// As docs/layer-order.md has them.
    fn singles(&self, config: ServiceConfig, channel: impl Channel) -> impl Client {
        let deadline = self
            .timeout
            .map_or(DeadlineLayer::no_timeout(), DeadlineLayer::new);
        ServiceBuilder::new()
            .layer(TonicStatusLayer)
            .layer(RouteLayer::new(config))
            .layer(GrpcTimeoutLayer)
            .layer(deadline.on_elapsed(AsGrpcStatus))
            .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
            .layer(self.messages)
            .layer(self.bodies.clone())
            .layer(RetryLayer::by_policy(self.classifier).transparent(!self.intransparent))
            .layer(HedgeLayer::by_policy(self.classifier).transparent(!self.intransparent))
            .layer(waiting())
            .layer(PreviousAttemptsLayer)
            .layer(PushbackLayer::new(GrpcPushback))
            .layer(GrpcOutcomeLayer::new())
            .map_request(|request: Request<_>| request.map(TonicBody::new))
            .service(channel)
    }
}

/// Without randomness, so that two runs can be compared.
fn waiting() -> WaitForReadyLayer {
    WaitForReadyLayer::new().backoff(Backoff::constant(Duration::from_millis(100)))
}

/// What stands below the layers.
trait Channel:
    Service<Request<TonicBody>, Response = Response<Body>, Error = Broken, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<T> Channel for T where
    T: Service<Request<TonicBody>, Response = Response<Body>, Error = Broken, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// What a generated client needs.
trait Client:
    Service<
        Request<TonicBody>,
        Response = Response<Self::Answer>,
        Error = TonicStatus,
        Future: Send,
    > + Clone
    + Send
    + Sync
{
    type Answer: http_body::Body<Data = Bytes, Error = TonicStatus> + Send;
}

impl<T, B> Client for T
where
    T: Service<Request<TonicBody>, Response = Response<B>, Error = TonicStatus, Future: Send>
        + Clone
        + Send
        + Sync,
    B: http_body::Body<Data = Bytes, Error = TonicStatus> + Send,
{
    type Answer = B;
}

/// A request of one message of this many bytes.
fn message(length: usize) -> Request<TonicBody> {
    let mut bytes = vec![0];
    bytes.extend((length as u32).to_be_bytes());
    bytes.extend(std::iter::repeat_n(b'm', length));
    let body = TonicBody::new(Full::<Bytes>::from(bytes));
    Request::post("http://h/shop.Cart/Add").body(body).unwrap()
}

/// How one call ended for its caller, who reads the response to the end.
#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    code: Code,
    /// Of the head, or of an error's status.
    metadata: HeaderMap,
    text: String,
    data: Bytes,
    trailers: Option<HeaderMap>,
    attempts: u32,
    stopped: Option<StopReason>,
    /// All but their absolute times, which differ between two runs.
    records: Vec<AttemptRecord>,
    told: String,
    ended_ms: u128,
}

async fn outcome<C: Client>(client: C, began: Instant, mut request: Request<TonicBody>) -> Outcome {
    let watch = RetryInfo::track(&mut request);
    let mut outcome = Outcome {
        code: Code::Ok,
        metadata: HeaderMap::new(),
        text: String::new(),
        data: Bytes::new(),
        trailers: None,
        attempts: 0,
        stopped: None,
        records: Vec::new(),
        told: String::new(),
        ended_ms: 0,
    };
    let ended = async {
        let (head, body) = client.oneshot(request).await?.into_parts();
        outcome.metadata = head.headers;
        let body = body.collect().await?;
        outcome.trailers = body.trailers().cloned();
        outcome.data = body.to_bytes();
        Ok::<_, TonicStatus>(())
    };
    match ended.await {
        Ok(()) => {
            let of = |headers: &HeaderMap| headers.get(GRPC_STATUS).map(Code::from_header);
            let code = of(&outcome.metadata).or(outcome.trailers.as_ref().and_then(of));
            outcome.code = code.unwrap_or(Code::Unknown);
        }
        Err(status) => {
            outcome.code = Code::from(status.code() as i32);
            status.message().clone_into(&mut outcome.text);
        }
    }
    let info = watch.info();
    outcome.attempts = info.attempts();
    outcome.stopped = info.stopped();
    outcome.records = info.records().cloned().collect();
    for record in &mut outcome.records {
        record.ended = None;
    }
    outcome.told = format!("{info:#}");
    outcome.ended_ms = began.elapsed().as_millis();
    outcome
}

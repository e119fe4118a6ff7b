//! What users do with the preset's type: spawn it, box it, buffer below it, name it.

use reattempt_http::AnyTransportError;
use tonic::transport::{Channel as TonicChannel, Endpoint};
use tower::util::BoxCloneSyncService;
use tower_layer::{Identity, Stack};

use super::*;
use crate::client::GrpcClient;
use crate::stats::{AttemptStatsLayer, CallStatsLayer, GrpcStats};

fn once_busy() -> Wire {
    Wire::new(&[Status(Code::Unavailable), Late(Code::Ok)])
}

/// Moves the client into a task, where the compiler must prove the call's future `Send`.
async fn works_in_a_task<C: Client<Future: Send> + 'static>(client: C) {
    let began = Instant::now();
    let task = tokio::spawn(outcome(client, began, message(5)));
    let outcome = task.await.unwrap();
    assert_eq!((outcome.code, outcome.attempts), (Code::Ok, 2));
}

#[tokio::test(start_paused = true)]
async fn a_client_can_be_spawned_and_boxed() {
    let layer = GrpcClientLayer::new(retrying(3, "14"));
    works_in_a_task(layer.layer(once_busy().channel())).await;
    let boxed = ServiceBuilder::new()
        .layer(BoxCloneSyncService::layer())
        .map_response(|answer: Response<_>| answer.map(TonicBody::new))
        .layer(layer);
    works_in_a_task(boxed.service(once_busy().channel())).await;
}

/// tower's buffer boxes errors, and a type of one's own can be wrapped.
#[tokio::test(start_paused = true)]
async fn boxed_errors_and_ones_own_need_nothing_and_one_line() {
    #[derive(Debug, thiserror::Error)]
    #[error("a custom transport error")]
    struct Mine(#[source] std::io::Error);

    let layer = GrpcClientLayer::new(retrying(3, "14"));
    let buffered = ServiceBuilder::new()
        .layer(layer.clone())
        .buffer(4)
        .map_err(|_: Broken| std::io::Error::from(std::io::ErrorKind::ConnectionReset));
    let lost = Wire::new(&[Fault(TransportFault::ConnectionReset), Late(Code::Ok)]);
    works_in_a_task(buffered.service(lost.channel())).await;

    let own = ServiceBuilder::new()
        .layer(layer)
        .map_err(AnyTransportError::new)
        .map_err(|_: Broken| Mine(std::io::ErrorKind::ConnectionReset.into()));
    let lost = Wire::new(&[Fault(TransportFault::ConnectionReset), Late(Code::Ok)]);
    works_in_a_task(own.service(lost.channel())).await;
}

/// An application's state, with its types written out.
struct Shop {
    plain: GrpcClient<TonicChannel, LiveServiceConfig>,
    measured: <Measuring as Layer<TonicChannel>>::Service,
}

type Measuring = GrpcClientLayer<
    LiveServiceConfig,
    Stack<Identity, CallStatsLayer>,
    Stack<Identity, AttemptStatsLayer>,
>;

#[tokio::test(start_paused = true)]
async fn the_type_has_a_name() {
    let live = LiveServiceConfig::new(Options::new());
    let channel = Endpoint::from_static("http://[::1]:1").connect_lazy();
    let layer = GrpcClientLayer::new(live);
    let stats = GrpcStats::new((), "static:///shop");
    let shop = Shop {
        plain: layer.layer(channel.clone()),
        measured: layer.stats(&stats).layer(channel),
    };
    fn is_a_channel<S: tonic::client::GrpcService<TonicBody>>(_: &S) {}
    is_a_channel(&shop.plain);
    is_a_channel(&shop.measured);
}

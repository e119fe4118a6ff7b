//! The preset's statistics and spans are those of layers placed by hand.

use super::super::spans::Spans;
use super::super::stats::Measured;
use super::*;
use crate::follow::tests::Said;
use crate::spans::{AttemptSpanLayer, CallSpanLayer};

/// A retried call, one that is hedged, one that fails in the channel, and one that ends at its
/// deadline.
fn scripts() -> [(ServiceConfig, Vec<Step>); 4] {
    let after = |ms, step| After(ms, Box::new(step));
    [
        (
            retrying(3, "14"),
            vec![Status(Code::Unavailable), Message(Code::Ok)],
        ),
        (
            hedging(3, "0.2s", "14"),
            vec![Hangs, after(50, Late(Code::Ok))],
        ),
        (
            retrying(2, "14"),
            vec![
                Fault(TransportFault::StreamRefused),
                Fault(TransportFault::ConnectionReset),
            ],
        ),
        (config(r#""timeout":"0.5s""#), vec![HangsInBody]),
    ]
}

async fn send<C: Client>(client: C, wire: &Wire) {
    outcome(client, wire.server.began, message(5)).await;
}

#[tokio::test(start_paused = true)]
async fn stats_are_those_of_layers_placed_by_hand() {
    for (config, script) in scripts() {
        let (preset, by_hand) = (Measured::new(), Measured::new());
        let wire = Wire::new(&script);
        let layer = GrpcClientLayer::new(config.clone()).stats(&preset.stats);
        send(layer.layer(wire.channel()), &wire).await;

        let stats = &by_hand.stats;
        let wire = Wire::new(&script);
        let client = ServiceBuilder::new()
            .layer(stats.call_layer())
            .layer(TonicStatusLayer)
            .layer(RouteLayer::new(config))
            .layer(GrpcTimeoutLayer)
            .layer(DeadlineLayer::no_timeout().on_elapsed(AsGrpcStatus))
            .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
            .layer(MessageLimitLayer::new())
            .layer(ReplayBodyLayer::new())
            .layer(RetryLayer::by_policy(GrpcClassifier::new()).observer(stats.observer()))
            .layer(HedgeLayer::by_policy(GrpcClassifier::new()).observer(stats.observer()))
            .layer(waiting())
            .layer(PreviousAttemptsLayer)
            .layer(PushbackLayer::new(GrpcPushback))
            .layer(stats.attempt_layer())
            .layer(GrpcOutcomeLayer::new())
            .map_request(|request: Request<_>| request.map(TonicBody::new))
            .service(wire.channel());
        send(client, &wire).await;

        let measured = preset.all();
        assert!(measured.len() > 4, "{measured:?}");
        assert_eq!(measured, by_hand.all());
        assert_eq!(preset.retries(), by_hand.retries());
    }
}

/// As a generated client without an origin makes its requests.
fn without_host() -> Request<TonicBody> {
    let mut request = message(5);
    *request.uri_mut() = "/shop.Cart/Add".parse().unwrap();
    request
}

#[tokio::test(start_paused = true)]
async fn the_name_of_the_client_is_the_host_in_the_log() {
    for config in [retrying(2, "14"), hedging(2, "0.2s", "14")] {
        let (said, _guard) = Said::follow();
        let wire = Wire::new(&[Status(Code::Unavailable), Status(Code::Unavailable)]);
        let layer = GrpcClientLayer::new(config).named("shop");
        let client = layer.stats(&Measured::new().stats).layer(wire.channel());
        outcome(client, wire.server.began, without_host()).await;
        let told = said.events();
        assert!(
            told.iter()
                .any(|(_, event)| event.starts_with("WARN") && event.contains("host=\"shop\"")),
            "{told:?}"
        );
    }
}

/// Their fields, times and events. Each decision is logged once, with an observer too.
#[tokio::test(start_paused = true)]
async fn spans_are_those_of_layers_placed_by_hand() {
    for (config, script) in scripts() {
        let (preset, guard) = Spans::follow();
        let wire = Wire::new(&script);
        let layer = GrpcClientLayer::new(config.clone());
        let layer = layer.stats(&Measured::new().stats).spans();
        send(layer.layer(wire.channel()), &wire).await;
        drop(guard);

        let (by_hand, guard) = Spans::follow();
        let wire = Wire::new(&script);
        let client = ServiceBuilder::new()
            .layer(CallSpanLayer::new())
            .layer(TonicStatusLayer)
            .layer(RouteLayer::new(config))
            .layer(GrpcTimeoutLayer)
            .layer(DeadlineLayer::no_timeout().on_elapsed(AsGrpcStatus))
            .layer(DeadlineBodyLayer::new().on_elapsed(AsGrpcStatus))
            .layer(MessageLimitLayer::new())
            .layer(ReplayBodyLayer::new())
            .layer(RetryLayer::by_policy(GrpcClassifier::new()))
            .layer(HedgeLayer::by_policy(GrpcClassifier::new()))
            .layer(waiting())
            .layer(PreviousAttemptsLayer)
            .layer(PushbackLayer::new(GrpcPushback))
            .layer(AttemptSpanLayer::new())
            .layer(GrpcOutcomeLayer::new())
            .map_request(|request: Request<_>| request.map(TonicBody::new))
            .service(wire.channel());
        send(client, &wire).await;
        drop(guard);

        assert!(preset.seen().len() > 1);
        assert_eq!(preset.seen(), by_hand.seen());
    }
}

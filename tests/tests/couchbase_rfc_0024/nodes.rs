//! The node a request was sent to, if it is not the one in the configuration in force; nodes as
//! services.

use std::collections::HashMap;

use reattempt::strategy::BestEffort;
use reattempt::{Call, ConfigPollLayer, DeadlineLayer, RetryInfo, RetryLayer};
use reattempt_couchbase::cluster_config::Service;
use reattempt_couchbase::kv::stamp_idempotency;
use reattempt_couchbase::{KvClassifier, Network, StaleKvConfig};
use reattempt_testbed::kv::client::NodeClient;
use reattempt_testbed::kv::node::SeenRequest;
use reattempt_testbed::report::ReportLayer;
use reattempt_tests::kv::{PATIENCE, seeds};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

use super::*;

/// C48, C51: with a fast-forward map the node that failed is not the vbucket's owner.
#[tokio::test]
async fn after_a_fast_forward_the_node_that_failed_is_not_asked() {
    for _ in 0..6 {
        let (cluster, client, key) = three_nodes().await;
        cluster.begin_rebalance(0, 1);
        // The configuration with the fast-forward map arrives with the rejection.
        cluster.node(0).script().push(Step::not_my_vbucket());
        assert_eq!(client.call(KvRequest::get(key.clone())).await.value(), "v");
        cluster.hand_over();
        let moved = client.call(KvRequest::get(key.clone())).await;
        assert_eq!(moved.value(), "v");
        let options = never_polls().floor(Duration::from_secs(60));
        let (poller, fetches) = poller(&cluster, &client, options);
        let client = client.config_poll(&poller);
        let polls = |node: usize| {
            let seen = cluster.node(node).seen().into_iter();
            let poll = |seen: &SeenRequest| {
                seen.opcode == opcode::GET_CLUSTER_CONFIG && !seen.extras.is_empty()
            };
            seen.filter(poll).count()
        };
        cluster.node(1).script().push(Step::close_before());
        assert_eq!(client.call(KvRequest::get(key)).await.value(), "v");
        until(|| (0..3).map(polls).sum::<usize>() == 1).await;
        assert_eq!((polls(1), fetches.count()), (0, 1));
    }
}

/// C33, C48: with the layer around each node's service, and a router over these below the recovery
/// layer.
#[tokio::test]
async fn each_node_may_be_a_service_of_its_own() {
    let (cluster, client, key) = three_nodes().await;
    let (poller, fetches) = poller(&cluster, &client, never_polls());
    let node = |address: String| {
        let service = ServiceBuilder::new()
            .layer(ConfigPollLayer::new(StaleKvConfig::new(poller.clone())))
            .layer(ReportLayer::new(kv::report))
            .layer(kv::StageLayer::new())
            .service(NodeClient::new(address.clone(), client.options.clone()));
        (address, service)
    };
    let nodes: HashMap<_, _> = seeds(&cluster).into_iter().map(node).collect();
    let store = client.store.clone();
    let router = service_fn(move |mut call: Call<KvRequest>| {
        let config = store.load().expect("a configuration");
        let route = config.route(&call.request.key).expect("vbuckets");
        call.request.vbucket = Some(route.vbucket);
        let owner = &config.nodes()[route.node.expect("an owner")];
        let address = owner.address(Service::Kv, false, &Network::Default);
        let address = address.expect("a port").to_string();
        nodes[&address].clone().oneshot(call)
    });
    let stack = ServiceBuilder::new()
        .layer(DeadlineLayer::new(PATIENCE))
        .map_err(BoxError::from)
        .layer(RetryLayer::new(KvClassifier::new(), BestEffort::new()))
        .service(router);
    let get = || {
        let mut call = Call::new(KvRequest::get(key.clone()));
        stamp_idempotency(&mut call);
        let watch = RetryInfo::track(&mut call);
        let answer = stack.clone().oneshot(call);
        async move {
            let answer = within(answer).await.expect("an answer");
            assert_eq!(answer.value, "v");
            (answer.node, watch.info())
        }
    };
    let address = |node: usize| cluster.node(node).addr().to_string();
    let (node, info) = get().await;
    assert_eq!((&*node, info.attempts()), (&*address(0), 1));
    // The response carries the configuration.
    cluster.move_vbuckets(0, 1);
    let (node, info) = get().await;
    assert_eq!((&*node, info.attempts()), (&*address(1), 2));
    assert_eq!(info.reasons().collect::<Vec<_>>(), [KV_NOT_MY_VBUCKET]);
    assert_eq!((fetches.count(), rev(&client)), (0, Some((1, 2))));
    // Another node has it.
    cluster.fail_over(1).await;
    let (node, info) = get().await;
    let owner = cluster.owner_of(key.as_bytes()).expect("an owner");
    assert_eq!(*node, *address(owner));
    assert!(info.attempts() >= 2);
    assert_eq!(rev(&client), Some((1, 3)));
    assert!(fetches.count() >= 1);
}

//! Rules added after 2022, as options: codes, overload, retargeting, writes that were not
//! performed.

use super::*;
use reattempt::backoff::Randomness;
use reattempt::{DeadlineLayer, Elapsed, HasCallContext, StopReason};
use reattempt_mongodb::Deprioritized;
use reattempt_mongodb::reasons::MONGODB_SYSTEM_OVERLOADED;
use reattempt_testbed::mongodb::client::{ConnectionString, TopologyKind};
use reattempt_testbed::mongodb::node::Role;
use tower::BoxError;

/// The server's own overload error, with a base of 10 ms.
fn busy() -> Step {
    Step::error(462, "IngressRequestRateLimitExceeded")
        .label("SystemOverloadedError")
        .label("RetryableError")
        .with("baseBackoffMS", 10)
}

/// The rules of 2026 around a client; jitter covers the whole delay.
struct Current {
    gate: RetryReads,
    strategy: RetryableReads,
    deprioritized: Deprioritized,
    limit: Option<Duration>,
}

impl Current {
    fn new() -> Self {
        let strategy = RetryableReads::current().randomness(Randomness::Fixed(1.0));
        Self {
            gate: RetryReads::with_strategy(true, strategy.clone()),
            strategy,
            deprioritized: Deprioritized::current(),
            limit: None,
        }
    }

    async fn call(
        &self,
        client: &Client,
        request: MongoRequest,
    ) -> (Result<MongoReply, BoxError>, RetryInfo) {
        let (deprioritized, topology) = (self.deprioritized, client.topology().clone());
        let limit = self
            .limit
            .map_or_else(DeadlineLayer::unlimited, DeadlineLayer::new);
        let service = ServiceBuilder::new()
            .layer(RouteLayer::new(self.gate.clone()))
            .layer(limit)
            .map_err(BoxError::from)
            .layer(RetryLayer::new(
                MongoClassifier::current(),
                self.strategy.clone(),
            ))
            .map_request(move |mut call: Call<MongoRequest>| {
                let sharded = topology.description().kind == TopologyKind::Sharded;
                if let Some(context) = call.context() {
                    let avoid = deprioritized.servers(context, sharded);
                    call.request.avoid = avoid.iter().map(ToString::to_string).collect();
                }
                call
            })
            .layer(ReportLayer::new(mongodb::report))
            .layer(UncallLayer::new())
            .service(client.clone());
        let mut call = Call::new(request);
        let watch = RetryInfo::track(&mut call);
        let outcome = within(service.oneshot(call)).await;
        (outcome, watch.info())
    }
}

fn code(outcome: &Result<MongoReply, BoxError>) -> Option<i64> {
    let error = outcome.as_ref().err()?;
    error.downcast_ref::<MongoError>()?.code()
}

fn delays(info: &RetryInfo) -> Vec<u128> {
    let delays = info.records().filter_map(|record| record.delay);
    delays.map(|delay| delay.as_millis()).collect()
}

/// M4: the codes of 2023, and the older ones too.
#[tokio::test]
async fn the_codes_of_2023_are_retried() {
    for n in [134, 262, 189] {
        let node = node().await;
        node.script().on("find", Step::code(n));
        let (reply, info) = Current::new()
            .call(&Client::new(options(&node)), find())
            .await;
        assert_eq!((reply.expect("a reply").count(), info.attempts()), (3, 2));
    }
}

#[tokio::test]
async fn an_overloaded_server_is_asked_twice_more_with_its_own_base() {
    let node = node().await;
    let client = Client::new(options(&node));
    for _ in 0..3 {
        node.script().on("find", busy());
    }
    let (refused, info) = Current::new().call(&client, find()).await;
    assert_eq!(code(&refused), Some(462));
    assert_eq!((info.attempts(), delays(&info)), (3, vec![20, 40]));
    assert_eq!(info.stopped(), Some(StopReason::Attempts));
    assert_eq!(info.count(MONGODB_SYSTEM_OVERLOADED), 3);
    assert_eq!(node.seen_named("find").len(), 3);
}

/// Both labels are needed; the rules of 2022 ignore them.
#[tokio::test]
async fn without_both_labels_or_by_the_rules_of_2022_it_is_final() {
    let node = node().await;
    let client = Client::new(options(&node));
    for label in ["SystemOverloadedError", "RetryableError"] {
        node.script().on(
            "find",
            Step::error(462, "IngressRequestRateLimitExceeded").label(label),
        );
        let (refused, info) = Current::new().call(&client, find()).await;
        assert_eq!((code(&refused), info.attempts()), (Some(462), 1));
    }
    node.script().on("find", busy());
    let (refused, info) = call(&client, find()).await;
    assert_eq!((refused.is_err(), info.attempts()), (true, 1));
}

/// M19, M14: under overload also operations that are otherwise sent once, within the two options.
#[tokio::test]
async fn under_overload_writes_and_commands_are_sent_again() {
    let node = node().await;
    let client = Client::new(options(&node));
    let insert = || MongoRequest::insert_one("db", "c", doc! { "x": 1 });
    let ping = || MongoRequest::run_command("db", doc! { "ping": 1 });
    node.script().on("insert", busy()).on("ping", busy());
    for request in [insert(), ping()] {
        let (reply, info) = Current::new().call(&client, request).await;
        reply.expect("a reply");
        assert_eq!(info.attempts(), 2);
    }
    node.script().on("insert", busy()).on("ping", busy());
    let mut current = Current::new();
    current.gate = current.gate.retry_writes(false);
    for request in [insert(), ping()] {
        let (refused, info) = current.call(&client, request).await;
        assert_eq!((code(&refused), info.attempts()), (Some(462), 1));
    }
    node.script().on("insert", Step::code(189));
    let (refused, info) = Current::new().call(&client, insert()).await;
    assert_eq!(
        (code(&refused), info.attempts()),
        (Some(189), 1),
        "for no other error"
    );
}

/// A delay that would pass the deadline is not started; a shorter one is.
#[tokio::test]
async fn a_backoff_beyond_the_deadline_raises_the_servers_error() {
    let node = node().await;
    let client = Client::new(options(&node));
    node.script()
        .on("find", busy().with("baseBackoffMS", 60_000));
    let mut current = Current::new();
    current.limit = Some(Duration::from_secs(9));
    let (refused, info) = current.call(&client, find()).await;
    assert!(refused.as_ref().is_err_and(|error| !error.is::<Elapsed>()));
    assert_eq!(
        (code(&refused), info.stopped()),
        (Some(462), Some(StopReason::Deadline))
    );
}

/// E7: in a sharded cluster the failed mongos is avoided, after any failure.
#[tokio::test]
async fn in_a_sharded_cluster_the_other_mongos_is_asked() {
    let store = Store::new();
    fill(&store);
    let mongos = || Node::builder().role(Role::Mongos).store(&store);
    let nodes = [
        mongos().start().await.expect("a node"),
        mongos().start().await.expect("a node"),
    ];
    let client = Client::new(ClientOptions::new(nodes.iter().map(Node::address)));
    for _ in 0..8 {
        for node in &nodes {
            node.script().clear();
            node.script().on("find", Step::code(6));
        }
        let (refused, info) = Current::new().call(&client, find()).await;
        assert_eq!(code(&refused), Some(6));
        let asked: Vec<_> = info.records().filter_map(|r| r.backend.clone()).collect();
        assert_ne!(asked[0], asked[1]);
    }
}

/// E11: it is used again if it is the only one.
#[tokio::test]
async fn a_single_overloaded_server_is_asked_again() {
    let node = node().await;
    node.script().on("find", busy());
    let mut current = Current::new();
    current.deprioritized = current.deprioritized.overload_retargeting(true);
    let (reply, info) = current.call(&Client::new(options(&node)), find()).await;
    assert_eq!((reply.expect("a reply").count(), info.attempts()), (3, 2));
}

/// M11: the option has its own name in a connection string, and is on by default.
#[tokio::test]
async fn the_connection_string_switches_retries_off() {
    let name = reattempt_mongodb::RETRY_READS;
    for (value, sent) in [("", 2), ("true", 2), ("false", 1)] {
        let node = node().await;
        node.script().on("find", Step::code(189));
        let uri = if value.is_empty() {
            format!("mongodb://{}/", node.address())
        } else {
            format!("mongodb://{}/?{name}={value}", node.address())
        };
        let settings: ConnectionString = uri.parse().expect("a connection string");
        let gate = RetryReads::new(settings.retry_reads);
        let (_, info) = call_with(gate, &Client::new(settings.options), find()).await;
        assert_eq!(info.attempts(), sent, "{uri}");
    }
}

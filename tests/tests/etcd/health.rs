//! Reads while one of three members is stopped: it accepts connections and never answers.

use std::time::Duration;

use http::{Request, Response};
use reattempt::backends::{Backends, RoundRobin};
use reattempt::health::HealthPolicy;
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_grpc::{GrpcClassifier, GrpcPushback};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::body::Body;
use tower::{BoxError, Service};

use crate::client::channel;
use crate::cluster::Cluster;
use crate::messages::{RangeRequest, RangeResponse};
use crate::stack::Stack;
use reattempt_tests::within;

const HEDGED: &str = r#"{"methodConfig": [{
    "name": [{"service": "etcdserverpb.KV", "method": "Range"}],
    "timeout": "30s",
    "hedgingPolicy": {
        "maxAttempts": 3, "hedgingDelay": "0.05s", "nonFatalStatusCodes": ["UNAVAILABLE"]
    }
}]}"#;

const CALLERS: usize = 10;
const READS: usize = 400;

/// What reads took, in order, and how many of them asked this member.
async fn reads<S>(name: &str, backends: S, member: u16) -> (Vec<Duration>, usize)
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError> + 'static,
    S::Future: Send,
{
    let config = ServiceConfig::parse(HEDGED).expect("a service config");
    let stack = Stack::new(config, backends);
    let member = member.to_string();
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (stack, member) = (stack.clone(), member.clone());
        callers.spawn(async move {
            let mut seen = Vec::with_capacity(READS);
            for _ in 0..READS {
                let message = RangeRequest {
                    key: "key".into(),
                    range_end: Vec::new(),
                };
                #[allow(clippy::disallowed_methods, reason = "the time is printed")]
                let began = Instant::now();
                let (answer, info) = stack
                    .call::<_, RangeResponse>("/etcdserverpb.KV/Range", message)
                    .await;
                assert!(answer.is_ok(), "a read is lost: {info:#}");
                let mut asked = info.records().filter_map(|record| record.backend.clone());
                seen.push((began.elapsed(), asked.any(|asked| asked.as_str() == member)));
            }
            seen
        });
    }
    let seen: Vec<_> = within(callers.join_all()).await.concat();
    let asked = seen.iter().filter(|(_, asked)| *asked).count();
    let mut took: Vec<_> = seen.into_iter().map(|(took, _)| took).collect();
    took.sort();
    let quantile = |share: f64| took[(took.len() as f64 * share) as usize];
    println!(
        "{name}: p50 {:?}, p99 {:?}, p99.9 {:?}; {asked} of {} asked the stopped member",
        quantile(0.5),
        quantile(0.99),
        quantile(0.999),
        took.len(),
    );
    (took, asked)
}

/// Times are printed, because they depend on the machine's load.
#[tokio::test]
async fn few_reads_ask_a_stopped_member() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let ports = cluster.ports();
    let limit = Duration::from_millis(1500);
    let channels = || ports.map(|port| (port.to_string(), channel(port, limit)));
    let in_turn = RoundRobin::new(channels()).expect("three");
    let healthy = Backends::new(channels(), HealthPolicy::standard(), GrpcClassifier::new())
        .pushback(GrpcPushback);
    let stopped = (cluster.leader().await + 1) % 3;
    // Connections exist before the member is stopped.
    reads("in turn, before", in_turn.clone(), ports[stopped]).await;
    reads("with health, before", healthy.clone(), ports[stopped]).await;
    cluster.stop(stopped);
    let (all, without) = reads("in turn", in_turn, ports[stopped]).await;
    let (_, with) = reads("with health", healthy.clone(), ports[stopped]).await;
    cluster.go_on(stopped);
    assert!(without > all.len() / 4, "{without} reads without health");
    assert!(
        with <= all.len() / 100,
        "{with} of {} reads with health",
        all.len()
    );
}

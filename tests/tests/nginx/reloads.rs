//! Many calls over four streams while nginx ends connections, every hundred requests and at each
//! reload. The calls that wait for a free stream then are met by a GOAWAY as those in flight are.

use std::collections::HashMap;
use std::future::Future;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use prost::Message as _;
use reattempt::{Failure, RetryInfo, Stage};
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_testbed::{grpc, http as testbed};
use reattempt_tests::nginx::{FOUR_STREAMS, Nginx};
use tokio::task::JoinSet;
use tonic::transport::Endpoint;

use crate::client::Client;
use crate::stack::Stack;

/// How many calls are out at once, where four have a stream and the others wait.
const CALLERS: usize = 16;
const READS: usize = 10_000;
const WRITES: usize = 5_000;

/// The name of the call, whether it was answered well, and how that came about.
type Ended = (String, bool, RetryInfo);

/// Makes calls by number, sixteen at a time.
async fn calls<F>(count: usize, call: impl Fn(usize) -> F + Clone + Send + 'static) -> Vec<Ended>
where
    F: Future<Output = Ended> + Send,
{
    let begun = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (begun, call) = (Arc::clone(&begun), call.clone());
        callers.spawn(async move {
            let mut ended = Vec::new();
            loop {
                let number = begun.fetch_add(1, Ordering::SeqCst);
                if number >= count {
                    break ended;
                }
                ended.push(call(number).await);
            }
        });
    }
    callers.join_all().await.concat()
}

/// Prints what became of the calls, and holds that some were met by a GOAWAY. Gives the lost ones.
fn lost<'a>(client: &str, ended: &'a [Ended]) -> Vec<&'a Ended> {
    let lost: Vec<_> = ended.iter().filter(|(_, answered, _)| !answered).collect();
    let infos = ended.iter().map(|(_, _, info)| info);
    let again = infos.clone().filter(|info| info.attempts() > 1).count();
    let most = infos.map(RetryInfo::retries).max();
    println!(
        "{client}: {} calls, {again} sent again (up to {} times that count), {} lost",
        ended.len(),
        most.unwrap_or_default(),
        lost.len()
    );
    assert!(again > 0, "some were met by a GOAWAY");
    lost
}

/// How often the server may have done a call that ended so.
fn may_be_done((_, answered, info): &Ended) -> RangeInclusive<usize> {
    let mut failures = info.records().map(|record| record.failure);
    let never_sent =
        |failure: Option<Failure>| failure.is_some_and(|failure| failure.stage == Stage::Dispatch);
    if *answered {
        1..=1
    } else if failures.all(never_sent) {
        0..=0
    } else {
        0..=1
    }
}

/// Nothing was done twice, all that was answered was done, and nothing that was never sent. A write
/// may be lost in flight, but few are: nginx answers what it has begun.
fn none_is_doubled(
    client: &str,
    ended: &[Ended],
    done: impl Iterator<Item = String>,
    most_lost: usize,
) {
    let mut times: HashMap<String, usize> = HashMap::new();
    for name in done {
        *times.entry(name).or_default() += 1;
    }
    let lost = lost(client, ended);
    let done = lost.iter().filter(|(name, ..)| times.contains_key(name));
    println!("{client}: {} of the lost were done", done.count());
    for ended in ended {
        let times = times.get(&ended.0).copied().unwrap_or_default();
        assert!(
            may_be_done(ended).contains(&times),
            "{times} times: {ended:?}"
        );
    }
    let at_once = lost.iter().filter(|(.., info)| info.attempts() == 1);
    assert!(at_once.count() <= WRITES / 200, "few are lost in flight");
    assert!(lost.len() <= most_lost, "most writes get through");
}

async fn reads_lose_none(name: &str, client: impl Fn(&Nginx) -> Client) {
    let lines = format!("{FOUR_STREAMS} location / {{ return 200 hello; }}");
    let Some(server) = Nginx::start(&lines).await else {
        return;
    };
    let client = client(&server);
    let reads = calls(READS, move |number| {
        let client = client.clone();
        async move {
            let ended = client.call(Method::GET, "/", "get").await;
            let answered = ended.outcome.is_ok_and(|(status, _)| status == 200);
            (number.to_string(), answered, ended.info)
        }
    });
    let ended = server.reload_during(&lines, reads).await;
    assert!(lost(name, &ended).is_empty());
    let log = server.log();
    let answered = log.iter().filter(|(_, status)| *status == 200).count();
    assert!(answered >= READS, "{answered}");
}

/// nginx has the whole body before it passes a request on, and passes it on once.
async fn writes_double_none(name: &str, client: impl Fn(&Nginx) -> Client) {
    let options = testbed::Options::new().protocol(testbed::Protocol::Http1);
    let step = testbed::Step::status(200);
    let behind = testbed::Server::start_with(options, step).await;
    let behind = behind.expect("a server");
    let lines = format!(
        "{FOUR_STREAMS} location / {{ proxy_pass {}; }}",
        behind.uri()
    );
    let Some(server) = Nginx::start(&lines).await else {
        return;
    };
    let client = client(&server);
    let writes = calls(WRITES, move |number| {
        let client = client.clone();
        async move {
            let path = format!("/{number}");
            let ended = client.call(Method::POST, &path, &path).await;
            let answered = ended.outcome.is_ok_and(|(status, _)| status == 200);
            (path, answered, ended.info)
        }
    });
    let ended = server.reload_during(&lines, writes).await;
    let seen = behind.seen();
    // A head whose body never came is logged too, with another status.
    let (log, passed) = (server.log(), seen.len());
    let whole = log.iter().filter(|(_, status)| *status == 200).count();
    println!(
        "{name}: nginx logged {} heads, {whole} with 200; passed {passed} on",
        log.len()
    );
    assert!(seen.iter().all(|seen| &seen.body[..] == b"apples"));
    none_is_doubled(
        name,
        &ended,
        seen.into_iter().map(|seen| seen.path),
        WRITES / 200,
    );
}

#[tokio::test]
async fn ten_thousand_reads_by_hyper_util_lose_none() {
    reads_lose_none("hyper-util", |server| {
        Client::hyper_util(server.uri(true), true)
    })
    .await;
}

#[tokio::test]
async fn ten_thousand_reads_by_reqwest_lose_none() {
    reads_lose_none("reqwest", |server| Client::reqwest(server.uri(true))).await;
}

#[tokio::test]
async fn writes_by_hyper_util_are_done_at_most_once() {
    writes_double_none("hyper-util", |server| {
        Client::hyper_util(server.uri(true), true)
    })
    .await;
}

#[tokio::test]
async fn writes_by_reqwest_are_done_at_most_once() {
    writes_double_none("reqwest", |server| Client::reqwest(server.uri(true))).await;
}

/// Calls with this config through nginx to a gRPC server, and the messages that it has had.
async fn by_tonic(count: usize, config: &str) -> Option<(Vec<Ended>, Vec<String>)> {
    let behind = grpc::Server::start(grpc::Step::ok("")).await;
    let behind = behind.expect("a server");
    let lines = format!(
        "{FOUR_STREAMS} location / {{ grpc_pass grpc://{}; }}",
        behind.addr()
    );
    let server = Nginx::start(&lines).await?;
    let config = ServiceConfig::parse(config).expect("a service config");
    let endpoint = Endpoint::from_shared(server.uri(true)).expect("an address");
    let stack = Stack::new(config, endpoint.connect_lazy());
    let calls = calls(count, move |number| {
        let stack = stack.clone();
        async move {
            let name = number.to_string();
            let (answer, info) = stack.call::<_, ()>("/shop.Cart/Add", name.clone()).await;
            (name, answer.is_ok(), info)
        }
    });
    let ended = server.reload_during(&lines, calls).await;
    let seen = behind.seen();
    // nginx passes a head on before its body: one alone was not done.
    let done: Vec<_> = seen.iter().flat_map(|seen| &seen.messages).collect();
    println!(
        "tonic: the server saw {} heads, {} messages",
        seen.len(),
        done.len()
    );
    let names = done.iter().map(|message| String::decode(&message[..]));
    Some((ended, names.collect::<Result<_, _>>().expect("names")))
}

/// By a policy: what was in flight, or refused twice, goes out again too. Its delays add up to more
/// than a reload takes on a busy machine.
#[tokio::test]
async fn ten_thousand_calls_by_tonic_lose_none() {
    let config = r#"{"methodConfig": [{"name": [{}], "timeout": "30s", "retryPolicy": {
        "maxAttempts": 5, "initialBackoff": "0.05s", "maxBackoff": "1s",
        "backoffMultiplier": 3, "retryableStatusCodes": ["UNAVAILABLE"]
    }}]}"#;
    if let Some((ended, _)) = by_tonic(READS, config).await {
        assert!(lost("tonic by policy", &ended).is_empty());
    }
}

/// Without a policy: only what was never sent goes out again, and what was refused, once.
#[tokio::test]
async fn calls_by_tonic_without_a_policy_are_done_at_most_once() {
    let config = r#"{"methodConfig": [{"name": [{}], "timeout": "30s"}]}"#;
    if let Some((ended, done)) = by_tonic(WRITES, config).await {
        // Those that were refused on two new connections, which had no limit of streams yet.
        none_is_doubled("tonic", &ended, done.into_iter(), WRITES / 20);
    }
}

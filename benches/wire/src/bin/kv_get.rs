//! Couchbase's GET over loopback: the testbed's cluster client bare, with tower's timeout and
//! retry, and in this stack.
//!
//! `cargo run --release -p reattempt-wire-cost --bin kv_get -- [calls] [rounds] [contender]`, with
//! the number of calls per turn.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use reattempt::strategy::BestEffort;
use reattempt::{
    Call, CallLayer, ConfigPollLayer, DeadlineLayer, PushbackLayer, RetryLayer, UncallLayer,
};
use reattempt_clients::kv::client::{ClientOptions, KvRequest, KvResponse, RoutedClient};
use reattempt_clients::kv::{self, StageLayer};
use reattempt_couchbase::cluster_config::ConfigPollerOptions;
use reattempt_couchbase::kv::attach_idempotency;
use reattempt_couchbase::{
    ConfigPoller, ConfigStore, KvClassifier, KvClientLayer, KvPushback, StaleKvConfig,
};
use reattempt_testbed::kv::Cluster;
use reattempt_wire_cost::{Case, Contest, Figure, ServerProcess};
use tower::retry::budget::{Budget, TpsBudget};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

const KEY: &str = "airline_10";
const LIMIT: Duration = Duration::from_secs(5);

/// One node with one document of 100 bytes.
async fn serve() -> Result<(), BoxError> {
    let cluster = Cluster::start(1).await?;
    cluster.store().put(KEY, "0123456789".repeat(10));
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", cluster.node(0).addr())?;
    stdout.flush()?;
    std::future::pending().await
}

/// A separate client and its routing.
struct Client {
    routed: RoutedClient,
    store: ConfigStore,
}

impl Client {
    async fn of(address: &str) -> Result<Self, BoxError> {
        let store = ConfigStore::new();
        let options = ClientOptions::couchbase("Administrator", "password", "default")
            .on_config(kv::offer_to(store.clone()));
        let routed = RoutedClient::new([address], options, kv::map_of(store.clone()));
        routed.clone().oneshot(KvRequest::get(KEY)).await?;
        Ok(Self { routed, store })
    }

    fn poller(&self) -> ConfigPoller {
        let fetch = kv::fetch_over(self.routed.clone());
        ConfigPoller::spawn(self.store.clone(), fetch, ConfigPollerOptions::new())
    }
}

/// A worker that reads the document repeatedly, one call after another.
fn reads<S, R>(name: &'static str, service: S, request: fn() -> R) -> Case
where
    S: Service<R, Response = KvResponse, Future: Send> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    R: Send + 'static,
{
    Case::new(name, move |calls| {
        let mut service = service.clone();
        async move {
            for _ in 0..calls {
                let ready = service.ready().await.map_err(Into::into).expect("ready");
                let answer = ready.call(request()).await.map_err(Into::into);
                assert!(answer.expect("an answer").is_success(), "a document");
            }
        }
    })
}

fn get() -> KvRequest {
    KvRequest::get(KEY)
}

fn call() -> Call<KvRequest> {
    let mut call = Call::new(get());
    attach_idempotency(&mut call);
    call
}

/// Retries every error while the budget lasts, at most three attempts.
#[derive(Clone, Debug)]
struct RetryErrors {
    budget: Arc<TpsBudget>,
    left: u32,
}

impl tower::retry::Policy<KvRequest, KvResponse, BoxError> for RetryErrors {
    type Future = std::future::Ready<()>;

    fn retry(
        &mut self,
        _: &mut KvRequest,
        result: &mut Result<KvResponse, BoxError>,
    ) -> Option<Self::Future> {
        if result.is_ok() {
            self.budget.deposit();
            return None;
        }
        if self.left == 0 || !self.budget.withdraw() {
            return None;
        }
        self.left -= 1;
        Some(std::future::ready(()))
    }

    fn clone_request(&mut self, request: &KvRequest) -> Option<KvRequest> {
        Some(request.clone())
    }
}

fn retry() -> RetryLayer<KvClassifier> {
    RetryLayer::new(KvClassifier::new(), BestEffort::new())
}

/// The documented stack; `$inner` are the layers next to the client.
macro_rules! stack {
    ($client:expr, [$($inner:expr),*]) => {{
        let client = $client;
        ServiceBuilder::new()
            .layer(DeadlineLayer::new(LIMIT))
            .map_err(BoxError::from)
            .layer(retry())
            .layer(PushbackLayer::new(KvPushback::new()))
            .layer(ConfigPollLayer::new(StaleKvConfig::new(client.poller())))
            $(.layer($inner))*
            .service(client.routed)
    }};
}

/// All contenders, each with its own connection.
async fn cases(address: &str) -> Result<Vec<Case>, BoxError> {
    let towers = {
        let budget = Arc::new(TpsBudget::default());
        ServiceBuilder::new()
            .retry(RetryErrors { budget, left: 2 })
            .timeout(LIMIT)
            .service(Client::of(address).await?.routed)
    };
    let limited = ServiceBuilder::new()
        .layer(CallLayer::new())
        .layer(DeadlineLayer::new(LIMIT))
        .map_err(BoxError::from)
        .layer(UncallLayer::new())
        .service(Client::of(address).await?.routed);
    let retried = ServiceBuilder::new()
        .layer(retry())
        .layer(UncallLayer::new())
        .service(Client::of(address).await?.routed);
    let silent = stack!(Client::of(address).await?, [UncallLayer::new()]);
    let whole = stack!(Client::of(address).await?, [StageLayer::new()]);
    let client = Client::of(address).await?;
    let preset = ServiceBuilder::new()
        .layer(KvClientLayer::new(client.poller()))
        .layer(StageLayer::new())
        .service(client.routed);
    Ok(vec![
        reads("bare client", Client::of(address).await?.routed, get),
        reads("tower retry + timeout", towers, get),
        reads("retry", retried, call),
        reads("deadline", limited, get),
        reads("the stack, without the node", silent, call),
        reads("the whole stack", whole, call),
        reads("the preset", preset, call),
    ])
}

fn number(argument: Option<String>, default: u32) -> Result<u32, BoxError> {
    Ok(argument.map_or(Ok(default), |text| text.parse())?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some("serve") {
        return serve().await;
    }
    let contest = Contest {
        calls: number(first, 4_000)?,
        rounds: number(arguments.next(), 21)?,
    };
    let server = ServerProcess::start()?;
    let mut cases = cases(server.address()).await?;
    if let Some(name) = arguments.next() {
        cases.retain(|case| case.name() == name);
    }
    println!("{}", Figure::HEAD);
    // A single contender is run for profiling.
    let in_flight = if cases.len() > 1 { &[1, 64][..] } else { &[1] };
    for in_flight in in_flight {
        for figure in contest.run(&cases, *in_flight).await {
            println!("{figure}");
        }
    }
    Ok(())
}

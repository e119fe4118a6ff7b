use std::sync::{Arc, Mutex};
use std::time::Duration;

use reattempt::ConfigWaiter;
use reattempt::backoff::Randomness;
use reattempt::config_poll::StaleConfig;
use reattempt::{AttemptDeadlineLayer, Backend, Call, HasCallContext, Stage};
use reattempt::{ConfigPollLayer, RetryLayer, strategy::BestEffort};
use tokio::time::{Instant, sleep, timeout};
use tower::{ServiceBuilder, ServiceExt};

use crate::cluster_config::*;
use crate::kv::{KvClassifier, Opcode, attach_idempotency};
use crate::testing::{Answer, Lost, Request, bucket, config, map, node};

/// Three nodes, all keys on `n1`; every node answers with `fetched`, and polls are recorded.
struct Setup {
    stale: StaleKvConfig,
    store: ConfigStore,
    asked: Arc<Mutex<Vec<Address>>>,
}

impl Setup {
    fn new(fetched: Option<ClusterConfig>) -> Self {
        Self::of_nodes(3, fetched)
    }

    fn of_nodes(nodes: usize, fetched: Option<ClusterConfig>) -> Self {
        let store = ConfigStore::new();
        store.compare_and_swap(config(1, 1, nodes, 0));
        let asked = Arc::<Mutex<Vec<Address>>>::default();
        let log = Arc::clone(&asked);
        let fetch = move |node: Address, _| {
            log.lock().unwrap().push(node);
            let fetched = fetched.clone();
            async move {
                sleep(Duration::from_millis(3)).await;
                Ok(fetched)
            }
        };
        let options = ConfigPollerOptions::new().randomness(Randomness::Fixed(0.0));
        let poller = ConfigPoller::spawn(store.clone(), fetch, options);
        let stale = StaleKvConfig::new(poller);
        Self {
            stale,
            store,
            asked,
        }
    }

    fn check(&self, request: Request, outcome: Result<Answer, Lost>) -> Option<ConfigWaiter> {
        check(&self.stale, request, outcome)
    }

    fn asked(&self) -> Vec<Address> {
        self.asked.lock().unwrap().clone()
    }
}

fn check(
    stale: &StaleKvConfig,
    request: Request,
    outcome: Result<Answer, Lost>,
) -> Option<ConfigWaiter> {
    fn typed<S: StaleConfig<Request, Answer, Lost>>(
        stale: &S,
        request: Request,
        outcome: Result<Answer, Lost>,
    ) -> Option<ConfigWaiter> {
        let note = stale.note(&request);
        stale.check(note, outcome.as_ref())
    }
    typed(stale, request, outcome)
}

/// Whether the waiter releases the request within this time.
async fn goes(waiter: ConfigWaiter, within: Duration) -> bool {
    timeout(within, waiter).await.unwrap_or(false)
}

const SECOND: Duration = Duration::from_secs(1);
const GET: Request = Request::get(b"k");
const NOOP: Request = Request {
    opcode: Opcode::NOOP,
    key: None,
};

/// C33
#[tokio::test(start_paused = true)]
async fn a_body_configuration_is_applied_and_a_moved_key_goes_at_once() {
    let setup = Setup::new(None);
    let start = Instant::now();
    let moved = Answer::of(0x07).value(bucket(1, 2, 3, 1));
    let waiter = setup.check(GET, Ok(moved)).unwrap();
    assert_eq!(setup.store.revision(), Some(Revision::new(1, 2)));
    assert!(waiter.await);
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(setup.asked().is_empty(), "no node has to be polled");
}

/// C33
#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_move_the_key_leaves_it_to_the_back_off() {
    let setup = Setup::new(None);
    for body in [bucket(1, 2, 3, 0), bucket(1, 1, 3, 1)] {
        let waiter = setup.check(GET, Ok(Answer::of(0x07).value(body))).unwrap();
        assert!(!goes(waiter, SECOND).await);
    }
    assert!(setup.asked().is_empty());
}

/// C33: the configuration arrived after the note was taken; the response shows the request's node.
#[tokio::test(start_paused = true)]
async fn a_first_configuration_alone_does_not_move_a_key() {
    for (body, from, moved) in [
        (bucket(1, 1, 3, 0), Some(node(1)), false),
        (bucket(1, 2, 3, 0), Some(node(1)), false),
        (bucket(1, 2, 3, 1), Some(node(1)), true),
        (bucket(1, 2, 3, 1), None, false),
    ] {
        let store = ConfigStore::new();
        let fetch = |_, _| async { Ok(None) };
        let options = ConfigPollerOptions::new().first_from_client();
        let stale = StaleKvConfig::new(ConfigPoller::spawn(store.clone(), fetch, options));
        let typed: &dyn StaleConfig<Request, Answer, Lost, Note = KvNote> = &stale;
        let note = typed.note(&GET);
        store.compare_and_swap(config(1, 1, 3, 0));
        let mut answer = Answer::of(0x07).value(body);
        answer.node = from;
        let waiter = typed.check(note, Ok(&answer)).unwrap();
        let waited = tokio::time::timeout(Duration::from_secs(1), waiter).await;
        assert_eq!(waited.is_ok(), moved);
    }
}

/// C33: a key that has no owner at the moment has not moved.
#[tokio::test(start_paused = true)]
async fn a_body_without_an_owner_of_the_key_keeps_the_back_off() {
    let setup = Setup::new(None);
    let body = bucket(1, 2, 3, 0).replace("[0, -1]", "[-1, -1]");
    let waiter = setup.check(GET, Ok(Answer::of(0x07).value(body))).unwrap();
    assert_eq!(setup.store.revision(), Some(Revision::new(1, 2)));
    let waited = tokio::time::timeout(Duration::from_secs(1), waiter).await;
    assert!(waited.is_err());
}

/// C33
#[tokio::test(start_paused = true)]
async fn an_empty_or_unreadable_body_asks_a_node() {
    let other_bucket = bucket(1, 2, 3, 1).replace("\"b\"", "\"other\"");
    for body in ["", "junk", "{\"rev\": -1}", &other_bucket] {
        let answer = || Answer::of(0x07).value(body.to_owned());
        let setup = Setup::new(Some(config(1, 2, 3, 1)));
        let waiter = setup.check(GET, Ok(answer())).unwrap();
        assert!(waiter.await, "the key has moved");
        assert_eq!(setup.asked().len(), 1);
        let setup = Setup::new(None);
        let waiter = setup.check(GET, Ok(answer())).unwrap();
        assert!(!goes(waiter, SECOND).await, "nothing newer");
        assert_eq!(setup.asked().len(), 1);
    }
}

/// C33: the body's `$HOST` is the node that answered.
#[tokio::test(start_paused = true)]
async fn host_in_the_body_is_the_node_that_the_key_belonged_to() {
    let setup = Setup::new(None);
    let body = bucket(1, 2, 3, 1).replace("n1", "$HOST");
    assert!(
        setup
            .check(GET, Ok(Answer::of(0x07).value(body.clone())))
            .unwrap()
            .await
    );
    assert_eq!(setup.store.load().unwrap().nodes()[0].hostname(), "n1");
    let mut from_elsewhere = Answer::of(0x07).value(body.replace("\"rev\": 2", "\"rev\": 3"));
    from_elsewhere.node = Some(node(9));
    let _ = setup.check(GET, Ok(from_elsewhere));
    assert_eq!(setup.store.load().unwrap().nodes()[0].hostname(), "n9");
}

/// C48
#[tokio::test(start_paused = true)]
async fn a_lost_attempt_asks_another_node_than_the_keys() {
    for stage in [Stage::Dispatch, Stage::InFlight] {
        let setup = Setup::new(Some(config(1, 2, 3, 2)));
        assert!(setup.check(GET, Err(Lost::At(stage))).unwrap().await);
        assert_eq!(setup.asked(), [node(2)]);
    }
    let setup = Setup::of_nodes(1, None);
    let waiter = setup.check(GET, Err(Lost::At(Stage::InFlight))).unwrap();
    assert!(!goes(waiter, SECOND).await);
    assert!(setup.asked().is_empty(), "there is no other node");
    assert!(setup.check(GET, Err(Lost::ForGood)).is_none());
}

/// C48: after a fast-forward, and for the lookup of a collection, it is not the key's node.
#[tokio::test(start_paused = true)]
async fn an_attempt_cut_off_at_another_node_excludes_that_one() {
    let unknown = ["no address", "elsewhere:11210"].map(|name| (name.to_owned(), 2));
    for (backend, asked) in [(node(2).to_string(), 1)].into_iter().chain(unknown) {
        let setup = Setup::new(Some(config(1, 2, 3, 2)));
        let stack = ServiceBuilder::new()
            .layer(RetryLayer::new(KvClassifier::new(), BestEffort::new()))
            .layer(ConfigPollLayer::new(Some(setup.stale.clone())))
            .layer(AttemptDeadlineLayer::new(SECOND))
            .service_fn(move |call: Call<Request>| {
                let context = call.context().unwrap();
                context.reporter().backend(Backend::new(&*backend));
                let hangs = context.attempt() == 1;
                async move {
                    if hangs {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, Lost>(Answer::of(0))
                }
            });
        let mut call = Call::new(GET);
        attach_idempotency(&mut call);
        assert_eq!(stack.oneshot(call).await.unwrap().status, 0);
        assert_eq!(setup.asked(), [node(asked)]);
    }
}

/// C47
#[tokio::test(start_paused = true)]
async fn within_the_floor_a_configuration_still_moves_a_key() {
    let setup = Setup::new(None);
    let empty = || Ok(Answer::of(0x07));
    assert!(!setup.check(NOOP, empty()).unwrap().await);
    let waiter = setup.check(GET, empty()).unwrap();
    assert!(setup.check(NOOP, empty()).is_none(), "nothing to wait for");
    let store = setup.store.clone();
    tokio::spawn(async move {
        sleep(Duration::from_millis(5)).await;
        store.compare_and_swap(config(1, 5, 3, 2));
    });
    assert!(waiter.await);
    assert_eq!(setup.asked().len(), 1);
}

/// C19 C38
#[tokio::test(start_paused = true)]
async fn the_map_or_the_option_may_ask_for_a_configuration() {
    let errors = map(&[
        ("f1", "fetch-config retry-now", ""),
        ("d", "fetch-config", ""),
    ]);
    let setup = Setup::new(None);
    let config_only = || Ok(Answer::of(0x0d).map(&errors));
    assert!(
        setup.check(GET, config_only()).is_none(),
        "known: the map is not used"
    );
    assert!(setup.check(GET, Ok(Answer::of(0x86))).is_none());
    let unknown = Answer::of(0xf1).map(&errors);
    assert!(setup.check(NOOP, Ok(unknown)).is_some());
    let setup = Setup::new(Some(config(2, 1, 3, 1)));
    let current = setup.stale.clone().with_current_server_codes();
    assert!(check(&current, GET, config_only()).unwrap().await);
}

/// C5 C33: the whole stack, with a cluster that moved the key.
#[tokio::test(start_paused = true)]
async fn in_the_stack_only_a_moved_key_is_sent_at_once() {
    for (body, expected) in [(bucket(1, 2, 3, 1), 0), (bucket(1, 1, 3, 0), 11)] {
        let setup = Setup::new(None);
        let store = setup.store.clone();
        let start = Instant::now();
        let attempts = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&attempts);
        let service = ServiceBuilder::new()
            .layer(RetryLayer::new(KvClassifier::new(), BestEffort::new()))
            .layer(ConfigPollLayer::new(setup.stale.clone()))
            .service_fn(move |call: Call<Request>| {
                let config = store.load().unwrap();
                let route = config.route(call.request.key.unwrap()).unwrap();
                let mut log = log.lock().unwrap();
                log.push(route.node.unwrap());
                let done = log.len() == 3 || route.node == Some(1);
                let answer = if done {
                    Answer::of(0)
                } else {
                    Answer::of(0x07).value(body.clone())
                };
                async move { Ok::<_, Lost>(answer) }
            });
        let mut call = Call::new(GET);
        attach_idempotency(&mut call);
        assert!(call.context().is_some());
        assert_eq!(service.oneshot(call).await.unwrap().status, 0);
        assert_eq!(start.elapsed(), Duration::from_millis(expected));
        let attempts = attempts.lock().unwrap();
        let nodes: &[usize] = if expected == 0 { &[0, 1] } else { &[0, 0, 0] };
        assert_eq!(*attempts, nodes);
    }
}

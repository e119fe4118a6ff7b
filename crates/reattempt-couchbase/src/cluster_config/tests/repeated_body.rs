//! A node that refuses many requests, each with the same configuration.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reattempt::ConfigWaiter;
use reattempt::config_poll::StaleConfig;
use tokio::time::{sleep, timeout};

use crate::cluster_config::*;
use crate::testing::{Answer, Lost, Request, bucket, config};

const SECOND: Duration = Duration::from_secs(1);

/// A store, and how often a node was polled.
struct Setup {
    stale: StaleKvConfig,
    store: ConfigStore,
    polls: Arc<AtomicUsize>,
}

impl Setup {
    fn new(first: ClusterConfig) -> Self {
        let store = ConfigStore::new();
        store.compare_and_swap(first);
        let polls = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&polls);
        let fetch = move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Ok(None) }
        };
        let options = ConfigPollerOptions::new().interval(1000 * SECOND);
        let stale = StaleKvConfig::new(ConfigPoller::spawn(store.clone(), fetch, options));
        Self {
            stale,
            store,
            polls,
        }
    }

    /// Whether a refused request is sent again at once, and the number of polls for it.
    async fn refused(&self, body: &str) -> (bool, usize) {
        // Longer than the floor.
        sleep(SECOND).await;
        let before = self.polls.load(Ordering::Relaxed);
        let stale: &dyn StaleConfig<Request, Answer, Lost, Note = KvNote> = &self.stale;
        let note = stale.note(&Request::get(b"k"));
        let answer = Answer::of(0x07).value(body);
        let waiter: ConfigWaiter = stale.check(note, Ok(&answer)).unwrap();
        let goes = timeout(SECOND / 10, waiter).await.unwrap_or(false);
        (goes, self.polls.load(Ordering::Relaxed) - before)
    }
}

/// C33: a newer one of another source stays, and the body moves no key.
#[tokio::test(start_paused = true)]
async fn a_repeated_body_replaces_nothing_that_is_newer() {
    let setup = Setup::new(config(1, 1, 3, 0));
    let body = bucket(1, 2, 3, 1);
    assert_eq!(setup.refused(&body).await, (true, 0));
    assert_eq!(setup.store.revision(), Some(Revision::new(1, 2)));
    assert_eq!(setup.refused(&body).await, (false, 0));
    setup.store.compare_and_swap(config(1, 3, 3, 2));
    assert_eq!(setup.refused(&body).await, (false, 0));
    assert_eq!(setup.store.revision(), Some(Revision::new(1, 3)));
    assert_eq!(setup.refused(&bucket(1, 4, 3, 0)).await, (true, 0));
}

/// C33: it is of no use since the store is of another bucket, and a node is asked.
#[tokio::test(start_paused = true)]
async fn a_repeated_body_is_compared_with_the_current_store() {
    let of = |name: &str, rev| bucket(1, rev, 3, 0).replace("\"b\"", &format!("{name:?}"));
    let parse = |json: String| ClusterConfig::parse(json.as_bytes(), "").unwrap();
    let cluster = bucket(1, 5, 3, 0).replace("\"name\": \"b\", ", "");
    let setup = Setup::new(parse(cluster));
    assert_eq!(setup.store.load().unwrap().bucket(), None);
    let body = of("b", 4);
    assert_eq!(setup.refused(&body).await, (false, 0));
    setup.store.compare_and_swap(parse(of("c", 6)));
    for _ in 0..2 {
        assert_eq!(setup.refused(&body).await, (false, 1));
    }
}

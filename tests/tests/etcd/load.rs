//! Many callers, and a check of their results against the cluster's data.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::client::{Client, Fate};
use reattempt_tests::within;

/// A third of them read, a third write keys of their own, a third increment one counter.
const CALLERS: usize = 12;

const COUNTER: &str = "counter";

#[derive(Default)]
struct Load {
    over: AtomicBool,
    /// Calls that succeeded.
    done: AtomicUsize,
    /// Attempts of reads beyond the first.
    again: AtomicUsize,
    /// Each write's key, and the result its caller got.
    fates: Mutex<HashMap<String, Fate>>,
}

/// Causes faults during the load.
pub(crate) struct Meanwhile(Arc<Load>);

impl Meanwhile {
    /// Waits until this many more calls are done.
    pub(crate) async fn calls(&self, more: usize) {
        let enough = self.0.done.load(Ordering::SeqCst) + more;
        within(async {
            while self.0.done.load(Ordering::SeqCst) < enough {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }
}

/// Runs the load during the faults. Then checks that no read was lost, no write was done twice, and
/// the counter is exact.
pub(crate) async fn under_load(client: &Client, faults: impl AsyncFnOnce(&Meanwhile)) {
    let load = Arc::new(Load::default());
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        callers.spawn(Arc::clone(&load).caller(number, client.clone()));
    }
    let meanwhile = Meanwhile(Arc::clone(&load));
    tokio::select! {
        () = faults(&meanwhile) => {}
        Some(Err(panicked)) = callers.join_next() => panic!("{panicked}"),
    }
    load.over.store(true, Ordering::SeqCst);
    while let Some(ended) = within(callers.join_next()).await {
        ended.expect("no panic");
    }
    load.hold(client).await;
}

impl Load {
    async fn caller(self: Arc<Self>, number: usize, client: Client) {
        for turn in 0.. {
            if self.over.load(Ordering::SeqCst) {
                break;
            }
            match number % 3 {
                0 => {
                    self.read(&client).await;
                }
                1 => self.put(&client, format!("put-{number}-{turn}")).await,
                _ => {
                    self.increment(&client, format!("mark-{number}-{turn}"))
                        .await
                }
            }
        }
    }

    /// The counter and its revision; zeros if it does not exist yet.
    async fn read(&self, client: &Client) -> (u64, i64) {
        let (found, attempts) = client.range(COUNTER, &[]).await;
        let again = attempts.saturating_sub(1) as usize;
        self.again.fetch_add(again, Ordering::SeqCst);
        self.done.fetch_add(1, Ordering::SeqCst);
        let counter = found.first();
        counter.map_or((0, 0), |counter| {
            let count = counter.value.parse().expect("a number");
            (count, counter.mod_revision)
        })
    }

    async fn put(&self, client: &Client, key: String) {
        let fate = client.put(&key).await;
        self.note(key, fate);
    }

    /// Increments the value that was read, unless another caller was faster, and writes a mark with
    /// it.
    async fn increment(&self, client: &Client, mark: String) {
        let (count, revision) = self.read(client).await;
        let next = (count + 1).to_string();
        let writes = [(COUNTER, next.as_str()), (mark.as_str(), "once")];
        let fate = client.put_both(writes, revision).await;
        self.note(mark, fate);
    }

    fn note(&self, key: String, fate: Fate) {
        if fate == Fate::Done {
            self.done.fetch_add(1, Ordering::SeqCst);
        }
        self.fates.lock().expect("the fates").insert(key, fate);
    }

    async fn hold(&self, client: &Client) {
        // All keys, at one revision of the store.
        let (all, _) = client.range("\0", b"\0").await;
        let fates = self.fates.lock().expect("the fates");
        let versions: HashMap<_, _> = all.iter().map(|kv| (&*kv.key, kv.version)).collect();
        for (key, fate) in &*fates {
            let version = versions.get(&**key).copied().unwrap_or(0);
            match fate {
                Fate::Done => assert_eq!(version, 1, "{key} was done"),
                Fate::NotDone => assert_eq!(version, 0, "{key} was not done"),
                Fate::Unknown => assert!(version <= 1, "{key} was done {version} times"),
            }
        }
        let counter = all
            .iter()
            .find(|kv| kv.key == COUNTER)
            .expect("the counter");
        let marks = all.iter().filter(|kv| kv.key.starts_with("mark")).count();
        assert_eq!(counter.value, marks.to_string());
        assert_eq!(counter.version.to_string(), counter.value);
        assert_eq!(all.len(), versions.len());
        let written = all.iter().filter(|kv| kv.key != COUNTER);
        for kv in written {
            assert!(fates.contains_key(&kv.key), "{} by no caller", kv.key);
        }
        assert!(self.again.load(Ordering::SeqCst) > 0, "no read met a fault");
        let of = |fate| fates.values().filter(|of| **of == fate).count();
        assert!(
            of(Fate::Done) > of(Fate::Unknown),
            "most writes get through"
        );
    }
}

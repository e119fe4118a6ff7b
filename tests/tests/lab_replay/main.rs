//! What-if replay: thousands of calls go through the real layers on paused time and are recorded;
//! the lab then finds every one of their decisions under the policy that they ran under.

mod grpc;
mod http;
mod kv;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reattempt::StopReason;
use reattempt::record::{Form, Options, Recorder, What};
use reattempt_lab::replay::Replay;
use reattempt_lab::{Limits, PolicyText};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt};

/// A file of this test, which is removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("reattempt-{name}-{}.rec", std::process::id())))
    }

    fn read(&self) -> Replay {
        let bytes = std::fs::read(&self.0).unwrap();
        Replay::read(&[bytes]).unwrap_or_else(|damages| panic!("{damages:?}"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What servers draw from.
type Chance = Arc<Mutex<SmallRng>>;

/// How long a server takes on a bad day, and what it answers then: a number below 100.
async fn fate(chance: &Chance) -> u32 {
    let (takes, fate) = {
        let mut chance = chance.lock().unwrap();
        let tail = if chance.random_bool(0.1) { 400 } else { 40 };
        (
            chance.random_range(0..tail * 1000),
            chance.random_range(0..100),
        )
    };
    tokio::time::sleep(Duration::from_micros(takes)).await;
    fate
}

/// A protocol: its layers in their documented order around such a server.
struct Wire<Request, Answer> {
    form: Form,
    policy: String,
    stack: fn(&str, &Recorder, Chance) -> BoxCloneSyncService<Request, Answer, BoxError>,
    request: fn(&mut SmallRng) -> Request,
    /// A policy that sends nothing again.
    never: PolicyText,
}

impl<Request, Answer> Wire<Request, Answer>
where
    Request: Send + 'static,
    Answer: Send + 'static,
{
    /// The calls of `seconds`.
    async fn record(&self, seconds: u64, scratch: &Scratch) -> u64 {
        let options = Options::new().policy(self.form, &*self.policy);
        let recorder = Recorder::create(&scratch.0, options).unwrap();
        // As if its first files had been deleted.
        tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
        let chance = Arc::new(Mutex::new(SmallRng::seed_from_u64(7)));
        let stack = (self.stack)(&self.policy, &recorder, Arc::clone(&chance));
        let mut calls = tokio::task::JoinSet::new();
        let until = tokio::time::Instant::now() + Duration::from_secs(seconds);
        while tokio::time::Instant::now() < until {
            let (pause, request, patience) = {
                let mut chance = chance.lock().unwrap();
                let request = (self.request)(&mut chance);
                let patience = if chance.random_bool(0.1) { 30 } else { 60_000 };
                (chance.random_range(0..10), request, patience)
            };
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let mut stack = stack.clone();
            calls.spawn(async move {
                let call = async { stack.ready().await?.call(request).await };
                // Some callers lose their patience and drop the call.
                let _ = tokio::time::timeout(Duration::from_millis(patience), call).await;
            });
        }
        calls.join_all().await;
        let status = recorder.finish();
        assert_eq!(status.lost, 0);
        status.written
    }

    async fn is_replayed_as_it_was(&self, name: &str) {
        self.is_replayed(name, 1.0).await;
    }

    /// At least this part of the decisions is the same under the policy that was recorded.
    async fn is_replayed(&self, name: &str, same: f64) {
        let scratch = Scratch::new(name);
        let written = self.record(20, &scratch).await;
        let replay = scratch.read();
        assert_eq!(replay.recording().entries.len() as u64, written);
        assert!(replay.calls() > 3000 && replay.incomplete() == 0);
        assert_eq!(replay.from_s(), 7200);
        let own = replay.own_policy().unwrap().unwrap();
        let decisions = replay.decisions(&own).unwrap();
        assert!(decisions.of > 1000, "{decisions:?}");
        let part = decisions.same as f64 / decisions.of as f64;
        assert!(part >= same, "{name}: {part} {decisions:?}");
        let recorded = replay.recorded();
        let again = replay.what_if(&own, 3, &Limits::default()).unwrap();
        assert_eq!(recorded.calls, again.calls);
        let near = |a: f64, b: f64, most: f64| (a - b).abs() < most;
        // The jitter is another one: of an empty quota, 0.02 are some three standard deviations.
        assert!(
            near(recorded.success, again.success, 0.04),
            "{recorded:?} {again:?}"
        );
        let (load, load_again) = (recorded.amplification, again.amplification);
        assert!(near(load, load_again, 0.05), "{recorded:?} {again:?}");
        if again.kinds.retry == 0 {
            // The attempt that failed last has the same reason as the hedge that was refused.
            let entries = replay.recording().entries.iter().map(|timed| timed.entry);
            let refused = entries.filter(|entry| entry.what == What::Refused);
            let held_back = refused.filter(|entry| entry.stopped == Some(StopReason::Throttled));
            let counted = recorded.held_back.values().sum::<u64>();
            assert_eq!(counted, held_back.count() as u64);
        }
        let other = replay.decisions(&self.never).unwrap();
        assert!(other.same < other.of, "{other:?}");
        let at_s = other.first.unwrap().at_s;
        assert!((7200.0..7220.0).contains(&at_s), "{at_s}");
        let alone = replay.what_if(&self.never, 3, &Limits::default()).unwrap();
        assert_eq!(alone.attempts, alone.calls, "nothing is sent again");
        assert!(alone.success < recorded.success, "{alone:?} {recorded:?}");
    }
}

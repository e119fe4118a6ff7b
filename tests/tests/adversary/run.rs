//! Runs one scenario and checks for leaks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::Request;
use reattempt::test_util::ms;
use reattempt::{Call, Route};
use reattempt_http::body::{BufferBudget, ReplayBody};
use tokio::task::JoinSet;

use crate::caller::{Caller, Seen};
use crate::carrier::{Carrier, Payload, Upload};
use crate::judge::{Faults, Story, judge, tokens};
use crate::log::lines;
use crate::policies::Router;
use crate::scenario::Scenario;
use crate::stack::stack;
use crate::tally::Tally;
use crate::throttle::Witness;
use crate::world::World;

type Calls = Vec<(usize, Seen)>;

/// Runs the scenario of this seed.
///
/// # Panics
/// If a property is violated.
pub(crate) fn scenario(seed: u64, tally: &mut Tally) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let runtime = runtime.expect("a runtime");
    let mut faults = Faults::default();
    let mut told = String::new();
    let run = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let scenario = Scenario::random(seed);
            let http = scenario.http;
            let world = World::new(scenario);
            let calls = if http {
                all::<Request<ReplayBody<Upload>>>(&world, &mut faults).await
            } else {
                all::<Call<Payload>>(&world, &mut faults).await
            };
            let log = world.take_log();
            tokens::replay(&world.scenario.throttles, &log, &mut faults);
            for (call, seen) in &calls {
                let story = Story::new(&world, *call, seen, &log);
                let before = faults.0.len();
                judge(&story, &mut faults);
                if faults.0.len() > before {
                    let lines = lines(&log, *call);
                    told += &format!("call {call}: {:?}\n{lines}", seen.facts);
                }
                tally.add(&story);
            }
            tally.scenarios += 1;
            // Records hold the backend too.
            drop((calls, log));
            faults.0.extend(world.leaks());
        });
    }));
    if run.is_err() {
        faults.0.push("a panic, above".into());
    }
    assert!(
        faults.0.is_empty(),
        "{}\n{told}{:#?}\nAlone: REATTEMPT_ADVERSARY_SEED={seed} REATTEMPT_ADVERSARY_SCENARIOS=1 \
         cargo test -p reattempt-tests --test adversary",
        Scenario::random(seed),
        faults.0
    );
}

/// Makes all calls of the scenario.
async fn all<R: Carrier>(world: &Arc<World>, faults: &mut Faults) -> Calls
where
    Router: Route<R>,
{
    let plans = world.scenario.throttles.iter().enumerate();
    let throttles: Vec<_> = plans.map(|(id, plan)| plan.make(id, world)).collect();
    let router = Router::new(world, &throttles);
    let budget = BufferBudget::new(world.scenario.bytes[1]);
    let stack = R::enter(world, &budget, stack::<R>(world, &router, &throttles));
    let swaps = tokio::spawn(swap(Arc::clone(world), router.clone(), throttles.clone()));
    let mut callers = JoinSet::new();
    for call in 0..world.scenario.calls.len() {
        let (world, stack) = (Arc::clone(world), stack.clone());
        let (router, throttles) = (router.clone(), throttles.clone());
        callers.spawn(async move {
            let caller = Caller {
                world: &world,
                router: &router,
                throttles: &throttles,
                call,
            };
            (call, caller.run::<R>(stack).await)
        });
    }
    let mut calls = Vec::new();
    while let Some(ended) = callers.join_next().await {
        match ended {
            Ok((call, seen)) => calls.extend(seen.map(|seen| (call, seen))),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    swaps.await.expect("no panic");
    let used = budget.used();
    faults.check(used == 0, || format!("{used} bytes of bodies are kept"));
    calls
}

async fn swap(world: Arc<World>, router: Router, throttles: Vec<Arc<Witness>>) {
    for (table, after) in world.scenario.swaps.iter().enumerate() {
        tokio::time::sleep(ms(*after)).await;
        router.swap(&world, &throttles, table + 1);
        world.table.store(table + 1, Ordering::Relaxed);
    }
}

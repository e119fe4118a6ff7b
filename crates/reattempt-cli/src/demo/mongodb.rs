//! MongoDB: finds against a replica set of three members.

use std::io;
use std::sync::Arc;

use bson::{Document, doc};
use indicatif::ProgressBar;
use reattempt::{Call, RouteLayer, RoutePolicy, UncallLayer};
use reattempt_clients::mongodb::client::{ClientOptions, Operation};
use reattempt_clients::mongodb::{Client, MongoError, MongoReply, MongoRequest, report};
use reattempt_clients::report::ReportLayer;
use reattempt_mongodb::{MongoClassifier, MongoClientLayer, ReadGate};
use reattempt_testbed::mongodb::node::SeenCommand;
use reattempt_testbed::mongodb::{ReplicaSet, Step};
use tower::{ServiceBuilder, ServiceExt};

use super::DemoError;
use super::load::{CallRecord, Plan, Scene, Seen, bare, drive, of_preset, through};
use super::policies::{bucket, hedge};
use super::trouble::{Move, Script, Trouble, is_search, node_move, phases};
use crate::call::attempts::{JournalLayer, JournalObserver};

/// Number of documents in the collection.
const DOCUMENTS: usize = 50;

/// Runs the load once, against a new replica set.
pub(crate) async fn run(
    plan: &Plan,
    with_stack: bool,
    progress: &ProgressBar,
) -> Result<Vec<CallRecord>, DemoError> {
    let set = ReplicaSet::start(3).await?;
    let script = Arc::new(Script::new(plan.seed, plan.calls, false));
    for node in set.nodes() {
        let script = Arc::clone(&script);
        node.script().handler(move |seen| step(&script, seen));
    }
    if let Some(store) = set.store() {
        let documents = (0..DOCUMENTS).map(|id| doc! { "_id": id as i64, "price": 1 });
        // The ids are unique, and the store is new.
        let _ = store.insert("shop", "items", documents);
    }
    let mut options = ClientOptions::new(set.nodes().iter().map(|node| node.address()));
    options.replica_set = Some(ReplicaSet::NAME.to_owned());
    options.max_pool_size = 0;
    options.server_selection_timeout = plan.limit;
    let client = Client::new(options);
    let mut scene = MongoScene {
        moved: node_move(&phases(plan.calls, false)),
        set,
    };
    let limit = plan.limit;
    if !with_stack {
        let target = move |number| {
            let answer = client.clone().oneshot(request(number));
            bare(limit, async { seen(answer.await.as_ref()) })
        };
        return drive(plan, target, &mut scene, progress).await;
    }
    let search = RoutePolicy::new("search").hedge(hedge());
    let search = Arc::new(search.with_data(ReadGate::Retry));
    let layer = MongoClientLayer::new()
        .classifier(MongoClassifier::seed_2022().with_codes_134_and_262())
        .timeout(limit)
        .throttle(Arc::new(bucket(plan)?))
        .observer(Arc::new(JournalObserver));
    let stack = ServiceBuilder::new()
        .layer(RouteLayer::new(move |call: &Call<MongoRequest>| {
            let searches = number(&call.request.command).is_some_and(is_search);
            searches.then(|| Arc::clone(&search))
        }))
        .layer(layer)
        .layer(JournalLayer)
        .layer(ReportLayer::new(report))
        .layer(UncallLayer::new())
        .service(client);
    let target = move |number| {
        let call = Call::new(request(number));
        through(stack.clone(), call, async |outcome| {
            of_preset(&outcome, seen)
        })
    };
    drive(plan, target, &mut scene, progress).await
}

/// The comment field carries the number of the call.
fn request(call: usize) -> MongoRequest {
    let id = (call % DOCUMENTS) as i64;
    let options = doc! { "filter": { "_id": id }, "comment": call as i64 };
    MongoRequest::of(Operation::FindOne, "shop", "items", options)
}

fn number(command: &Document) -> Option<usize> {
    usize::try_from(command.get_i64("comment").ok()?).ok()
}

/// The member's step for one command; `None` executes it.
fn step(script: &Script, seen: &SeenCommand) -> Option<Step> {
    match script.next(number(&seen.document)?) {
        Trouble::None => None,
        // Errors that do not concern the member's state, so that the client continues to use it.
        Trouble::Temporary(kind) => Some(Step::code(match kind % 3 {
            0 => 6,
            1 => 89,
            _ => 9001,
        })),
        Trouble::Slow(delay) => Some(Step::pass().after(delay)),
        Trouble::Hang => Some(Step::hang()),
        // This protocol has no pushback; the phase is calm.
        Trouble::Pushback(_) => None,
        Trouble::Overloaded => Some(Step::code(262)),
    }
}

struct MongoScene {
    set: ReplicaSet,
    moved: Move,
}

impl Scene for MongoScene {
    /// First the primary steps down; later the new one stops and another is elected.
    async fn before(&mut self, number: usize) -> io::Result<()> {
        if number == self.moved.goes {
            self.set.step_down();
        }
        if number == self.moved.is_back {
            if let Some(primary) = self.set.primary() {
                self.set.kill(primary).await;
                self.set.step_down();
            }
        }
        Ok(())
    }
}

/// The result for the caller.
fn seen(outcome: Result<&MongoReply, &MongoError>) -> Seen {
    let error = match outcome {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    Err(match error {
        MongoError::Server(error) => error.code_name.clone().into(),
        MongoError::Selection { .. } => "no server to select".into(),
        MongoError::PoolCleared { .. } => "pool cleared".into(),
        MongoError::Connect { .. } => "connection refused".into(),
        _ => "connection lost".into(),
    })
}

//! MongoDB calls: Retryable Reads around the small client of the testbed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bson::{Document as Bson, RawDocumentBuf};
use reattempt::backoff::Randomness;
use reattempt::{
    Call, ClientError, Elapsed, Failure, HasCallContext, Idempotency, OnDeadline, RetryInfo,
    RetryStrategy, Stage, Surface, UncallLayer,
};
use reattempt_clients::mongodb::client::{
    CommandEvent, ConnectionString, Drained, Operation, WriteError, drain,
};
use reattempt_clients::mongodb::{self, Client, MongoError, MongoReply, MongoRequest};
use reattempt_clients::report::ReportLayer;
use reattempt_mongodb::{
    Deprioritized, MAX_ADAPTIVE_RETRIES, MongoClassifier, MongoClientLayer, ReadCall,
    ReadOperation, RetryableReads,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder, ServiceExt};

use super::answer::{Answer, Shown, Timeout};
use super::attempts::{Attempt, Ending, JournalLayer, JournalObserver};
use super::document::{Document, Fields, Head};
use super::later_batches::Later;
use super::schedule::{Caller, Plan, unless_cancelled};
use super::story::Story;

type Stack = BoxCloneSyncService<Call<MongoRequest>, MongoReply, ClientError<MongoError>>;

/// Calls one deployment.
#[derive(Debug)]
pub(crate) struct MongoCaller {
    rules: Rules,
    client: Client,
    settings: ConnectionString,
    layer: MongoClientLayer,
    strategy: RetryableReads,
    avoid: Deprioritized,
}

/// The fields of one call.
#[derive(Clone, Debug)]
pub(crate) struct MongoCall {
    operation: Operation,
    database: String,
    collection: String,
    options: Bson,
}

/// The version of the specification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rules {
    #[default]
    #[serde(rename = "seed_2022")]
    Seed2022,
    Current,
}

impl Rules {
    const fn classifier(self) -> MongoClassifier {
        match self {
            Self::Seed2022 => MongoClassifier::seed_2022(),
            Self::Current => MongoClassifier::current(),
        }
    }
}

/// How long to check all servers before the first call, so that server selection does not depend on
/// which server answers first.
const LOOK: Duration = Duration::from_millis(250);

pub(crate) async fn plan(mut document: Document) -> Option<Plan<MongoCaller>> {
    let settings = document.one_target(str::parse::<ConnectionString>);
    for warning in settings.iter().flat_map(|settings| &settings.warnings) {
        document.rest.warn(format_args!("$.target: {warning}"));
    }
    let rules = document.rest.or("retryable_reads", Rules::default());
    if rules == Rules::Current && document.setup.on_deadline == Some(OnDeadline::Cap) {
        let warning = "$.on_deadline: the current rules give up if a back-off does not fit";
        document.rest.warn(warning);
    }
    let randomness = document.setup.randomness.clone();
    let caller = || Some(MongoCaller::new(rules, settings?, randomness));
    let plan = Plan::new(document, caller, read)?;
    plan.caller.client.topology().looked_around(LOOK).await;
    Some(plan)
}

/// The operations of a call. Those of a cursor or of the generic command runner are none.
pub(super) fn operations() -> impl Iterator<Item = Operation> {
    let of_call = |operation: &_| !matches!(operation, Operation::GetMore | Operation::RunCommand);
    Operation::ALL.iter().copied().filter(of_call)
}

fn read(fields: &mut Fields) -> Option<MongoCall> {
    let known = operations().map(|operation| (operation.name(), operation));
    let operation = fields.operation(known);
    let options: Map<String, Value> = fields.or("options", Map::new());
    let options = fields.accept("options", Bson::try_from(options));
    let options = options.filter(|options| {
        // What no command can hold.
        let raw = RawDocumentBuf::try_from(options);
        fields.accept("options", raw).is_some()
    });
    let database = fields.or("database", "db".to_owned());
    let collection = fields.or("collection", "c".to_owned());
    Some(MongoCall {
        operation: operation?.1,
        database,
        collection,
        options: options?,
    })
}

/// The events of one call, in order.
#[derive(Clone, Debug, Default)]
struct Events(Arc<Mutex<Vec<CommandEvent>>>);

impl Events {
    fn push(&self, event: CommandEvent) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(event);
    }

    fn to_json(&self) -> Value {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let values = events.iter().map(|event| {
            json!({
                "event": event.kind.name(),
                "command": event.command,
                "request_id": event.request_id,
                "operation_id": event.operation_id,
                "connection": event.connection,
            })
        });
        values.collect()
    }
}

impl MongoCaller {
    fn new(rules: Rules, mut settings: ConnectionString, randomness: Randomness) -> Self {
        let (mut layer, mut strategy, mut avoid) = (
            MongoClientLayer::new(),
            RetryableReads::seed_2022(),
            Deprioritized::seed_2022(),
        );
        if rules == Rules::Current {
            layer = MongoClientLayer::current();
            let retries = settings.max_adaptive_retries;
            strategy = strategy
                .overload_backoff(retries.unwrap_or(MAX_ADAPTIVE_RETRIES))
                .randomness(randomness);
            // Only `timeoutMS` extends retries until the deadline; a call's own limit only ends the
            // call.
            if settings.timeout.is_some() {
                strategy = strategy.until_deadline();
            }
            let retargeting = settings.enable_overload_retargeting;
            avoid = Deprioritized::current().overload_retargeting(retargeting);
            settings.options.overload_labels = true;
        }
        let layer = layer
            .strategy(strategy.clone())
            .retry_reads(settings.retry_reads)
            .retry_writes(settings.retry_writes)
            .observer(Arc::new(JournalObserver));
        Self {
            rules,
            client: Client::new(settings.options.clone()),
            settings,
            layer,
            strategy,
            avoid,
        }
    }

    /// The layers around the client, which reports its events to `events`.
    fn stack(&self, events: Events) -> Stack {
        let client = self
            .client
            .clone()
            .on_event(move |event| events.push(event));
        let service = ServiceBuilder::new()
            .layer(self.layer.clone())
            .layer(ReportLayer::new(mongodb::report))
            .layer(JournalLayer)
            .map_request(mongodb::prepare(&self.client, self.avoid))
            .layer(UncallLayer::new())
            .service(client);
        BoxCloneSyncService::new(service)
    }

    /// The error of a call that ended while it waited for a server, with the state of the servers:
    /// the selection, which would say it, was dropped.
    fn with_servers(&self, error: String, ending: Ending, attempts: &[Attempt]) -> String {
        let last = attempts.last();
        let waited = last.is_some_and(|last| {
            last.verdict == "cancelled" && last.stage == Stage::Dispatch.name()
        });
        match ending {
            Ending::Deadline | Ending::Cancelled if waited => {
                let known = self.client.topology().description();
                format!("{error}; it waited for a server: {known}")
            }
            _ => error,
        }
    }

    /// Which failure of a call with this number of attempts its caller got, by the same rule as in
    /// the layer.
    fn raised(&self, failures: &[Failure], attempts: usize) -> &'static str {
        // The last attempt was answered, and the answer or a later batch has the error.
        if attempts > failures.len().max(1) {
            return "last";
        }
        let Some((first, later)) = failures.split_first() else {
            return "first";
        };
        let (mut held, mut raised) = (first, "first");
        for new in later {
            if self.strategy.surface(held, new) == Surface::New {
                (held, raised) = (new, "last");
            }
        }
        raised
    }
}

/// Runs an operation and reads its cursor to the end. Returns the number of documents, values or
/// databases.
async fn exchange(
    stack: Stack,
    call: Call<MongoRequest>,
    story: &Story,
    later: &Later,
) -> Result<usize, BoxError> {
    let request = call.request.clone();
    let reply = stack.clone().oneshot(call).await?;
    // A read with such a reply is a success all the same (M7).
    let writes = matches!(
        ReadCall::operation(&request),
        ReadOperation::Write | ReadOperation::AggregateThatWrites | ReadOperation::MapReduce
    );
    if let Some(error) = WriteError::of(&reply).filter(|_| writes) {
        return Err(error.into());
    }
    let read = match request.operation {
        // It has no end.
        Operation::Watch => Drained::of(&reply),
        // The client has checked that it is there.
        Operation::CountDocuments => return Ok(reply.counted().unwrap_or(0)),
        Operation::Count | Operation::InsertOne => return Ok(reply.count()),
        _ => {
            let limit = story.limit;
            // Each `getMore` is a call of its own, with retries under the current rules.
            let mut more = ServiceBuilder::new()
                .map_request(|request: MongoRequest| {
                    let mut call = Call::new(request);
                    later.begin(RetryInfo::track(&mut call));
                    // A timeout is unambiguous: the first failure ends the call, and its cursor is
                    // not used again.
                    call.context_mut().set_idempotency(Idempotency::Idempotent);
                    if let Some(limit) = limit {
                        call.context_mut().attach_deadline(limit);
                    }
                    call
                })
                .service(stack);
            let drained = drain(&mut more, &request, reply).await;
            drained.map_err(|error| of_whole_call(error, story))?
        }
    };
    match read.stopped_at {
        Some(bound) => Err(bound.into()),
        None => Ok(read.documents),
    }
}

/// Replaces the timeout of a later batch by one of the whole call, whose attempts are reported.
fn of_whole_call(mut error: ClientError<MongoError>, story: &Story) -> ClientError<MongoError> {
    if let ClientError::Elapsed(Elapsed { info, .. }) = &mut error {
        **info = story.info();
    }
    error
}

impl Caller for MongoCaller {
    type Call = MongoCall;

    async fn call(&self, mut head: Head, call: MongoCall) -> Answer {
        // The call's own limit takes precedence over the client's `timeoutMS`.
        head.timeout = head.timeout.or(self.settings.timeout);
        let mut request = Call::new(MongoRequest::of(
            call.operation,
            &call.database,
            &call.collection,
            call.options,
        ));
        let story = Story::begin(&head, &mut request);
        let events = Events::default();
        let stack = self.stack(events.clone());
        let later = Later::default();
        let exchange = exchange(stack, request, &story, &later);
        let outcome = unless_cancelled(&head, exchange).await;
        let (reasons, last_batch) = later.ended();
        let mut documents = None;
        let mut failed: Option<MongoError> = None;
        let mut unwritten = None;
        let mut timeout = None;
        let (ending, error) = match outcome {
            None => (Ending::Cancelled, Some("the caller left".to_owned())),
            Some(Ok(count)) => {
                documents = Some(count);
                (Ending::Success, None)
            }
            Some(Err(error)) => {
                let text = error.to_string();
                unwritten = error.downcast_ref::<WriteError>().cloned();
                match error.downcast().map(|error| *error) {
                    Ok(ClientError::Elapsed(elapsed)) => {
                        timeout = Some(Timeout::from(&elapsed));
                        (Ending::Deadline, Some(text))
                    }
                    Ok(ClientError::Transport(error)) => {
                        failed = Some(error);
                        (Ending::Failure, Some(text))
                    }
                    _ => (Ending::Failure, Some(text)),
                }
            }
        };
        let mut answer = story.end(head.call, ending);
        let new = reasons
            .into_iter()
            .filter(|reason| !answer.reasons.contains(reason));
        let new: Vec<_> = new.collect();
        answer.reasons.extend(new);
        if let Some(error) = &failed {
            let failure = self.rules.classifier().verdict_on(error, None);
            let reason = failure.failure().map(|failure| failure.reason.name());
            let fatal = answer.attempts.iter_mut();
            for attempt in fatal.filter(|attempt| attempt.verdict == "fatal") {
                attempt.reason = attempt.reason.or(reason);
            }
        }
        answer.error = error.map(|error| self.with_servers(error, ending, &answer.attempts));
        answer.timeout = timeout;
        if let Some(count) = documents {
            let line = format!("{count} documents");
            answer.for_people.push(Shown::Text(line));
        }
        let error = failed.as_ref();
        let labels = error.map_or_else(Vec::new, |error| error.labels().to_vec());
        let of_document = || unwritten.as_ref().and_then(|error| error.code);
        let raised = error.is_some() || unwritten.is_some();
        let attempts = answer.attempts.len();
        answer
            .with("documents", documents)
            .with("code", error.map_or_else(of_document, MongoError::code))
            .with("code_name", error.and_then(MongoError::code_name))
            .with("labels", labels)
            .with(
                "error_from",
                raised.then(|| match last_batch.attempts() {
                    0 | 1 => self.raised(&story.journal.failures(), attempts),
                    attempts => {
                        let records = last_batch.records();
                        let failures: Vec<_> = records.filter_map(|r| r.failure).collect();
                        self.raised(&failures, attempts as usize)
                    }
                }),
            )
            .with("events", events.to_json())
    }
}

//! The official MongoDB driver with its own retries disabled and reattempt's around it: a
//! step-down, an overloaded server, and an operation that is never sent twice.
//!
//! The retried request is the logical read. Every attempt calls the driver again, which selects a
//! server, checks out a connection and encodes the command; nothing of the failed attempt is kept.
//! With `retryReads` enabled, each attempt below could become two. Run with
//! `cargo run -p reattempt-examples --example mongodb_driver`.

use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::{Client, Collection, Cursor};
use reattempt::{Call, ClientError, RetryInfo};
use reattempt_mongodb::{MongoClientLayer, ReadCall, ReadOperation};
use reattempt_testbed::mongodb::{Node, ReplicaSet, Step};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder, ServiceExt};

/// The queries of this application.
#[derive(Clone, Debug)]
enum Question {
    /// The loaves that cost at most this.
    UpTo(i32),
    /// Copies the cheap ones: an aggregate with a write stage.
    CopyUpTo(i32),
}

impl Question {
    fn stages(&self) -> Vec<Document> {
        match self {
            Self::UpTo(most) => vec![doc! { "$match": { "price": { "$lte": most } } }],
            Self::CopyUpTo(most) => vec![
                doc! { "$match": { "price": { "$lte": most } } },
                doc! { "$out": "cheap" },
            ],
        }
    }
}

/// Defines what may be retried.
impl ReadCall for Question {
    fn operation(&self) -> ReadOperation {
        let stages = self.stages();
        let names = stages.iter().flat_map(Document::keys);
        ReadOperation::aggregate(names)
    }
}

/// One attempt: the driver's own call, and its own error. It ends with the first batch: later
/// batches are not retried, since it is unknown whether a lost `getMore` has advanced the cursor.
async fn ask(
    loaves: Collection<Document>,
    question: Question,
) -> Result<Cursor<Document>, mongodb::error::Error> {
    loaves.aggregate(question.stages()).await
}

type Failed = ClientError<mongodb::error::Error>;
type Bakery = BoxCloneSyncService<Call<Question>, Cursor<Document>, Failed>;

fn bakery(loaves: Collection<Document>) -> Bakery {
    let service = ServiceBuilder::new()
        .layer(MongoClientLayer::current().timeout(Duration::from_secs(10)))
        .service_fn(move |call: Call<Question>| ask(loaves.clone(), call.request));
    BoxCloneSyncService::new(service)
}

/// Sends the query, reads the cursor to its end, and prints what happened.
async fn printed(bakery: &Bakery, question: Question) -> (Result<usize, Failed>, RetryInfo) {
    let mut call = Call::new(question.clone());
    let watch = RetryInfo::track(&mut call);
    let answer = match bakery.clone().oneshot(call).await {
        Ok(cursor) => count(cursor).await.map_err(Failed::Transport),
        Err(error) => Err(error),
    };
    let info = watch.info();
    match &answer {
        Ok(found) => println!("{question:?}: {found} documents"),
        Err(Failed::Transport(driver)) => println!("{question:?}: {}", driver.kind),
        Err(Failed::Elapsed(elapsed)) => println!("{question:?}: {elapsed}"),
        Err(not_sent) => println!("{question:?}: {not_sent}"),
    }
    for record in info.records() {
        print!("  attempt {}: {}", record.number, record.outcome.name());
        if let Some(failure) = record.failure {
            print!(", {}", failure.reason.name());
        }
        if let Some(delay) = record.delay {
            print!(", the next after {delay:?}");
        }
        println!();
    }
    (answer, info)
}

async fn count(mut cursor: Cursor<Document>) -> mongodb::error::Result<usize> {
    let mut found = 0;
    while cursor.advance().await? {
        found += 1;
    }
    Ok(found)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // A replica set in this process; an application uses a connection string.
    let set = ReplicaSet::start(3).await?;
    let store = set.store().ok_or("no store")?;
    let prices = [("rye", 4), ("wheat", 3), ("spelt", 6)];
    let loaves = prices.map(|(name, price)| doc! { "_id": name, "price": price });
    store
        .insert("bakery", "loaves", loaves)
        .map_err(|n| format!("document {n} already exists"))?;
    let primary = || -> Result<&Node, BoxError> {
        let primary = set.primary().ok_or("no primary")?;
        Ok(&set.nodes()[primary])
    };

    let hosts: Vec<&str> = set.nodes().iter().map(Node::address).collect();
    let uri = format!(
        "mongodb://{}/?replicaSet={}&retryReads=false&retryWrites=false",
        hosts.join(","),
        ReplicaSet::NAME
    );
    let client = Client::with_uri_str(uri).await?;
    let bakery = bakery(client.database("bakery").collection("loaves"));

    println!("the primary is stepping down when the read arrives");
    primary()?.script().on("aggregate", Step::code(189));
    let (found, info) = printed(&bakery, Question::UpTo(4)).await;
    assert_eq!((found?, info.attempts()), (2, 2));

    println!("the connection breaks within the response");
    primary()?.script().on("aggregate", Step::half_reply());
    let (found, info) = printed(&bakery, Question::UpTo(9)).await;
    assert_eq!((found?, info.attempts()), (3, 2));

    println!("too busy, twice: each retry waits longer");
    let busy = || {
        Step::error(462, "IngressRequestRateLimitExceeded")
            .label("SystemOverloadedError")
            .label("RetryableError")
            .with("baseBackoffMS", 20)
    };
    primary()?
        .script()
        .on("aggregate", busy())
        .on("aggregate", busy());
    let (found, info) = printed(&bakery, Question::UpTo(3)).await;
    assert_eq!((found?, info.attempts()), (1, 3));

    println!("an aggregate that writes is not sent again");
    primary()?.script().on("aggregate", Step::code(189));
    let (refused, info) = printed(&bakery, Question::CopyUpTo(4)).await;
    assert!(refused.is_err());
    assert_eq!(info.attempts(), 1);
    Ok(())
}

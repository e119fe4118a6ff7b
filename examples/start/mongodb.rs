//! A read by the official MongoDB driver that retries, with the rules of 2026:
//! `mongodb 'mongodb://127.0.0.1/?retryReads=false&retryWrites=false'`. Its dependencies are those
//! of `docs/mongodb.md` and nothing else.

use mongodb::{Client, bson::Document};
use reattempt::Call;
use reattempt_mongodb::{MongoClientLayer, ReadCall, ReadOperation};
use tower::{Service, ServiceBuilder, ServiceExt};

/// The request; it names its operation.
#[derive(Clone, Debug)]
struct FindOne;

impl ReadCall for FindOne {
    fn operation(&self) -> ReadOperation {
        ReadOperation::FindOne
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("a URL is needed")?;
    let client = Client::with_uri_str(url).await?;
    let orders = client.database("shop").collection::<Document>("orders");
    let mut reads = ServiceBuilder::new()
        .layer(MongoClientLayer::current())
        .service_fn(move |_: Call<FindOne>| {
            let orders = orders.clone();
            async move { orders.find_one(Document::new()).await }
        });

    let order = reads.ready().await?.call(Call::new(FindOne)).await?;
    println!("{order:?}");
    Ok(())
}

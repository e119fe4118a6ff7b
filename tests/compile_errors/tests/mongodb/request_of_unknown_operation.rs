//! A request of which the preset does not know the operation.

use reattempt::Call;
use reattempt_mongodb::{FailureKind, MongoClientLayer, MongoFailure};
use tower::{Service, ServiceBuilder};

#[derive(Clone)]
struct Find;

#[derive(Debug)]
struct DriverError;

impl MongoFailure for DriverError {
    fn kind(&self) -> FailureKind {
        FailureKind::command(None)
    }
}

fn main() {
    let mut client = ServiceBuilder::new()
        .layer(MongoClientLayer::new())
        .service_fn(async |_: Call<Find>| Err::<(), _>(DriverError));
    let _ = client.call(Call::new(Find));
}

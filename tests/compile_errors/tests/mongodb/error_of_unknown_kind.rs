//! An error type of which the preset does not know the kind of failure.

use reattempt::Call;
use reattempt_mongodb::{MongoClientLayer, ReadCall, ReadOperation};
use tower::{Service, ServiceBuilder};

#[derive(Clone)]
struct Find;

impl ReadCall for Find {
    fn operation(&self) -> ReadOperation {
        ReadOperation::Find
    }
}

#[derive(Debug)]
struct DriverError;

fn main() {
    let mut client = ServiceBuilder::new()
        .layer(MongoClientLayer::new())
        .service_fn(async |_: Call<Find>| Err::<(), _>(DriverError));
    let _ = client.call(Call::new(Find));
}

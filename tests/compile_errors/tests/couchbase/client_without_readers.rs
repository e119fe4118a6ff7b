//! A client of whose responses and errors the key-value preset knows nothing.

use reattempt::Call;
use reattempt_couchbase::KvClientLayer;
use reattempt_couchbase::kv::{KvRequest, Opcode};
use tower::{Service, ServiceBuilder};

#[derive(Clone)]
struct Get;

impl KvRequest for Get {
    fn opcode(&self) -> u8 {
        Opcode::GET.0
    }
}

struct OwnAnswer;
struct OwnError;

fn main() {
    let mut client = ServiceBuilder::new()
        .layer(KvClientLayer::without_config_poll())
        .service_fn(async |_: Call<Get>| Ok::<OwnAnswer, OwnError>(OwnAnswer));
    let _ = client.call(Call::new(Get));
}

//! A request of which the key-value preset does not know the operation.

use reattempt::{Call, Stage};
use reattempt_couchbase::KvClientLayer;
use reattempt_couchbase::kv::{KvAnswer, KvTransportError, Opcode};
use tower::{Service, ServiceBuilder};

#[derive(Clone)]
struct Get(&'static str);

struct Answer;

impl KvAnswer for Answer {
    fn status(&self) -> u16 {
        0
    }

    fn opcode(&self) -> u8 {
        Opcode::GET.0
    }
}

struct Lost;

impl KvTransportError for Lost {
    fn stage(&self) -> Stage {
        Stage::InFlight
    }
}

fn main() {
    let mut client = ServiceBuilder::new()
        .layer(KvClientLayer::without_config_poll())
        .service_fn(async |_: Call<Get>| Ok::<Answer, Lost>(Answer));
    let _ = client.call(Call::new(Get("key")));
}

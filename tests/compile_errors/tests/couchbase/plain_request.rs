//! A request that does not carry the call's context, below the key-value preset.

use reattempt::Stage;
use reattempt_couchbase::KvClientLayer;
use reattempt_couchbase::kv::{KvAnswer, KvRequest, KvTransportError, Opcode};
use tower::{Service, ServiceBuilder};

#[derive(Clone)]
struct Get;

impl KvRequest for Get {
    fn opcode(&self) -> u8 {
        Opcode::GET.0
    }
}

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
        .service_fn(async |_: Get| Ok::<Answer, Lost>(Answer));
    let _ = client.call(Get);
}

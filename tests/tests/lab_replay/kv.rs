//! Strategies of the key-value service.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;
use reattempt::record::{Form, Recorder};
use reattempt::{Call, OnDeadline, Stage};
use reattempt_couchbase::kv::{Opcode, Status};
use reattempt_couchbase::{
    ErrorMapStrategy, ErrorMaps, KvAnswer, KvClientLayer, KvRequest, KvStrategy, KvTransportError,
};
use reattempt_lab::PolicyText;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder};

use super::{Chance, Wire, fate};

#[derive(Clone, Copy)]
struct Request(Opcode);

impl KvRequest for Request {
    fn opcode(&self) -> u8 {
        self.0.0
    }
}

struct Answer {
    opcode: u8,
    status: Status,
    throttled: Option<Duration>,
}

impl KvAnswer for Answer {
    fn status(&self) -> u16 {
        self.status.0
    }

    fn opcode(&self) -> u8 {
        self.opcode
    }

    fn throttle_duration(&self) -> Option<Duration> {
        self.throttled
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the connection was lost")]
struct Lost(Stage);

impl KvTransportError for Lost {
    fn stage(&self) -> Stage {
        self.0
    }
}

async fn serve(opcode: u8, chance: Chance) -> Result<Answer, Lost> {
    let answer = |status, throttled: Option<u64>| {
        Ok(Answer {
            opcode,
            status,
            throttled: throttled.map(Duration::from_millis),
        })
    };
    match fate(&chance).await {
        0..60 => answer(Status::SUCCESS, None),
        60..75 => answer(Status::ETMPFAIL, None),
        75..80 => answer(Status::LOCKED, None),
        80..84 => answer(Status::ETMPFAIL, Some(35)),
        84..90 => answer(Status::KEY_ENOENT, None),
        90..95 => Err(Lost(Stage::InFlight)),
        95..98 => Err(Lost(Stage::Dispatch)),
        _ => std::future::pending().await,
    }
}

fn strategy(policy: &str) -> KvStrategy {
    let document = format!("{{\"kv\": {policy}}}");
    match PolicyText::of_document(&document).unwrap() {
        PolicyText::Kv(strategy) => strategy,
        other => panic!("{other:?}"),
    }
}

fn stack(
    policy: &str,
    recorder: &Recorder,
    chance: Chance,
) -> BoxCloneSyncService<Call<Request>, Answer, BoxError> {
    let strategy = strategy(policy).make(OnDeadline::Cap, |best_effort| {
        Arc::new(ErrorMapStrategy::new(ErrorMaps::new()).otherwise(best_effort))
    });
    let layer = KvClientLayer::without_config_poll()
        .strategy(strategy)
        .timeout(Duration::from_millis(900))
        .observer(Arc::new(recorder.clone()));
    let stack = ServiceBuilder::new()
        .map_err(BoxError::from)
        .layer(layer)
        .service(tower::service_fn(move |call: Call<Request>| {
            serve(call.request.opcode(), Arc::clone(&chance))
        }));
    BoxCloneSyncService::new(stack)
}

fn request(chance: &mut SmallRng) -> Call<Request> {
    let opcode = [Opcode::GET, Opcode::GET, Opcode::SET][chance.random_range(0..3)];
    Call::new(Request(opcode))
}

async fn is_the_same(name: &str, policy: &str) {
    let wire = Wire {
        form: Form::Kv,
        policy: policy.to_owned(),
        stack,
        request,
        never: PolicyText::Kv(KvStrategy::FailFast),
    };
    wire.is_replayed_as_it_was(name).await;
}

#[tokio::test(start_paused = true)]
async fn key_value_best_effort_is_replayed_as_it_was() {
    is_the_same("kv-best-effort", "\"best_effort\"").await;
}

#[tokio::test(start_paused = true)]
async fn key_value_constant_delays_are_replayed_as_they_were() {
    is_the_same("kv-constant", r#"{"constant_ms": 20, "max_attempts": 3}"#).await;
}

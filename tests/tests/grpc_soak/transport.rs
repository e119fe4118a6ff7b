//! The in-memory transport and server: follows the fate of each attempt, and reports to the ledger.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::BodyExt;
use reattempt_http::body::ReplayBody;
use reattempt_http::{ReplayBodyError, TransportError, TransportFault};
use reattempt_tests::alive::Live;
use tokio::time::Instant;

use super::BYTES_PER_CALL;
use super::answer::ServerBody;
use super::fate::{Answer, Fate, NO_PUSHBACK, Pushback, Reads};
use super::upload::Upload;
use super::words::{Got, Unseen};
use super::world::World;

/// A transport error with its fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broken {
    pub(crate) fault: TransportFault,
    pub(crate) attempt: u32,
}

impl TransportError for Broken {
    fn fault(&self) -> TransportFault {
        self.fault
    }
}

/// The attempt that a response belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfAttempt(pub(crate) u32);

/// Sends one attempt; its head comes later.
pub(crate) fn attempt(
    world: Arc<World>,
    request: Request<ReplayBody<Upload>>,
) -> impl Future<Output = Result<Response<ServerBody>, Broken>> + Send {
    let (id, attempt) = world.sends(&request);
    let fate = world.fate(id);
    let out = Out {
        _live: Live::one_of(&world.alive.attempts),
        world: Arc::clone(&world),
        id,
    };
    async move {
        let _out = out;
        answer(world, id, attempt, fate, request.into_body()).await
    }
}

/// An attempt in flight.
struct Out {
    _live: Live,
    world: Arc<World>,
    id: u32,
}

impl Drop for Out {
    fn drop(&mut self) {
        // Poisoned once an assertion has failed.
        if let Ok(mut ledger) = self.world.ledger.lock() {
            ledger.leaves(self.id);
        }
    }
}

/// Runs until the head of the response.
async fn answer(
    world: Arc<World>,
    id: u32,
    attempt: u32,
    fate: Fate,
    mut upload: ReplayBody<Upload>,
) -> Result<Response<ServerBody>, Broken> {
    let times_out = world.ledger().call(id).attempt_limit(Instant::now());
    let answers = |got| {
        let now = Instant::now();
        // From the deadline on, a failure that the deadline may have caused elsewhere counts as its
        // effect: the witness above that deadline reports it.
        let may_echo = match got {
            Got::Ok | Got::Headers => false,
            Got::Failed { code, .. } => code == 1 || matches!(fate.answer, Answer::Fault(_)),
            Got::RequestFailed | Got::Abandoned => true,
        };
        if may_echo && times_out.is_some_and(|at| now >= at) {
            return world.ledger().call(id).echo(got);
        }
        world.ledger().answered(id, attempt, got, now);
    };
    let breaks = |fault| Broken { fault, attempt };
    if let Err(error) = read(&world, id, &mut upload, fate.reads).await {
        let (got, fault) = match error {
            ReplayBodyError::Body(_) => (Got::RequestFailed, TransportFault::RequestFailed),
            ReplayBodyError::Abandoned => (Got::Abandoned, TransportFault::Abandoned),
            other => panic!("{other}"),
        };
        answers(got);
        return Err(breaks(fault));
    }
    if !fate.takes.is_zero() {
        tokio::time::sleep(fate.takes).await;
    }
    let failed = |code: i32, pushback: Pushback, unseen| Got::Failed {
        code: known(code),
        word: pushback.means,
        unseen,
    };
    let mut response = Response::new(ServerBody::default());
    response.extensions_mut().insert(OfAttempt(attempt));
    match fate.answer {
        Answer::TrailersOnly(code, pushback) => {
            *response.headers_mut() = trailers(code, pushback);
            answers(if code == 0 {
                Got::Ok
            } else {
                failed(code, pushback, Unseen::No)
            });
        }
        Answer::Http(status) => {
            *response.status_mut() = status.try_into().expect("a status");
            answers(failed(of_http(status), NO_PUSHBACK, Unseen::No));
        }
        Answer::Fault(fault) => {
            let (code, unseen) = of_fault(fault);
            answers(failed(code, NO_PUSHBACK, unseen));
            return Err(breaks(fault));
        }
        Answer::Stream(stream) => {
            answers(Got::Headers);
            let upload = stream.reads_on.then_some(upload);
            *response.body_mut() = ServerBody::begin(&world, id, attempt, stream, upload);
        }
        Answer::Silence => std::future::pending().await,
    }
    Ok(response)
}

async fn read(
    world: &World,
    id: u32,
    upload: &mut ReplayBody<Upload>,
    reads: Reads,
) -> Result<(), ReplayBodyError> {
    let most = match reads {
        Reads::Frames(most) => most,
        Reads::Everything => u32::MAX,
    };
    let mut bytes = 0;
    for _ in 0..most {
        let Some(frame) = upload.frame().await else {
            break;
        };
        bytes += frame?.data_ref().map_or(0, Bytes::len);
        world.ledger().read(id, bytes, BYTES_PER_CALL);
    }
    Ok(())
}

pub(crate) fn trailers(code: i32, pushback: Pushback) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(code));
    for value in pushback.values {
        let value = HeaderValue::from_static(value);
        trailers.append("grpc-retry-pushback-ms", value);
    }
    trailers
}

/// A number that is not a code means UNKNOWN.
pub(crate) fn known(code: i32) -> i32 {
    if (0..=16).contains(&code) { code } else { 2 }
}

/// "HTTP to gRPC Status Code Mapping"; also for a response that ends with a head without a status.
fn of_http(status: u16) -> i32 {
    match status {
        400 => 13,
        401 => 16,
        404 => 12,
        503 => 14,
        _ => 2,
    }
}

/// "Errors" of gRPC over HTTP/2, and A6, Transparent Retries.
pub(crate) fn of_fault(fault: TransportFault) -> (i32, Unseen) {
    match fault {
        TransportFault::NeverSent => (14, Unseen::NeverSent),
        TransportFault::StreamRefused => (14, Unseen::Once),
        // A peer that violates the protocol loses its connection. There is no other backend to move
        // on to.
        TransportFault::ConnectFailed
        | TransportFault::ConnectionReset
        | TransportFault::ConnectionClosed
        | TransportFault::Protocol => (14, Unseen::No),
        TransportFault::StreamReset(8) => (1, Unseen::No),
        TransportFault::StreamReset(11) => (8, Unseen::No),
        TransportFault::StreamReset(_) => (13, Unseen::No),
        other => panic!("no server says {other:?}"),
    }
}

//! Connects an attempt and the client's request: each gets the facts that it needs of the other.

use reattempt::{Backend, Call, HasCallContext, Stage};
use reattempt_mongodb::{Deprioritized, MIN_WIRE_VERSION, report_wire_version};

use super::client::{Client, MongoRequest, OnProgress, Progress, TopologyKind};

/// For a `map_request` directly above `client`, inside the recovery layer.
///
/// A further attempt is not sent to a server that does not support retryable reads (M23), and
/// avoids the servers that `avoid` returns. The server and the stage that the attempt reached are
/// reported even when the attempt is dropped: its server is avoided then too, and a request that
/// was never sent is unambiguous.
pub fn prepare(
    client: &Client,
    avoid: Deprioritized,
) -> impl Fn(Call<MongoRequest>) -> Call<MongoRequest> + Clone + Send + Sync + 'static {
    let topology = client.topology().clone();
    move |mut call| {
        let Some(context) = call.context() else {
            return call;
        };
        let reporter = context.reporter();
        if context.attempt() > 1 {
            let is_sharded = topology.description().kind == TopologyKind::Sharded;
            let avoided = avoid.servers(context, is_sharded);
            let addresses = avoided.iter().map(Backend::as_str).map(str::to_owned);
            call.request.avoid.extend(addresses);
            let wanted = call.request.requires_wire_version.unwrap_or(0);
            call.request.requires_wire_version = Some(wanted.max(MIN_WIRE_VERSION));
        }
        reporter.stage(Stage::Dispatch);
        call.request.on_progress = OnProgress::new(move |progress| {
            let stage = match progress {
                Progress::Selected {
                    server,
                    max_wire_version,
                } => {
                    // A timeout of the attempt drops it before it returns either.
                    reporter.backend(Backend::new(server));
                    report_wire_version(&reporter, max_wire_version);
                    Stage::Dispatch
                }
                Progress::Sending => Stage::InFlight,
                Progress::Answered => Stage::Response,
            };
            reporter.stage(stage);
        });
        call
    }
}

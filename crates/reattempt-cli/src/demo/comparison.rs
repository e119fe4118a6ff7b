//! One protocol's two runs, side by side.

use indicatif::ProgressBar;

use super::load::Plan;
use super::protocol::Protocol;
use super::stats::Side;
use super::trouble::{Phase, phases};
use super::{DemoError, grpc, http, kv, mongodb};

/// The results of the same load without and with the stack.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) protocol: Protocol,
    pub(crate) plan: Plan,
    pub(crate) phases: Vec<Phase>,
    pub(crate) without: Side,
    pub(crate) with: Side,
}

impl Comparison {
    /// Runs both sides in sequence, each against new servers.
    pub(crate) async fn make(
        protocol: Protocol,
        plan: &Plan,
        progress: &ProgressBar,
    ) -> Result<Self, DemoError> {
        let side = async |with_stack| {
            let side = if with_stack { "with" } else { "without" };
            progress.set_message(format!("{} {side} the stack", protocol.name()));
            let records = match protocol {
                Protocol::Grpc => grpc::run(plan, with_stack, progress).await,
                Protocol::Http => http::run(plan, with_stack, progress).await,
                Protocol::Kv => kv::run(plan, with_stack, progress).await,
                Protocol::Mongodb => mongodb::run(plan, with_stack, progress).await,
            };
            records.map(Side::new)
        };
        let (without, with) = (side(false).await?, side(true).await?);
        Ok(Self {
            protocol,
            plan: *plan,
            phases: phases(plan.calls, protocol.has_pushback()),
            without,
            with,
        })
    }
}

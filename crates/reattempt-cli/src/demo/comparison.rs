//! One protocol's two runs, side by side.

use indicatif::ProgressBar;

use super::load::Plan;
use super::protocol::Protocol;
use super::stats::Side;
use super::trouble::{Phase, phases};
use super::way::Way;
use super::{DemoError, grpc, http, kv, mongodb};

/// The results of the same load without and with the stack.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) protocol: Protocol,
    pub(crate) plan: Plan,
    pub(crate) phases: Vec<Phase>,
    pub(crate) without: Side,
    /// Of the protocols that tower's own layers can retry without more code.
    pub(crate) tower: Option<Side>,
    pub(crate) with: Side,
}

impl Comparison {
    /// Runs all sides in sequence, each against new servers.
    pub(crate) async fn make(
        protocol: Protocol,
        plan: &Plan,
        progress: &ProgressBar,
    ) -> Result<Self, DemoError> {
        let side = async |way| {
            let with = match way {
                Way::Bare => "without the stack",
                Way::Tower => "with tower's",
                Way::Stack => "with the stack",
            };
            progress.set_message(format!("{} {with}", protocol.name()));
            let records = match protocol {
                Protocol::Grpc => grpc::run(plan, way, progress).await,
                Protocol::Http => http::run(plan, way, progress).await,
                Protocol::Kv => kv::run(plan, way == Way::Stack, progress).await,
                Protocol::Mongodb => mongodb::run(plan, way == Way::Stack, progress).await,
            };
            records.map(Side::new)
        };
        let without = side(Way::Bare).await?;
        let tower = match protocol.has_tower() {
            true => Some(side(Way::Tower).await?),
            false => None,
        };
        let with = side(Way::Stack).await?;
        Ok(Self {
            protocol,
            plan: *plan,
            phases: phases(plan.calls, protocol.has_pushback()),
            without,
            tower,
            with,
        })
    }

    /// The sides with their names, in the order of the columns.
    pub(crate) fn sides(&self) -> Vec<(&'static str, &Side)> {
        let mut sides = vec![("without", &self.without)];
        sides.extend(self.tower.as_ref().map(|side| ("tower", side)));
        sides.push(("with", &self.with));
        sides
    }
}

//! Rules and properties of the machines, driven by a simulator on a virtual clock.

mod a6_retry_rules;
mod bounds;
mod driver_rules;
mod hedge_delay_rules;
mod hedge_rules;
mod model;
mod properties;
mod retry_behaviour;
mod rfc_0049_rules;
mod script;
pub(super) mod simulator;
mod stage_rules;
mod transparent_rules;

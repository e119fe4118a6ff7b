//! Rules and properties of the machines, driven by a simulator on a virtual clock.

mod a6_retry_rules;
mod driver_rules;
mod hedge_rules;
mod model;
mod properties;
mod retry_behaviour;
mod rfc_0049_rules;
mod script;
mod simulator;
mod transparent_rules;

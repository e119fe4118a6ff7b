//! What will this retry policy do on a bad day?
//!
//! The lab runs a policy, as it ships, in a simulated world: clients whose calls arrive at random,
//! servers with workers and queues, faults. Time is virtual, chance is seeded: the same scenario
//! gives the same bytes on every platform. No rule is written a second time: the policies are read
//! by the parsers that the layers use, and decided by their machines, strategies, throttles and
//! budgets, through [`reattempt::driver`].
//!
//! ```
//! use reattempt_lab::{Limits, Scenario};
//!
//! let scenario = Scenario::parse(r#"{
//!     "duration_s": 20,
//!     "arrivals": [{"from_s": 0, "per_s": 100}],
//!     "backends": [{"servers": 10, "latency": {"exponential_ms": 20},
//!                   "faults": [{"kind": "error", "share": 0.2}]}],
//!     "policies": {
//!         "once": {"http_policy": {"default": {}}},
//!         "three": {"http_policy": {"default": {"retry": {"maxAttempts": 3}}}}
//!     }
//! }"#)?;
//! let report = scenario.run(&Limits::default())?;
//! let [once, three] = ["once", "three"].map(|name| report.policy(name).unwrap());
//! assert!((0.75..0.85).contains(&once.success) && three.success > 0.98);
//! assert_eq!(once.calls, three.calls, "the same calls");
//! # Ok::<(), reattempt::config::Faults>(())
//! ```

pub mod chart;
pub mod gallery;
pub mod lint;
mod load;
mod number;
mod policy;
mod random;
pub mod replay;
mod report;
mod run;
mod scenario;
pub mod tune;
mod world;

pub use policy::{KvStrategy, PolicyText};
pub use report::{Kinds, Latencies, Outcome, Quantiles, Report, Second, TierOutcome};
pub use run::Limits;
pub use scenario::{Latency, Scenario};

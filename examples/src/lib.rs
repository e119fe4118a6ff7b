//! The examples of reattempt, one file per use case, and the code of README and guides as tests.

/// The README's code blocks, compiled and run as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// The code of the guide to the layers' order.
#[cfg(doctest)]
#[doc = include_str!("../../docs/layer-order.md")]
pub struct LayerOrder;

/// The code of the guide to policies.
#[cfg(doctest)]
#[doc = include_str!("../../docs/choosing-a-policy.md")]
pub struct ChoosingAPolicy;

/// The code of the guide to backends with health.
#[cfg(doctest)]
#[doc = include_str!("../../docs/backends.md")]
pub struct Backends;

/// The code of the guide to overload.
#[cfg(doctest)]
#[doc = include_str!("../../docs/overload.md")]
pub struct Overload;

/// The code of the guide for users of tower's own layers.
#[cfg(doctest)]
#[doc = include_str!("../../docs/migrating-from-tower.md")]
pub struct MigratingFromTower;

/// The code of the guide to log, metrics and spans.
#[cfg(doctest)]
#[doc = include_str!("../../docs/observing.md")]
pub struct Observing;

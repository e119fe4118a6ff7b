//! Which servers the selection for a retry passes over, if it can (server selection since 2023:
//! deprioritized servers).

use reattempt_core::{AttemptOutcome, Backend, CallContext};

use crate::reasons::MONGODB_SYSTEM_OVERLOADED;

/// Which failed servers a retry avoids. Never a ban: where nobody else is suitable they are asked
/// again ([`unless_all`]).
///
/// For the client below the retry layer, which knows the topology and selects. It has to report
/// where each attempt went ([`Reporter::backend`](reattempt_core::Reporter::backend)).
///
/// | | sharded cluster | replica set and others |
/// | --- | --- | --- |
/// | [`Deprioritized::seed_2022`] (default) | nobody | nobody |
/// | [`Deprioritized::current`] | every mongos that failed | nobody |
/// | … with [`overload_retargeting`](Deprioritized::overload_retargeting) | every mongos that failed | servers that were overloaded |
///
/// A member of a replica set that failed in another way is not avoided: with `primaryPreferred` the
/// read would quietly go to a secondary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deprioritized {
    sharded: bool,
    overloaded: bool,
}

impl Deprioritized {
    /// Nobody is avoided.
    #[must_use]
    pub const fn seed_2022() -> Self {
        Self {
            sharded: false,
            overloaded: false,
        }
    }

    /// The specification of 2026: in a sharded cluster the failed mongos are avoided.
    #[must_use]
    pub const fn current() -> Self {
        Self {
            sharded: true,
            overloaded: false,
        }
    }

    /// `enableOverloadRetargeting`: with any topology, also servers that failed with
    /// `SystemOverloadedError`; off by default. Needs a classifier [with overload
    /// errors](crate::MongoClassifier::with_overload_errors), which tells them apart.
    #[must_use]
    pub const fn overload_retargeting(mut self, on: bool) -> Self {
        self.overloaded = on;
        self
    }

    /// The servers to avoid in the attempt of this context, each once, in the order in which they
    /// failed. They add up over the attempts of a call; of a call with very many the last ones
    /// count.
    #[must_use]
    pub fn servers(&self, context: &CallContext, is_sharded: bool) -> Vec<Backend> {
        let all = self.sharded && is_sharded;
        if context.attempt() <= 1 || !(all || self.overloaded) {
            return Vec::new();
        }
        let info = context.info();
        let mut avoided: Vec<Backend> = Vec::new();
        for record in info.records() {
            let overloaded = || {
                record
                    .failure
                    .is_some_and(|failure| failure.reason == MONGODB_SYSTEM_OVERLOADED)
            };
            let avoid = record.outcome == AttemptOutcome::Retry && (all || overloaded());
            if let (true, Some(server)) = (avoid, &record.backend) {
                if !avoided.contains(server) {
                    avoided.push(server.clone());
                }
            }
        }
        avoided
    }
}

/// The suitable servers without the avoided ones; all of them if that leaves none, as with a single
/// node.
///
/// ```
/// use reattempt_core::Backend;
/// use reattempt_mongodb::unless_all;
///
/// let avoided = [Backend::new("a:27017")];
/// assert_eq!(
///     unless_all(vec!["a:27017", "b:27017"], &avoided, |server| server),
///     ["b:27017"]
/// );
/// assert_eq!(
///     unless_all(vec!["a:27017"], &avoided, |server| server),
///     ["a:27017"]
/// );
/// ```
#[must_use]
pub fn unless_all<T>(
    mut suitable: Vec<T>,
    avoided: &[Backend],
    address: impl Fn(&T) -> &str,
) -> Vec<T> {
    let is_avoided = |server: &T| {
        let address = address(server);
        avoided.iter().any(|avoided| avoided.as_str() == address)
    };
    if !suitable.iter().all(is_avoided) {
        suitable.retain(|server| !is_avoided(server));
    }
    suitable
}

#[cfg(test)]
mod tests;

//! Which servers the selection for a retry avoids if it can (server selection since 2023:
//! deprioritized servers).

use reattempt::{AttemptOutcome, Backend, CallContext};

use crate::reasons::MONGODB_SYSTEM_OVERLOADED;

/// Which failed servers a retry avoids. Never a ban: if no other server is suitable, they are
/// selected again ([`unless_all`]).
///
/// For the client below the retry layer, which knows the topology and selects the server. It has to
/// report the server of each attempt
/// ([`AttemptReporter::backend`](reattempt::AttemptReporter::backend)).
///
/// | | sharded cluster | replica set and others |
/// | --- | --- | --- |
/// | [`Deprioritized::seed_2022`] (default) | none | none |
/// | [`Deprioritized::current`] | every mongos that failed | none |
/// | … with [`overload_retargeting`](Deprioritized::overload_retargeting) | every mongos that failed | servers that were overloaded |
///
/// A replica set member that failed in another way is not avoided: with `primaryPreferred` the read
/// would silently go to a secondary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deprioritized {
    sharded: bool,
    overloaded: bool,
}

impl Deprioritized {
    /// Avoids no server.
    #[must_use]
    pub const fn seed_2022() -> Self {
        Self {
            sharded: false,
            overloaded: false,
        }
    }

    /// The specification of 2026: in a sharded cluster, avoids every mongos that failed.
    #[must_use]
    pub const fn current() -> Self {
        Self {
            sharded: true,
            overloaded: false,
        }
    }

    /// `enableOverloadRetargeting`: with any topology, also avoids servers that failed with
    /// `SystemOverloadedError`; off by default. Needs a classifier
    /// [with overload errors](crate::MongoClassifier::with_overload_errors), which identifies them.
    #[must_use]
    pub const fn overload_retargeting(mut self, on: bool) -> Self {
        self.overloaded = on;
        self
    }

    /// The servers that this context's attempt avoids, each once, in the order in which they
    /// failed. They accumulate over the attempts of a call; in a call with very many attempts only
    /// the last ones count.
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

/// The suitable servers without the avoided ones; all of them if none would remain, as with a
/// single node.
///
/// ```
/// use reattempt::Backend;
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

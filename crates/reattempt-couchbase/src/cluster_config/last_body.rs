//! The last configuration in a not-my-vbucket response.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reattempt::config::Faults;

use super::ClusterConfig;

/// Parses a configuration once although a node repeats it with every request that it refuses.
///
/// For one store: a configuration that was offered to it does not become newer by a second offer,
/// whichever node sent it.
#[derive(Default)]
pub(super) struct LastBody(Mutex<Option<Arc<Parsed>>>);

struct Parsed {
    body: Box<[u8]>,
    config: Arc<ClusterConfig>,
}

impl LastBody {
    /// The configuration in this body, as in [`ClusterConfig::parse`].
    pub(super) fn parse(&self, body: &[u8], origin: &str) -> Result<Arc<ClusterConfig>, Faults> {
        // Compared without the lock, which other calls need as well.
        let last = self.last().clone();
        if let Some(last) = last.filter(|last| *last.body == *body) {
            return Ok(Arc::clone(&last.config));
        }
        let config = Arc::new(ClusterConfig::parse(body, origin)?);
        *self.last() = Some(Arc::new(Parsed {
            body: body.into(),
            config: Arc::clone(&config),
        }));
        Ok(config)
    }

    fn last(&self) -> MutexGuard<'_, Option<Arc<Parsed>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Without the body.
impl fmt::Debug for LastBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastBody").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bucket;

    #[test]
    fn a_body_that_is_repeated_is_parsed_once() {
        let last = LastBody::default();
        let parse = |rev| last.parse(bucket(1, rev, 3, 0).as_bytes(), "").unwrap();
        let first = parse(1);
        assert!(Arc::ptr_eq(&first, &parse(1)));
        last.parse(b"junk", "").unwrap_err();
        assert!(Arc::ptr_eq(&first, &parse(1)), "it is the last one still");
        assert_eq!(parse(2).revision().rev, 2);
        assert!(!Arc::ptr_eq(&first, &parse(1)), "only one is kept");
    }
}

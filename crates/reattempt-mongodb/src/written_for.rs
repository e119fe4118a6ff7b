//! The wire version that a command was written for (Sending an equivalent command for the second
//! attempt, 2).

use std::sync::{Arc, OnceLock};

/// For a client that does not write its commands anew for each server: refuses to send one to an
/// older server than it was written for.
///
/// One per operation, in the logical request, so that all attempts share it. A client that does
/// write them anew needs none of this; it answers
/// [`FailureKind::NotSupported`](crate::FailureKind::NotSupported) when that fails.
///
/// ```
/// use reattempt_mongodb::WrittenFor;
///
/// let written = WrittenFor::default();
/// assert!(written.may_send_to(8), "the first server");
/// assert!(written.may_send_to(9));
/// assert!(
///     !written.may_send_to(7),
///     "fail with FailureKind::NotSupported: the original error is raised"
/// );
/// ```
#[derive(Clone, Debug, Default)]
pub struct WrittenFor(Arc<OnceLock<i32>>);

impl WrittenFor {
    /// May the command go to a server of this `maxWireVersion`? The first one asked about is the
    /// one it is written for.
    #[must_use]
    pub fn may_send_to(&self, max_wire_version: i32) -> bool {
        max_wire_version >= *self.0.get_or_init(|| max_wire_version)
    }
}

//! The wire version that a command was encoded for (Sending an equivalent command for the second
//! attempt, 2).

use std::sync::{Arc, OnceLock};

/// For a client that does not encode its commands again for each server: refuses to send a command
/// to an older server than it was encoded for.
///
/// One per operation, in the logical request, so that all attempts share it. A client that encodes
/// its commands again does not need it; it returns
/// [`FailureKind::NotSupported`](crate::FailureKind::NotSupported) when that fails.
///
/// ```
/// use reattempt_mongodb::WrittenFor;
///
/// let written = WrittenFor::default();
/// assert!(written.may_send_to(8), "the first server");
/// assert!(written.may_send_to(9));
/// let second_attempt = written.clone();
/// assert!(
///     !second_attempt.may_send_to(7),
///     "fail with FailureKind::NotSupported: the original error is raised"
/// );
/// ```
#[derive(Clone, Debug, Default)]
pub struct WrittenFor(Arc<OnceLock<i32>>);

impl WrittenFor {
    /// Whether the command may be sent to a server of this `maxWireVersion`. The first version
    /// passed is the one that the command was encoded for.
    #[must_use]
    pub fn may_send_to(&self, max_wire_version: i32) -> bool {
        max_wire_version >= *self.0.get_or_init(|| max_wire_version)
    }
}

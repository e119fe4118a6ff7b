//! The words of a failure: its reason, its stage, what the server asks for, and whether the request
//! may take effect twice.

/// Defines retry reasons: `NAME(allows_non_idempotent_retry, always_retry);`, followed by what else
/// holds of it: `, answer` for the server's answer to the request ([`ReasonDef::answer`]),
/// `, not_accepted` if no server took it ([`ReasonDef::not_accepted`]), and `, overload`,
/// `, unsent` or `, request` for its [class](reason::ReasonClass).
///
/// ```
/// use reattempt::reason::ReasonClass;
///
/// reattempt::retry_reasons! {
///     /// The shard is being moved.
///     pub SHARD_MOVING(true, false);
///     /// The shard has too many requests.
///     pub SHARD_BUSY(true, false, overload);
/// }
/// assert_eq!(SHARD_MOVING.name(), "SHARD_MOVING");
/// assert!(SHARD_MOVING.allows_non_idempotent_retry());
/// assert_eq!(SHARD_MOVING.class(), ReasonClass::Transient);
/// assert_eq!(SHARD_BUSY.class(), ReasonClass::Overload);
/// ```
#[macro_export]
macro_rules! retry_reasons {
    ($($(#[$meta:meta])* $vis:vis $name:ident($non_idempotent:expr, $always:expr $(, $trait:ident)*);)*) => {$(
        $(#[$meta])*
        $vis const $name: $crate::RetryReason = {
            static DEF: $crate::ReasonDef =
                $crate::ReasonDef::new(stringify!($name), $non_idempotent, $always)$(.$trait())*;
            $crate::RetryReason::from_def(&DEF)
        };
    )*};
}

mod idempotency;
mod pushback;
pub mod reason;
mod stage;

pub use idempotency::Idempotency;
pub use pushback::ServerPushback;
pub use reason::{ReasonDef, RetryReason};
pub use stage::Stage;

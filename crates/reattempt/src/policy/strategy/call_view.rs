//! What a strategy may ask about its call.

use std::any::{Any, TypeId};
use std::fmt::Debug;

use crate::RetryInfo;
use crate::attempt::Backend;

/// What a strategy may ask about its call, and in part a hedge delay
/// ([`HedgeView`](crate::policy::hedge::HedgeView)). Implemented for
/// [`CallContext`](crate::CallContext), and for `()`, which has no history and no data.
pub trait CallView: Debug {
    /// What happened in the call before the failure.
    fn info(&self) -> RetryInfo;

    /// The user data of the type with this id.
    fn data(&self, of: TypeId) -> Option<&(dyn Any + Send + Sync)>;

    /// The name of the call's [`RoutePolicy`](crate::RoutePolicy); empty without one.
    fn route(&self) -> &str {
        ""
    }

    /// Where this attempt was sent, if that was reported.
    fn backend(&self) -> Option<Backend> {
        None
    }
}

impl CallView for () {
    fn info(&self) -> RetryInfo {
        RetryInfo::default()
    }

    fn data(&self, _: TypeId) -> Option<&(dyn Any + Send + Sync)> {
        None
    }
}

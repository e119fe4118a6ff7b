//! Shared and boxed strategies.

use std::sync::Arc;
use std::time::Duration;

use super::{Decision, RetryStrategy, RetryView, Surface};
use crate::{Failure, OnDeadline};

macro_rules! by_reference {
    ($($t:ty),*) => {$(
        impl<S: RetryStrategy + ?Sized> RetryStrategy for $t {
            fn decide(&self, view: &RetryView<'_>) -> Decision {
                (**self).decide(view)
            }
            fn max_attempts(&self) -> Option<u32> {
                (**self).max_attempts()
            }
            fn on_deadline(&self) -> Option<OnDeadline> {
                (**self).on_deadline()
            }
            fn delay_asked(&self, failure: &Failure, asked: Duration, own: Duration) -> Duration {
                (**self).delay_asked(failure, asked, own)
            }
            fn holds(&self) -> bool {
                (**self).holds()
            }
            fn surface(&self, held: &Failure, new: &Failure) -> Surface {
                (**self).surface(held, new)
            }
        }
    )*};
}
by_reference!(Arc<S>, Box<S>);

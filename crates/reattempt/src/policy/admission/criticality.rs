//! How much it matters that a call is sent.

use std::fmt;

/// How much it matters that a call is sent: the lowest is refused first (Google SRE, Handling
/// Overload, Criticality).
///
/// ```
/// use reattempt::{CallContext, admission::Criticality};
///
/// let mut context = CallContext::default();
/// assert_eq!(context.criticality(), Criticality::CRITICAL);
/// context.set_criticality(Criticality::SHEDDABLE);
/// assert_eq!(context.criticality().number(), 0);
/// assert_eq!(Criticality::new(7), Criticality::CRITICAL_PLUS);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Criticality(u8);

impl Criticality {
    /// 0: batch work, for which an outage for minutes or hours is expected.
    pub const SHEDDABLE: Self = Self(0);
    /// 1: batch work, for which it is not.
    pub const SHEDDABLE_PLUS: Self = Self(1);
    /// 2, the default: users see the failure.
    pub const CRITICAL: Self = Self(2);
    /// 3: the failure would be grave.
    pub const CRITICAL_PLUS: Self = Self(3);

    /// The criticality with this number; a larger one than 3 is 3.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        if number > 3 {
            Self::CRITICAL_PLUS
        } else {
            Self(number)
        }
    }

    /// The number, from 0 to 3.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl Default for Criticality {
    fn default() -> Self {
        Self::CRITICAL
    }
}

impl fmt::Debug for Criticality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Criticality({})", self.0)
    }
}

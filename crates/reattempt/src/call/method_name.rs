//! `MethodName`: the name of an operation, small enough for every context.

use std::num::NonZeroU16;
use std::sync::{PoisonError, RwLock};

/// At most this many names: those of operations are a known set.
const MOST_NAMES: usize = 10_000;

static NAMES: RwLock<Vec<&'static str>> = RwLock::new(Vec::new());

/// The name of a call's method for the log, such as `GET` of a key-value request: for requests that
/// cannot say it themselves ([`HasCallContext::subject`](crate::HasCallContext::subject)). Set by
/// [`CallContext::set_method`](crate::CallContext::set_method).
///
/// ```
/// use reattempt::MethodName;
///
/// let get = MethodName::new("GET").expect("one of few names");
/// assert_eq!(get.name(), "GET");
/// assert_eq!(MethodName::new("GET"), Some(get));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MethodName(NonZeroU16);

impl MethodName {
    /// The name, which the process keeps: make it once, not for each call. `None` beyond 10,000
    /// names.
    #[must_use]
    pub fn new(name: &'static str) -> Option<Self> {
        let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
        let at = match names.iter().position(|known| *known == name) {
            Some(at) => at,
            None if names.len() < MOST_NAMES => {
                names.push(name);
                names.len() - 1
            }
            None => return None,
        };
        Self::of_number(u16::try_from(at + 1).ok()?)
    }

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
        let at = usize::from(self.0.get()) - 1;
        names.get(at).copied().unwrap_or_default()
    }

    pub(crate) const fn number(self) -> u16 {
        self.0.get()
    }

    /// `None` for 0.
    pub(crate) const fn of_number(number: u16) -> Option<Self> {
        match NonZeroU16::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

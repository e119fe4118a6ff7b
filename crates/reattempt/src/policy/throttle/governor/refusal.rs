//! Why a governor refuses.

use std::fmt;

use super::word::MILLI;
use crate::failure::reason::ReasonClass;

/// Why a governor refuses a further attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// What the failure says about the server; `None` for a hedge that no failure led to.
    pub class: Option<ReasonClass>,
    /// The level, in thousandths of a token.
    pub milli_level: u32,
    /// The level that has to be exceeded.
    pub milli_above: u32,
    /// What the budget holds.
    pub milli_budget: u32,
    /// What the further attempt would pay of it.
    pub milli_price: u32,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens = |milli: u32| f64::from(milli) / f64::from(MILLI);
        match self.class {
            Some(class) => write!(f, "after {}: ", class.name())?,
            None => f.write_str("hedge: ")?,
        }
        if self.milli_level <= self.milli_above {
            let (level, above) = (tokens(self.milli_level), tokens(self.milli_above));
            write!(f, "the level of {level} is not above {above}")
        } else {
            let (budget, price) = (tokens(self.milli_budget), tokens(self.milli_price));
            write!(f, "the budget of {budget} is below {price}")
        }
    }
}

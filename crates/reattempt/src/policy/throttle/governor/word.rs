//! Both balances of a governor and its configuration in one word.

pub(super) const MILLI: u32 = 1000;
/// So that the level, at most twice the burst, fits in 20 bits.
pub(super) const MOST_BURST: u32 = 500;

/// A configuration that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidGovernor {
    /// The burst is outside of 1..=500 attempts.
    #[error("the burst of a governor must be from 1 to 500 attempts, got {0}")]
    Burst(u32),
    /// The ratio is outside of 1..=1000 thousandths.
    #[error("the ratio of a governor must be from 1 to 1000 thousandths, got {0}")]
    Ratio(u32),
}

/// What `Governor::word` holds: 20 bits for each balance and 10 for each setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// In thousandths of a token, as the next.
    pub(super) level: u32,
    pub(super) budget: u32,
    /// In tokens.
    pub(super) burst: u32,
    /// In thousandths of a token.
    pub(super) ratio: u32,
}

const BALANCE_BITS: u32 = 20;
pub(super) const BALANCES: u64 = (1 << (2 * BALANCE_BITS)) - 1;
const SETTING_BITS: u32 = 10;

impl Word {
    #[inline]
    pub(super) const fn unpack(word: u64) -> Self {
        let (balance, setting) = ((1 << BALANCE_BITS) - 1, (1 << SETTING_BITS) - 1);
        Self {
            level: (word & balance) as u32,
            budget: ((word >> BALANCE_BITS) & balance) as u32,
            burst: ((word >> (2 * BALANCE_BITS)) & setting) as u32,
            ratio: (word >> (2 * BALANCE_BITS + SETTING_BITS)) as u32,
        }
    }

    pub(super) const fn pack(self) -> u64 {
        self.level as u64
            | (self.budget as u64) << BALANCE_BITS
            | (self.burst as u64) << (2 * BALANCE_BITS)
            | (self.ratio as u64) << (2 * BALANCE_BITS + SETTING_BITS)
    }

    pub(super) const fn full(burst: u32, ratio: u32) -> Self {
        let most = burst * MILLI;
        Self {
            level: 2 * most,
            budget: most,
            burst,
            ratio,
        }
    }

    pub(super) const fn checked(burst: u32, ratio: u32) -> Result<Self, InvalidGovernor> {
        if burst == 0 || burst > MOST_BURST {
            return Err(InvalidGovernor::Burst(burst));
        }
        if ratio == 0 || ratio > MILLI {
            return Err(InvalidGovernor::Ratio(ratio));
        }
        Ok(Self::full(burst, ratio))
    }

    /// The level at which no further attempt is allowed.
    pub(super) const fn half(self) -> u32 {
        self.burst * MILLI
    }

    pub(super) fn earn(self) -> Self {
        Self {
            level: (self.level + self.ratio).min(2 * self.half()),
            ..self.earn_budget()
        }
    }

    /// A lone failure says nothing good of the server.
    pub(super) fn earn_budget(self) -> Self {
        Self {
            budget: (self.budget + self.ratio).min(self.burst * MILLI),
            ..self
        }
    }

    /// With a further attempt paid at this price, if it is allowed.
    pub(super) fn pay(self, price: u32) -> Option<Self> {
        let is_open = self.level > self.half();
        is_open.then(|| self.pay_at_any_level(price)).flatten()
    }

    fn pay_at_any_level(self, price: u32) -> Option<Self> {
        let budget = self.budget.checked_sub(price)?;
        Some(Self { budget, ..self })
    }

    /// With the retry of a lone failure paid.
    pub(super) fn pay_lone(self) -> Option<Self> {
        self.pay_at_any_level(MILLI)
    }
}

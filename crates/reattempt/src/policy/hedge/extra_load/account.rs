//! What may be spent in the long run.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// More than this many calls' share is never saved, and half of it never spent in advance. With
/// less effort it is less, by the square of the effort.
const AHEAD: f32 = 4096.0;

/// Fine enough for what a few hundred calls earn with the least effort.
const MILLIONTHS: f64 = 1e6;

/// Each call earns a part of a hedge, and each hedge costs one.
#[derive(Debug)]
pub(super) struct Account {
    share: f32,
    /// What a call earns, as an `f32`.
    rate: AtomicU32,
    /// Hedges.
    spent: AtomicU64,
    /// What was earned up to `at` calls, in millionths of a hedge.
    earned: AtomicU64,
    at: AtomicU64,
}

impl Account {
    /// This share of the calls, times an effort.
    pub(super) fn new(share: f32, effort: f32) -> Self {
        Self {
            share,
            rate: AtomicU32::new((share * effort).to_bits()),
            spent: AtomicU64::new(0),
            earned: AtomicU64::new(0),
            at: AtomicU64::new(0),
        }
    }

    /// What a call earns now.
    pub(super) fn rate(&self) -> f32 {
        f32::from_bits(self.rate.load(Ordering::Relaxed))
    }

    /// What was not spent up to this number of calls; negative if more was.
    fn saved(&self, calls: u64) -> f32 {
        let rate = self.rate();
        let since = calls.saturating_sub(self.at.load(Ordering::Relaxed));
        let spent = self.spent.load(Ordering::Relaxed) as f64;
        let earned = self.earned.load(Ordering::Relaxed) as f64 / MILLIONTHS;
        (earned - spent) as f32 + since as f32 * rate
    }

    fn ahead(&self, rate: f32) -> f32 {
        (AHEAD * rate * rate / self.share).max(1.0)
    }

    /// Whether one more may be spent, after this number of calls.
    pub(super) fn allows(&self, calls: u64) -> bool {
        self.saved(calls) > -self.ahead(self.rate()) / 2.0
    }

    /// One hedge is sent.
    pub(super) fn spend(&self) {
        self.spent.fetch_add(1, Ordering::Relaxed);
    }

    /// Goes on with this effort from this number of calls on. If the route has `changed`, most of
    /// what was saved is forgotten, because the change had left it. Returns the saved hedges. One
    /// caller at a time.
    pub(super) fn settle(&self, calls: u64, effort: f32, changed: bool) -> f32 {
        let rate = self.share * effort;
        let ahead = self.ahead(rate);
        let most = if changed { ahead / 8.0 } else { ahead };
        let saved = self.saved(calls).clamp(-ahead / 2.0 - 1.0, most);
        let spent = self.spent.load(Ordering::Relaxed) as f64;
        let earned = (spent + f64::from(saved)).max(0.0);
        self.earned
            .store((earned * MILLIONTHS).round() as u64, Ordering::Relaxed);
        self.at.store(calls, Ordering::Relaxed);
        self.rate.store(rate.to_bits(), Ordering::Relaxed);
        saved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(account: &Account, calls: std::ops::Range<u64>) -> usize {
        let spend = |call: &u64| {
            let allowed = account.allows(*call);
            if allowed {
                account.spend();
            }
            allowed
        };
        calls.filter(spend).count()
    }

    #[test]
    fn no_more_than_the_share_is_spent() {
        let account = Account::new(0.05, 1.0);
        let spent = spent(&account, 0..100_000);
        assert!((5000..=5000 + 103).contains(&spent), "{spent}");
    }

    #[test]
    fn what_was_not_spent_is_not_saved_for_ever() {
        let account = Account::new(0.05, 1.0);
        assert!(account.settle(1_000_000, 1.0, false) < 205.0);
        let spent = spent(&account, 1_000_000..1_001_000);
        assert!((300..=50 + 205 + 103).contains(&spent), "{spent}");
    }

    #[test]
    fn what_a_change_left_unspent_is_forgotten() {
        let account = Account::new(0.05, 1.0);
        assert!(account.settle(1_000_000, 1.0, true) < 26.0);
    }

    #[test]
    fn little_effort_spends_little_in_advance() {
        let account = Account::new(0.1, 1.0 / 1024.0);
        assert_eq!(spent(&account, 0..1000), 1);
        account.settle(1000, 1.0, false);
        assert!(spent(&account, 1000..2000) > 200);
        // What was spent in advance is forgiven, but for one.
        assert!(account.settle(2000, 1.0 / 1024.0, false) >= -1.5);
    }
}

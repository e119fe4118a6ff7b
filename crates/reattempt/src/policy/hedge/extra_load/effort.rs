//! Which part of the share is spent.

/// Hedges of which it is known whether they won, before the effort changes.
const TRIALS: u32 = 8;
/// The effort at which it begins, and the least with which it still tries.
pub(super) const CAUTIOUS: f32 = 0.25;
const LEAST: f32 = 1.0 / 1024.0;
/// A hedge pays if it wins at least this part of how often it would win against an independent
/// server.
const PAYS: f32 = 0.6;
/// In a queue that all attempts wait in, it wins hardly ever and makes the queue longer: at most
/// this part. It fails once that is so much more probable than independence (a logarithm).
const FAILS: f32 = 0.25;
const SURE: f32 = 4.0;
/// Judgements without a burst, after which a burst that comes with a change is that change.
const LONG: u32 = 32;
/// Slow attempts come in bursts if this part of them follows another closely, and do not below the
/// second: of independent ones 0.22 do.
const QUEUE: f32 = 0.34;
const NO_QUEUE: f32 = 0.29;
pub(super) const CALM: f32 = 0.26;
/// The most estimates that it waits before more is spent.
const MOST_PATIENCE: u32 = 64;

#[derive(Debug)]
pub(super) struct Effort {
    /// The part of the share that is spent.
    pub(super) spent: f32,
    /// The same while attempts do not wait for each other.
    level: f32,
    /// The estimates since they began to wait for each other.
    queued: u32,
    /// The estimates since they no longer do, and how many it takes until more is spent: twice as
    /// many each time.
    calm: u32,
    patience: u32,
    /// The level before they began to, if that came after a long calm.
    before: Option<f32>,
    /// Hedges since the last judgement, those that won, and how many would have won against an
    /// independent server.
    trials: u32,
    won: f32,
    expected: f32,
}

impl Effort {
    pub(super) const fn new() -> Self {
        Self {
            spent: CAUTIOUS,
            level: CAUTIOUS,
            queued: 0,
            calm: 0,
            patience: 1,
            before: None,
            trials: 0,
            won: 0.0,
            expected: 0.0,
        }
    }

    /// Counts further hedges: those that ended the call, and those that did not. Against an
    /// independent server this part would have.
    pub(super) fn tried(&mut self, won: u32, lost: u32, if_independent: f32) {
        self.trials = self.trials.saturating_add(won.saturating_add(lost));
        self.won += won as f32;
        self.expected += if_independent * won.saturating_add(lost) as f32;
    }

    fn pays(&self) -> bool {
        self.trials >= TRIALS && self.won >= PAYS * self.expected - 0.5 * self.expected.sqrt()
    }

    /// Wins are rare events: their number is as Poisson's.
    fn fails(&self) -> bool {
        self.expected * (1.0 - FAILS) + self.won * FAILS.ln() > SURE
    }

    fn forget_trials(&mut self) {
        (self.trials, self.won, self.expected) = (0, 0.0, 0.0);
    }

    /// No burst so far, and for long.
    const fn was_calm(&self) -> bool {
        self.patience == 1 && self.calm >= LONG
    }

    /// The route changed. True if the last burst was that change, and no queue.
    pub(super) fn changed(&mut self) -> bool {
        let Some(level) = self.before.take() else {
            return self.was_calm();
        };
        (self.level, self.spent) = (level, level);
        (self.queued, self.calm, self.patience) = (0, LONG, 1);
        self.forget_trials();
        true
    }

    /// Judges by the share of slow attempts that come in `bursts`, by whether some attempts are
    /// much slower than most (asked only where bursts are not rare), and by how hedges ended. True
    /// if another part is spent from now on.
    pub(super) fn judge(&mut self, bursts: f32, outliers: impl FnOnce() -> bool) -> bool {
        let before = self.spent;
        // In a queue the slow attempts are those that waited: hardly any is much slower than the
        // others, and they come together. Where some are much slower, a hedge pays also in bursts.
        let rare = bursts < CALM;
        let outliers = !rare && outliers();
        let queue = bursts > QUEUE && !outliers;
        let calm = outliers || bursts < NO_QUEUE;
        if queue || self.fails() {
            if self.queued == 0 {
                self.before = self.was_calm().then_some(self.level);
                self.patience = (2 * self.patience).min(MOST_PATIENCE);
            }
            // A passing burst costs half; one that stays costs all.
            if self.queued % 4 == 0 {
                self.level /= 2.0;
            }
            self.queued = self.queued.saturating_add(1);
            self.calm = 0;
            self.spent /= 4.0;
            self.forget_trials();
        } else if calm {
            self.calm = self.calm.saturating_add(1);
            if self.calm > self.patience {
                (self.queued, self.before) = (0, None);
                // With so little effort trials would take long.
                let tries = self.level < CAUTIOUS && (outliers || rare);
                if self.spent < self.level {
                    self.spent *= 4.0;
                } else if tries || self.pays() {
                    self.level *= 2.0;
                    self.spent = self.level;
                    self.forget_trials();
                    // A queue answers late to what is added.
                    if self.patience > 1 {
                        self.calm = 0;
                    }
                }
            }
        }
        self.level = self.level.clamp(LEAST, 1.0);
        self.spent = self.spent.clamp(LEAST, self.level);
        self.spent != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of close slow attempts of independent ones, and of attempts in a queue.
    const INDEPENDENT: f32 = 0.22;
    const IN_A_QUEUE: f32 = 0.8;

    /// Judges this often; half of eight hedges won each time, as expected.
    fn judged(effort: &mut Effort, times: u32, bursts: f32, outliers: bool) {
        for _ in 0..times {
            effort.tried(4, 4, 0.5);
            effort.judge(bursts, || outliers);
        }
    }

    #[test]
    fn all_is_spent_once_hedges_win() {
        let mut effort = Effort::new();
        assert_eq!(effort.spent, CAUTIOUS);
        judged(&mut effort, 10, INDEPENDENT, false);
        assert_eq!(effort.spent, 1.0);
    }

    #[test]
    fn little_effort_grows_without_trials() {
        let mut effort = Effort::new();
        judged(&mut effort, 100, IN_A_QUEUE, false);
        for _ in 0..1000 {
            effort.judge(INDEPENDENT, || false);
        }
        assert_eq!(effort.spent, CAUTIOUS);
    }

    #[test]
    fn in_a_queue_hardly_anything_is_spent() {
        let mut effort = Effort::new();
        judged(&mut effort, 100, IN_A_QUEUE, false);
        assert_eq!(effort.spent, LEAST);
    }

    #[test]
    fn in_bursts_with_outliers_hedges_pay() {
        let mut effort = Effort::new();
        judged(&mut effort, 10, IN_A_QUEUE, true);
        assert_eq!(effort.spent, 1.0);
    }

    #[test]
    fn hedges_that_do_not_win_end() {
        let mut effort = Effort::new();
        judged(&mut effort, 10, INDEPENDENT, false);
        for _ in 0..100 {
            effort.tried(0, 8, 0.5);
            effort.judge(INDEPENDENT, || false);
        }
        assert!(effort.spent < CAUTIOUS / 8.0, "{}", effort.spent);
    }

    #[test]
    fn each_queue_makes_it_wait_longer() {
        let mut effort = Effort::new();
        judged(&mut effort, 10, INDEPENDENT, false);
        let mut recovery = || {
            judged(&mut effort, 4, IN_A_QUEUE, false);
            (1..1000)
                .find(|_| {
                    judged(&mut effort, 1, INDEPENDENT, false);
                    effort.spent == 1.0
                })
                .unwrap()
        };
        let (first, second) = (recovery(), recovery());
        assert!(second > first, "{first}, {second}");
        let many = (0..10).map(|_| recovery()).last().unwrap();
        assert!(many < 2 * MOST_PATIENCE + 20, "{many}: there is a bound");
    }

    #[test]
    fn a_burst_that_was_a_change_costs_nothing() {
        let mut effort = Effort::new();
        judged(&mut effort, LONG + 10, INDEPENDENT, false);
        judged(&mut effort, 2, IN_A_QUEUE, false);
        assert!(effort.spent < 1.0);
        assert!(effort.changed());
        assert_eq!(effort.spent, 1.0);
        judged(&mut effort, 100, IN_A_QUEUE, false);
        judged(&mut effort, 3, INDEPENDENT, false);
        assert!(!effort.changed(), "there was a queue");
    }
}

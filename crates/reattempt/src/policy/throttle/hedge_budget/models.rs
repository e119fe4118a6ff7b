//! Every interleaving of two threads on one budget.

use loom::sync::Arc;
use loom::thread;

use super::*;

#[test]
fn of_two_threads_one_gets_the_last_token() {
    loom::model(|| {
        let budget = Arc::new(HedgeBudget::of_thousandths(100).unwrap());
        let other = {
            let budget = Arc::clone(&budget);
            thread::spawn(move || budget.spend(None))
        };
        let mine = budget.spend(None);
        assert_ne!(mine, other.join().unwrap());
        assert_eq!(budget.milli_tokens(), Some(0));
    });
}

#[test]
fn tokens_earned_while_a_hedge_is_paid_are_not_lost() {
    loom::model(|| {
        let budget = Arc::new(HedgeBudget::of_thousandths(100).unwrap());
        let other = {
            let budget = Arc::clone(&budget);
            thread::spawn(move || budget.settled(Settled::Success))
        };
        assert!(budget.spend(None));
        other.join().unwrap();
        assert_eq!(budget.milli_tokens(), Some(100));
    });
}

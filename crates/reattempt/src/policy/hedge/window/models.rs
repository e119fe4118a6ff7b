//! Every interleaving of two callers.

use loom::sync::Arc;
use loom::thread;

use super::*;

fn sum(window: &Window) -> u32 {
    let slots = window.slots.iter();
    slots
        .map(|slot| u32::from(Slot::unpack(slot.load(Ordering::Relaxed)).hedges))
        .sum()
}

#[test]
fn two_never_both_take_the_last_hedge() {
    loom::model(|| {
        let window = Arc::new(Window::new());
        for _ in 1..LEAST {
            assert!(window.take(0, 0, 0.01, 1.0).is_ok());
        }
        let other = Arc::clone(&window);
        let there = thread::spawn(move || other.take(0, 0, 0.01, 1.0).is_ok());
        let here = window.take(0, 0, 0.01, 1.0).is_ok();
        let there = there.join().unwrap();
        assert!(!(here && there));
        // What was refused was returned.
        assert_eq!(sum(&window), LEAST - 1 + u32::from(here) + u32::from(there));
    });
}

#[test]
fn a_slot_that_two_begin_loses_no_hedge() {
    loom::model(|| {
        let window = Arc::new(Window::new());
        let other = Arc::clone(&window);
        let there = thread::spawn(move || other.take(0, 0, 0.01, 1.0).is_ok());
        assert!(window.take(0, 0, 0.01, 1.0).is_ok());
        assert!(there.join().unwrap());
        assert_eq!(sum(&window), 2);
    });
}

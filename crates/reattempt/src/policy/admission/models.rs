//! Every interleaving of a few threads on one window.

use loom::sync::Arc;
use loom::thread;

use super::window::Window;
use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn no_call_is_lost_also_when_a_part_begins() {
    loom::model(|| {
        let window = Arc::new(Window::new(SECOND));
        // Of a part that has left the window, and stands in the same words.
        window.add(Duration::ZERO, Criticality::CRITICAL, true);
        let other = {
            let window = Arc::clone(&window);
            thread::spawn(move || window.add(SECOND, Criticality::CRITICAL, true))
        };
        window.add(SECOND, Criticality::CRITICAL, false);
        other.join().unwrap();
        let counts = window.counts(SECOND);
        assert_eq!((counts.requests[2], counts.accepts[2]), (2, 1));
    });
}

#[test]
fn one_thread_has_the_call_of_a_second() {
    loom::model(|| {
        let admission = Arc::new(Admission::default());
        let other = {
            let admission = Arc::clone(&admission);
            thread::spawn(move || admission.is_probe(Duration::ZERO, Criticality::CRITICAL))
        };
        let own = admission.is_probe(Duration::ZERO, Criticality::CRITICAL);
        assert!(own ^ other.join().unwrap());
    });
}

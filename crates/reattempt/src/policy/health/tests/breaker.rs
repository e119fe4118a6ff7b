//! The circuit breaker: one backend, refused while it fails.

use super::*;

struct Circuit {
    breaker: CircuitBreaker,
    now: Instant,
}

fn policy() -> HealthPolicy {
    HealthPolicy::standard()
        .base_ejection_time(5 * SECOND)
        .max_ejection_time(60 * SECOND)
}

impl Circuit {
    fn new() -> Self {
        let now = start();
        Self {
            breaker: CircuitBreaker::new(policy(), now),
            now,
        }
    }

    /// A circuit of five failures in a row, at the time of its trial.
    fn half_open() -> Self {
        let mut circuit = Self::new();
        (0..5).for_each(|_| circuit.call(Outcome::Failure).unwrap());
        circuit.now += 5 * SECOND;
        circuit
    }

    fn call(&mut self, outcome: Outcome) -> Result<(), CircuitState> {
        self.lasts(MS, outcome)
    }

    fn lasts(&mut self, time: Duration, outcome: Outcome) -> Result<(), CircuitState> {
        let sent = self.breaker.admit(self.now)?;
        self.now += time;
        self.breaker.ended(sent, self.now, outcome);
        Ok(())
    }

    fn is_open(&self) -> bool {
        matches!(self.state(), CircuitState::Open(_))
    }

    fn state(&self) -> CircuitState {
        self.breaker.state(self.now)
    }
}

#[test]
fn it_opens_refuses_tries_once_and_closes() {
    let mut circuit = Circuit::new();
    for _ in 0..5 {
        assert_eq!(circuit.state(), CircuitState::Closed);
        circuit.call(Outcome::Failure).unwrap();
    }
    let open = CircuitState::Open(5 * SECOND);
    assert_eq!(circuit.state(), open);
    assert_eq!(circuit.call(Outcome::Success), Err(open));
    circuit.now += 5 * SECOND;
    assert_eq!(circuit.state(), CircuitState::HalfOpen);
    let trial = circuit.breaker.admit(circuit.now).unwrap();
    assert_eq!(
        circuit.call(Outcome::Success),
        Err(CircuitState::HalfOpen),
        "one at a time"
    );
    circuit.breaker.ended(trial, circuit.now, Outcome::Success);
    assert_eq!(circuit.state(), CircuitState::Closed);
}

#[test]
fn a_lost_connection_opens_it_no_more_than_one_failure() {
    let mut circuit = Circuit::new();
    for _ in 0..4 {
        let admit = |_| circuit.breaker.admit(circuit.now).unwrap();
        let all: Vec<_> = (0..10).map(admit).collect();
        circuit.now += MS;
        for sent in all {
            circuit.breaker.ended(sent, circuit.now, Outcome::Lost);
        }
    }
    assert_eq!(circuit.state(), CircuitState::Closed);
    circuit.call(Outcome::Lost).unwrap();
    assert_eq!(circuit.state(), CircuitState::Open(5 * SECOND));
    circuit.now += 5 * SECOND;
    circuit.call(Outcome::Lost).unwrap();
    assert_eq!(circuit.state(), CircuitState::Open(10 * SECOND), "a trial");
}

#[test]
fn a_failed_trial_opens_it_for_longer() {
    let mut circuit = Circuit::new();
    (0..5).for_each(|_| circuit.call(Outcome::Failure).unwrap());
    for seconds in [10, 15, 20] {
        circuit.now += 60 * SECOND;
        circuit.call(Outcome::Failure).unwrap();
        assert_eq!(circuit.state(), CircuitState::Open(seconds * SECOND));
    }
}

#[test]
fn a_request_that_fails_by_itself_says_nothing() {
    let mut circuit = Circuit::new();
    (0..9).for_each(|_| circuit.call(Outcome::Nothing).unwrap());
    // Between failures it leaves their count, and as a trial the circuit.
    for outcome in [Outcome::Failure, Outcome::Nothing].repeat(4) {
        circuit.call(outcome).unwrap();
    }
    assert_eq!(circuit.state(), CircuitState::Closed);
    circuit.call(Outcome::Failure).unwrap();
    assert_eq!(circuit.state(), CircuitState::Open(5 * SECOND));
    circuit.now += 5 * SECOND;
    circuit.call(Outcome::Nothing).unwrap();
    assert_eq!(circuit.state(), CircuitState::HalfOpen);
}

#[test]
fn a_dropped_trial_leaves_it_to_the_next_call() {
    let mut circuit = Circuit::half_open();
    circuit.call(Outcome::Dropped).unwrap();
    assert_eq!(circuit.state(), CircuitState::HalfOpen);
    circuit.call(Outcome::Success).unwrap();
    assert_eq!(circuit.state(), CircuitState::Closed);
}

/// The connection that the client kept from before was closed, for example.
#[test]
fn a_trial_that_never_left_leaves_it_to_the_next_call() {
    let mut circuit = Circuit::half_open();
    for _ in 0..3 {
        circuit.call(Outcome::NeverSent).unwrap();
        assert_eq!(circuit.state(), CircuitState::HalfOpen);
    }
    let trial = circuit.breaker.admit(circuit.now).unwrap();
    let other = circuit.breaker.admit(circuit.now).unwrap_err();
    assert_eq!(other, CircuitState::HalfOpen, "one at a time");
    circuit.breaker.ended(trial, circuit.now, Outcome::Success);
    assert_eq!(circuit.state(), CircuitState::Closed);
}

#[test]
fn a_trial_dropped_after_a_long_silence_opens_it_again() {
    let mut circuit = Circuit::new();
    circuit.call(Outcome::Success).unwrap();
    (0..5).for_each(|_| circuit.call(Outcome::Failure).unwrap());
    circuit.now += 5 * SECOND;
    let trial = circuit.breaker.admit(circuit.now).unwrap();
    circuit.now += SECOND;
    circuit.breaker.ended(trial, circuit.now, Outcome::Dropped);
    assert_eq!(circuit.state(), CircuitState::Open(10 * SECOND));
}

/// What was dropped is no answer: it must not raise what counts as a long silence.
#[test]
fn silence_opens_it_also_after_some_attempts_were_dropped() {
    let mut circuit = Circuit::new();
    // A third of the attempts, so that nothing opens it.
    for _ in 0..20 {
        circuit.lasts(10 * MS, Outcome::Success).unwrap();
        circuit.lasts(10 * MS, Outcome::Success).unwrap();
        circuit.lasts(SECOND, Outcome::Dropped).unwrap();
    }
    circuit.lasts(10 * MS, Outcome::Success).unwrap();
    let until_open = (0..5).take_while(|_| circuit.lasts(SECOND, Outcome::Dropped).is_ok());
    assert_eq!(until_open.count(), 5);
    assert!(circuit.is_open());
}

#[test]
fn a_trial_that_hangs_does_not_keep_it_half_open() {
    let mut circuit = Circuit::half_open();
    let hangs = circuit.breaker.admit(circuit.now).unwrap();
    circuit.now += 5 * SECOND - MS;
    assert_eq!(
        circuit.call(Outcome::Success),
        Err(CircuitState::HalfOpen),
        "one opening's time"
    );
    circuit.now += MS;
    let next = circuit.breaker.admit(circuit.now).unwrap();
    assert!(circuit.breaker.admit(circuit.now).is_err(), "one at a time");
    // The first one's failure says nothing of now.
    circuit.breaker.ended(hangs, circuit.now, Outcome::Failure);
    assert_eq!(circuit.state(), CircuitState::HalfOpen);
    assert!(circuit.breaker.admit(circuit.now).is_err(), "one at a time");
    circuit.breaker.ended(next, circuit.now, Outcome::Success);
    assert_eq!(circuit.state(), CircuitState::Closed);
}

#[test]
fn a_share_of_failures_opens_it() {
    let mut circuit = Circuit::new();
    for _ in 0..11 {
        circuit.call(Outcome::Success).unwrap();
        circuit.call(Outcome::Failure).unwrap();
        circuit.call(Outcome::Failure).unwrap();
    }
    assert_eq!(circuit.state(), CircuitState::Closed);
    circuit.now += SECOND;
    assert!(circuit.call(Outcome::Success).is_err());
}

#[test]
fn a_backend_that_never_answers_opens_it() {
    let mut circuit = Circuit::new();
    circuit.call(Outcome::Success).unwrap();
    for _ in 0..5 {
        circuit.lasts(SECOND, Outcome::Dropped).unwrap();
    }
    assert!(circuit.is_open());
}

#[test]
fn a_backend_that_has_never_answered_opens_it() {
    let mut circuit = Circuit::new();
    for _ in 0..5 {
        assert_eq!(circuit.state(), CircuitState::Closed);
        circuit.lasts(SECOND + MS, Outcome::Dropped).unwrap();
    }
    assert!(circuit.is_open());
}

#[test]
fn closed_by_hand_it_goes_on_deciding() {
    let mut circuit = Circuit::new();
    (0..5).for_each(|_| circuit.call(Outcome::Failure).unwrap());
    circuit.breaker.close();
    circuit.call(Outcome::Success).unwrap();
    circuit.breaker.automatic();
    assert_eq!(circuit.state(), CircuitState::Closed, "it works again");

    circuit.breaker.close();
    for _ in 0..20 {
        circuit.call(Outcome::Failure).unwrap();
        circuit.call(Outcome::Failure).unwrap();
        circuit.call(Outcome::Success).unwrap();
    }
    circuit.now += SECOND;
    circuit.call(Outcome::Failure).unwrap();
    circuit.breaker.automatic();
    assert!(circuit.is_open(), "by the share of a second");
}

#[test]
fn it_is_switched_from_outside() {
    let mut circuit = Circuit::new();
    circuit.breaker.open();
    assert_eq!(
        circuit.call(Outcome::Success),
        Err(CircuitState::Open(Duration::MAX))
    );
    circuit.breaker.close();
    for _ in 0..50 {
        assert_eq!(circuit.call(Outcome::Failure), Ok(()));
    }
    assert_eq!(circuit.state(), CircuitState::Closed);
    circuit.breaker.automatic();
    assert!(circuit.is_open(), "it went on deciding");
}

#[test]
fn each_opening_and_closing_is_an_event() {
    use std::sync::{Arc, Mutex};
    let mut circuit = Circuit::new();
    circuit.breaker = circuit.breaker.with_name("shop");
    let seen = Arc::<Mutex<Vec<_>>>::default();
    let events = Arc::clone(&seen);
    circuit.breaker.on_event(move |event: &HealthEvent| {
        assert_eq!(event.name.as_deref(), Some("shop"));
        let seconds = event.ejected_for.map(|time| time.as_secs());
        let seen = (event.change.name(), event.cause.name(), seconds);
        events.lock().unwrap().push(seen);
    });
    let take = || std::mem::take(&mut *seen.lock().unwrap());
    (0..5).for_each(|_| circuit.call(Outcome::Failure).unwrap());
    assert_eq!(take(), [("opened", "failures_in_a_row", Some(5))]);
    circuit.now += 5 * SECOND;
    circuit.call(Outcome::Failure).unwrap();
    assert_eq!(take(), [("opened", "failed_trial", Some(10))]);
    circuit.breaker.close();
    assert_eq!(take(), [("closed", "by_hand", None)]);
    circuit.breaker.close();
    circuit.call(Outcome::Success).unwrap();
    circuit.breaker.automatic();
    assert_eq!(take(), [], "it was closed, and is");
    circuit.breaker.open();
    circuit.breaker.automatic();
    let by_hand = [("opened", "by_hand", None), ("closed", "by_hand", None)];
    assert_eq!(take(), by_hand);
    (0..5).for_each(|_| circuit.call(Outcome::Failure).unwrap());
    circuit.now += 60 * SECOND;
    circuit.call(Outcome::Success).unwrap();
    assert_eq!(take()[1], ("closed", "answered", None));
}

/// One endpoint of a server may be a hundred times slower than the others.
#[test]
fn a_few_slow_answers_do_not_excuse_a_silent_server() {
    let mut circuit = Circuit::new();
    let mut lasts = |time, outcome| circuit.lasts(time, outcome).unwrap();
    for answer in 0..400 {
        let time = if answer % 20 == 19 { 3000 } else { 5 };
        lasts(time * MS, Outcome::Success);
    }
    (0..5).for_each(|_| lasts(100 * MS, Outcome::TimedOut));
    assert_eq!(circuit.state(), CircuitState::Open(5 * SECOND));
}

/// Long polls and short calls of one server; then it hangs, and only short calls come.
#[test]
fn limits_shorter_than_usual_open_a_silent_circuit() {
    let mut circuit = Circuit::new();
    let lasts = |circuit: &mut Circuit, seconds: u32, outcome| {
        circuit.lasts(seconds * SECOND, outcome).unwrap();
    };
    (0..50).for_each(|_| lasts(&mut circuit, 5, Outcome::Success));
    // An answer begins the silence anew.
    for _ in 0..20 {
        (0..4).for_each(|_| lasts(&mut circuit, 1, Outcome::TimedOut));
        lasts(&mut circuit, 5, Outcome::Success);
    }
    let silent = (1..100).find(|_| {
        lasts(&mut circuit, 1, Outcome::TimedOut);
        circuit.is_open()
    });
    assert!((10..=11).contains(&silent.expect("it opens")), "{silent:?}");
    circuit.now += 60 * SECOND;
    circuit.lasts(100 * MS, Outcome::TimedOut).unwrap();
    assert_eq!(circuit.state(), CircuitState::HalfOpen, "it had no time");
    lasts(&mut circuit, 1, Outcome::TimedOut);
    assert!(circuit.is_open(), "the trial was as silent");
}

/// Of the first answer nothing is known that it could be compared with.
#[test]
fn the_first_answer_says_what_is_usual() {
    let mut circuit = Circuit::new();
    let mut lasts = |idle, time, outcome| {
        circuit.now += idle;
        circuit.lasts(time, outcome).unwrap();
    };
    lasts(MS, 200 * MS, Outcome::Success);
    // What is usual is looked at after a while.
    lasts(20 * SECOND, 200 * MS, Outcome::Success);
    (0..9).for_each(|_| lasts(MS, 100 * MS, Outcome::TimedOut));
    assert_eq!(circuit.state(), CircuitState::Closed);
}

/// A program that starts while the server hangs.
#[test]
fn limits_that_pass_before_any_answer_open_a_circuit() {
    let mut circuit = Circuit::new();
    // In the first second connections may have to be made.
    for _ in 0..50 + 5 {
        circuit.lasts(20 * MS, Outcome::TimedOut).unwrap();
    }
    assert!(circuit.is_open());
    // The same with a call now and then.
    let mut circuit = Circuit::new();
    for _ in 0..6 {
        circuit.lasts(20 * MS, Outcome::TimedOut).unwrap();
        circuit.now += 60 * SECOND;
    }
    assert_eq!(circuit.state(), CircuitState::HalfOpen);
}

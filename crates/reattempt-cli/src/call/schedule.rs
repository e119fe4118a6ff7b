//! Scheduling of a document's calls.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use reattempt::backoff::Randomness;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::answer::Answer;
use super::document::{Concurrency, Document, Fields, Head};
use super::load::{Late, Load};
use super::seed::{Seed, drawing};

/// Makes calls of one protocol through one stack of layers.
pub(crate) trait Caller: Send + Sync + 'static {
    /// The protocol's fields of a call.
    type Call: Clone + Send + 'static;

    /// Makes one call. The implementation handles cancellation, because a cancelled call has an
    /// answer.
    fn call(&self, head: Head, call: Self::Call) -> impl Future<Output = Answer> + Send;
}

/// A valid document, ready to run.
#[derive(Debug)]
pub(crate) struct Plan<C: Caller> {
    pub(crate) caller: C,
    pub(crate) calls: Vec<(Head, C::Call)>,
    pub(crate) concurrency: Concurrency,
    pub(crate) linger: Duration,
    /// What the calls draw from.
    pub(crate) seed: Seed,
}

impl<C: Caller> Plan<C> {
    /// Parses every call with `read` before any call is made, and before the caller is created,
    /// because a caller may connect at once. `None` if the document has a fault.
    pub(crate) fn new(
        document: Document,
        caller: impl FnOnce() -> Option<C>,
        read: impl Fn(&mut Fields) -> Option<C::Call>,
    ) -> Option<Self> {
        let found = document.found();
        document.rest.finish();
        let mut calls = Vec::with_capacity(document.calls.len());
        for (head, mut fields) in document.calls {
            calls.extend(read(&mut fields).map(|call| (head, call)));
            fields.finish();
        }
        if !found.is_empty() {
            return None;
        }
        Some(Self {
            caller: caller()?,
            calls,
            concurrency: document.concurrency,
            linger: document.linger,
            seed: document.seed,
        })
    }
}

/// Makes a call that draws from these numbers.
async fn one<C: Caller>(caller: &C, head: Head, call: C::Call, numbers: Randomness) -> Answer {
    if !head.start_delay.is_zero() {
        tokio::time::sleep(head.start_delay).await;
    }
    drawing(numbers, caller.call(head, call)).await
}

pub(crate) async fn one_after_another<C: Caller>(
    plan: Plan<C>,
    mut write: impl FnMut(&Answer) -> io::Result<()>,
) -> io::Result<Arc<C>> {
    for (head, call) in plan.calls {
        write(&one(&plan.caller, head, call, plan.seed.of_next_call()).await)?;
    }
    Ok(Arc::new(plan.caller))
}

pub(crate) async fn at_once<C: Caller>(
    plan: Plan<C>,
    mut write: impl FnMut(&Answer) -> io::Result<()>,
) -> io::Result<Arc<C>> {
    let caller = Arc::new(plan.caller);
    let mut calls = JoinSet::new();
    for (head, call) in plan.calls {
        let (caller, numbers) = (Arc::clone(&caller), plan.seed.of_next_call());
        calls.spawn(async move { one(&*caller, head, call, numbers).await });
    }
    while let Some(answer) = calls.join_next().await {
        write(&ended(answer)?)?;
    }
    Ok(caller)
}

fn ended<T>(call: Result<T, JoinError>) -> io::Result<T> {
    call.map_err(io::Error::other)
}

/// How long calls that were cut short may take to end.
const GRACE: Duration = Duration::from_secs(1);

/// The calls in flight, which end early if their user does not want to wait for them.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// Each with how late it began.
    calls: JoinSet<(Answer, Duration)>,
    interrupt: watch::Sender<()>,
    pub(crate) late: Late,
}

impl InFlight {
    /// Begins a call that should begin at `due`, if it is given.
    fn begin<C: Caller>(
        &mut self,
        caller: Arc<C>,
        mut head: Head,
        call: C::Call,
        numbers: Randomness,
        due: Option<Instant>,
    ) {
        head.interrupt = Some(self.interrupt.subscribe());
        self.calls.spawn(async move {
            // Not before: a task waits for a thread where the machine is too slow.
            let late = due.map_or(Duration::ZERO, |due| due.elapsed());
            (one(&*caller, head, call, numbers).await, late)
        });
    }

    async fn next(&mut self) -> Option<io::Result<Answer>> {
        let call = ended(self.calls.join_next().await?);
        Some(call.map(|(answer, late)| {
            self.late.add(late);
            answer
        }))
    }

    /// How many have not ended.
    pub(crate) fn count(&self) -> usize {
        self.calls.len()
    }

    /// Cancels the calls. Their answers have the attempts so far. A call that does not end is left
    /// in [`count`](Self::count).
    pub(crate) async fn cut_short(&mut self) -> Vec<Answer> {
        self.interrupt.send_replace(());
        let mut answers = Vec::new();
        let all = async {
            while let Some(answer) = self.next().await {
                answers.extend(answer.ok());
            }
        };
        // A call that does not end is not shown.
        let _ = timeout(GRACE, all).await;
        answers
    }
}

/// Makes the only call of a document as often as the load says, with at most this many in flight.
/// Answers are written as they complete.
pub(crate) async fn under_load<C: Caller>(
    plan: Plan<C>,
    load: Load,
    most: usize,
    in_flight: &mut InFlight,
    mut write: impl FnMut(&Answer) -> io::Result<()>,
) -> io::Result<Arc<C>> {
    let caller = Arc::new(plan.caller);
    let Some((head, call)) = plan.calls.into_iter().next() else {
        return Ok(caller);
    };
    let began = Instant::now();
    for number in 0.. {
        let begins = load.begins(number);
        if load.is_over(number, begins) {
            break;
        }
        let begins = began.checked_add(begins).unwrap_or(began);
        loop {
            let count = in_flight.calls.len();
            tokio::select! {
                biased;
                Some(answer) = in_flight.next(), if count > 0 => {
                    write(&answer?)?;
                }
                () = sleep_until(begins), if count < most => break,
            }
        }
        let elapsed = began.elapsed();
        if load.is_over(number, elapsed) {
            in_flight.late.never = load.left_out(number, elapsed);
            break;
        }
        let (caller, call) = (Arc::clone(&caller), call.clone());
        let head = Head {
            call: (number + 1).to_string(),
            ..head.clone()
        };
        let due = load.rate.map(|_| begins);
        in_flight.begin(caller, head, call, plan.seed.of_next_call(), due);
    }
    while let Some(answer) = in_flight.next().await {
        write(&answer?)?;
    }
    Ok(caller)
}

/// What comes of a call; `None` if its caller cancelled before, with `cancel_after_ms` of 0 before
/// anything was sent.
pub(crate) async fn unless_cancelled<T>(head: &Head, call: impl Future<Output = T>) -> Option<T> {
    if head.cancel_after == Some(Duration::ZERO) {
        return None;
    }
    tokio::select! {
        biased;
        outcome = call => Some(outcome),
        () = cancelled(head) => None,
    }
}

/// Waits until the caller cancels; forever without a cancellation.
async fn cancelled(head: &Head) {
    let after = async {
        match head.cancel_after {
            Some(after) => tokio::time::sleep(after).await,
            None => std::future::pending().await,
        }
    };
    let interrupted = async {
        if let Some(mut interrupt) = head.interrupt.clone() {
            // An error means that no one is left who could interrupt.
            if interrupt.changed().await.is_ok() {
                return;
            }
        }
        std::future::pending().await
    };
    tokio::select! {
        () = after => {}
        () = interrupted => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls that take a second.
    struct Slow;

    impl Caller for Slow {
        type Call = ();

        async fn call(&self, head: Head, (): ()) -> Answer {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Answer::unsent(head.call)
        }
    }

    /// Keeps the only thread busy for 300 ms.
    struct Busy;

    impl Caller for Busy {
        type Call = ();

        async fn call(&self, head: Head, (): ()) -> Answer {
            tokio::time::advance(Duration::from_millis(300)).await;
            Answer::unsent(head.call)
        }
    }

    /// The late ones of five calls, four per second.
    async fn late_of(caller: impl Caller<Call = ()>, most: usize) -> Late {
        late_within(caller, most, None).await
    }

    /// The same, while calls begin.
    async fn late_within(
        caller: impl Caller<Call = ()>,
        most: usize,
        duration: Option<Duration>,
    ) -> Late {
        let head = Head {
            call: String::new(),
            timeout: None,
            start_delay: Duration::ZERO,
            cancel_after: None,
            interrupt: None,
        };
        let plan = Plan {
            caller,
            calls: vec![(head, ())],
            concurrency: Concurrency::Sequential,
            linger: Duration::ZERO,
            seed: Seed::default(),
        };
        let load = Load {
            calls: Some(5),
            duration,
            rate: Some(4.0),
            at_once: false,
        };
        let mut in_flight = InFlight::default();
        let ended = under_load(plan, load, most, &mut in_flight, |_| Ok(())).await;
        ended.unwrap();
        in_flight.late
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_wait_for_a_place_are_counted_as_late() {
        assert_eq!(late_of(Slow, 5).await, Late::default());
        // Two places: the third to fifth calls are due before both of those before them have ended.
        let longest = Duration::from_secs(1);
        let late = late_of(Slow, 2).await;
        assert_eq!((late.calls, late.longest), (3, longest));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_never_get_a_place_are_counted() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(late_within(Slow, 5, second).await, Late::default());
        // The first one has its place until all are due, of which the fifth is one too late.
        assert_eq!(late_within(Slow, 1, second).await.never, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_a_busy_client_begins_late_are_counted() {
        // Each begins when the one before it has ended, 50 ms later than it should.
        let longest = Duration::from_millis(200);
        let late = late_of(Busy, 5).await;
        assert_eq!((late.calls, late.longest), (4, longest));
    }
}

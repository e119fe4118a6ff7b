//! Contenders that take turns in one run.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use tokio::task::JoinSet;

use crate::cpu::cpu_time;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A contender: a name, and a worker that makes calls one after another.
pub struct Case {
    name: &'static str,
    work: Box<dyn Fn(u32) -> Work>,
}

impl Case {
    /// `work` returns the future of one worker, which makes that many calls. Creating it is not
    /// part of a call's cost.
    pub fn new<F>(name: &'static str, work: impl Fn(u32) -> F + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self {
            name,
            work: Box::new(move |calls| Box::pin(work(calls))),
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Case").field(&self.name).finish()
    }
}

/// The length of a contest.
#[derive(Clone, Copy, Debug)]
pub struct Contest {
    /// Calls of one contender per round.
    pub calls: u32,
    /// The number of rounds.
    pub rounds: u32,
}

/// The result of one contender: medians over the rounds.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its name.
    pub name: &'static str,
    /// Calls in flight at once.
    pub in_flight: u32,
    /// The client's CPU time per call, in microseconds.
    pub micros: f64,
    /// The difference to the first contender in the same round, in microseconds.
    pub more: f64,
    /// The ratio to the first contender in the same round: lower quartile, median, upper quartile.
    pub ratio: [f64; 3],
}

/// A row of a Markdown table.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, middle, high] = self.ratio;
        write!(
            f,
            "| {} | {} | {:.2} | {:+.2} | {middle:.3} | {low:.3} to {high:.3} |",
            self.in_flight, self.name, self.micros, self.more
        )
    }
}

impl Figure {
    /// The header of the table.
    pub const HEAD: &str = "| in flight | contender | CPU a call, us | more than the first | ratio | quartiles |\n\
                            | ---: | --- | ---: | ---: | ---: | --- |";
}

impl Contest {
    /// Runs all contenders with this many calls in flight, after one warm-up round. Each round
    /// starts with another contender.
    pub async fn run(self, cases: &[Case], in_flight: u32) -> Vec<Figure> {
        let mut rounds: Vec<Vec<f64>> = Vec::new();
        for round in 0..=self.rounds {
            let mut micros = vec![0.0; cases.len()];
            for turn in 0..cases.len() {
                let at = (turn + round as usize) % cases.len();
                micros[at] = self.turn(&cases[at], in_flight).await;
            }
            if round > 0 {
                rounds.push(micros);
            }
        }
        let figure = |(at, case): (usize, &Case)| {
            let of =
                |value: &dyn Fn(&Vec<f64>) -> f64| quartiles(rounds.iter().map(value).collect());
            Figure {
                name: case.name,
                in_flight,
                micros: of(&|round| round[at])[1],
                more: of(&|round| round[at] - round[0])[1],
                ratio: of(&|round| round[at] / round[0]),
            }
        };
        cases.iter().enumerate().map(figure).collect()
    }

    /// The CPU time of one call, in microseconds.
    async fn turn(self, case: &Case, in_flight: u32) -> f64 {
        let each = (self.calls / in_flight).max(1);
        let before = cpu_time();
        let mut workers: JoinSet<()> = (0..in_flight).map(|_| (case.work)(each)).collect();
        while let Some(ended) = workers.join_next().await {
            ended.expect("calls that work");
        }
        let spent = cpu_time() - before;
        spent.as_secs_f64() * 1e6 / f64::from(each * in_flight)
    }
}

/// Lower quartile, median and upper quartile.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    [last / 4, last / 2, last - last / 4].map(|at| values.get(at).copied().unwrap_or(f64::NAN))
}

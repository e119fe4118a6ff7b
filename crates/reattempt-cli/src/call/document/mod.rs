//! The document of `reattempt call --json`: the fields shared by all protocols.

mod fields;
mod found;
#[cfg(test)]
mod tests;
mod values;

use std::fmt;
use std::time::Duration;

use reattempt::OnDeadline;
use reattempt::backoff::Randomness;
pub(crate) use reattempt::config::{Fault, Faults};
use serde::Deserialize;
use serde_json::Number;
use tokio::sync::watch;

pub(crate) use fields::Fields;
pub(crate) use found::Found;
pub(crate) use values::{Base64, Millis, OneOrMany, Whole, to_base64};

use super::seed::Seed;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Protocol {
    #[default]
    Grpc,
    Http,
    Kv,
    Mongodb,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Concurrency {
    #[default]
    Sequential,
    Parallel,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DeadlineChoice {
    Cap,
    GiveUp,
}

impl From<DeadlineChoice> for OnDeadline {
    fn from(choice: DeadlineChoice) -> Self {
        match choice {
            DeadlineChoice::Cap => Self::Cap,
            DeadlineChoice::GiveUp => Self::GiveUp,
        }
    }
}

/// The settings of the layers, shared by all protocols.
#[derive(Clone)]
pub(crate) struct Setup {
    /// Absent if it has a fault.
    pub(crate) target: Option<OneOrMany>,
    /// As the document says it, which beats any policy.
    pub(crate) on_deadline: Option<OnDeadline>,
    pub(crate) randomness: Randomness,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the target, which may contain a password.
        f.debug_struct("Setup")
            .field("on_deadline", &self.on_deadline)
            .field("randomness", &self.randomness)
            .finish_non_exhaustive()
    }
}

impl Setup {
    /// For strategies that say nothing of it themselves.
    pub(crate) fn on_deadline_or_cap(&self) -> OnDeadline {
        self.on_deadline.unwrap_or(OnDeadline::Cap)
    }
}

/// The fields common to calls of all protocols.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) call: String,
    pub(crate) timeout: Option<Duration>,
    pub(crate) start_delay: Duration,
    pub(crate) cancel_after: Option<Duration>,
    /// Changes when the user wants no further attempts; absent where no user can say so.
    pub(crate) interrupt: Option<watch::Receiver<()>>,
}

/// A document, with the fields of its protocol still unread.
#[derive(Debug)]
pub(crate) struct Document {
    /// Absent if it has a fault: then the other fields are those of no known protocol.
    pub(crate) protocol: Option<Protocol>,
    pub(crate) concurrency: Concurrency,
    pub(crate) linger: Duration,
    pub(crate) setup: Setup,
    /// What the calls draw from through [`Setup::randomness`].
    pub(crate) seed: Seed,
    pub(crate) calls: Vec<(Head, Fields)>,
    /// The fields of the protocol.
    pub(crate) rest: Fields,
}

/// How long connections stay open after the last call, by default.
const LINGER: Millis = Millis(Duration::from_millis(30));

/// The longest such time: a program that waits for this one's end waits for it, too.
const LONGEST_LINGER: Duration = Duration::from_secs(3600);

/// Maximum number of header names of a call. The header map of `http` panics when it is full, and
/// the layers add headers.
pub(crate) const MOST_NAMES: usize = 10_000;

impl Document {
    /// A document with the faults of its common fields in [`found`](Self::found).
    pub(crate) fn parse(text: &[u8]) -> Self {
        Self::of(Fields::of(text, "$", Found::default()))
    }

    /// The same of these fields.
    pub(crate) fn of(mut fields: Fields) -> Self {
        let calls = fields.list("calls").into_iter().enumerate();
        let calls = calls.map(|(place, call)| head(call, place)).collect();
        let on_deadline = fields.optional::<DeadlineChoice>("on_deadline");
        let seed = Seed::of(fields.optional("seed").as_ref().map(number_of_seed));
        let protocol = fields.or("protocol", Protocol::default());
        Self {
            protocol: (!fields.is_faulty("protocol")).then_some(protocol),
            concurrency: fields.or("concurrency", Concurrency::default()),
            linger: linger(&mut fields),
            setup: Setup {
                target: fields.required("target"),
                on_deadline: on_deadline.map(OnDeadline::from),
                randomness: seed.randomness(),
            },
            seed,
            calls,
            rest: fields,
        }
    }

    /// What is made of the target, for a protocol with a single server.
    pub(crate) fn one_target<T, E: fmt::Display>(
        &self,
        make: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let one = match self.setup.target.as_ref()? {
            OneOrMany::One(target) => Ok(target),
            OneOrMany::Many(targets) if targets.len() == 1 => Ok(&targets[0]),
            OneOrMany::Many(_) => Err("must be one target, not a list"),
        };
        let target = self.rest.accept("target", one)?;
        self.rest.accept("target", make(target))
    }

    /// The faults so far.
    pub(crate) fn found(&self) -> Found {
        self.rest.found.clone()
    }
}

fn linger(fields: &mut Fields) -> Duration {
    let Millis(linger) = fields.or("linger_ms", LINGER);
    if linger > LONGEST_LINGER {
        fields.wrong("linger_ms", "must be at most 3600000, an hour");
    }
    linger
}

/// Converts any number to a seed; equal numbers give equal seeds.
fn number_of_seed(number: &Number) -> u64 {
    if let Some(Whole(seed)) = Whole::of(number) {
        return seed;
    }
    // A negative one, also if it is written with a fraction of zero.
    let float = number.as_f64().unwrap_or_default();
    let negative = number.as_i64().map(|seed| seed as u64);
    match negative {
        None if float.fract() == 0.0 && float >= i64::MIN as f64 && float < 0.0 => {
            float as i64 as u64
        }
        _ => negative.unwrap_or(float.to_bits()),
    }
}

fn head(mut fields: Fields, place: usize) -> (Head, Fields) {
    let after = |millis: Option<Millis>| millis.map(|Millis(time)| time);
    let head = Head {
        call: fields.or("call", (place + 1).to_string()),
        timeout: after(fields.optional("timeout_ms")),
        start_delay: fields.or("start_delay_ms", Millis::default()).0,
        cancel_after: after(fields.optional("cancel_after_ms")),
        interrupt: None,
    };
    (head, fields)
}

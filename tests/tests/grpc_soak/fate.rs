//! The server's random behaviour for one attempt.

use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use reattempt_http::TransportFault;

/// The fate of one attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    pub(crate) reads: Reads,
    pub(crate) takes: Duration,
    pub(crate) answer: Answer,
}

/// How much of the request is read before the response.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reads {
    Frames(u32),
    Everything,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    TrailersOnly(i32, Pushback),
    Stream(Stream),
    /// The HTTP status of a proxy.
    Http(u16),
    Fault(TransportFault),
    Silence,
}

/// Response-Headers, and what follows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(crate) messages: u32,
    pub(crate) gap: Duration,
    /// The rest of the request is read before the end.
    pub(crate) reads_on: bool,
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Status(i32, Pushback),
    Cut(TransportFault),
    NoStatus,
    Silence,
}

/// The values of `grpc-retry-pushback-ms`, and what they mean in A6.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pushback {
    pub(crate) values: &'static [&'static str],
    pub(crate) means: Option<Word>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    After(u64),
    Stop,
}

const fn pushback(values: &'static [&'static str], means: Option<Word>) -> Pushback {
    Pushback { values, means }
}

pub(crate) const NO_PUSHBACK: Pushback = pushback(&[], None);

/// R30, case by case.
const PUSHBACKS: [Pushback; 13] = [
    pushback(&["0"], Some(Word::After(0))),
    pushback(&["3"], Some(Word::After(3))),
    pushback(&["40"], Some(Word::After(40))),
    pushback(&["5", "5"], Some(Word::After(5))),
    pushback(&["2147483647"], Some(Word::After(2_147_483_647))),
    pushback(&["-1"], Some(Word::Stop)),
    pushback(&["007"], Some(Word::Stop)),
    pushback(&["+5"], Some(Word::Stop)),
    pushback(&[""], Some(Word::Stop)),
    pushback(&["junk"], Some(Word::Stop)),
    pushback(&["2147483648"], Some(Word::Stop)),
    pushback(&["1.5"], Some(Word::Stop)),
    pushback(&["5", "6"], Some(Word::Stop)),
];

/// The server's current failure rate, in percent of attempts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather(pub(crate) u32);

impl Weather {
    /// Low, high, or in between, so that the bucket fills up, runs empty, and stays around half.
    pub(crate) fn at(since_start: Duration) -> Self {
        Self([10, 45, 85, 40, 55, 50][(since_start.as_millis() / 700 % 6) as usize])
    }
}

/// The possible faults of the attempts of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chances {
    /// A deadline or the caller ends the call, so that a stream may stop without an end.
    pub(crate) somebody_ends_it: bool,
    /// Hardly any attempt can be sent.
    pub(crate) unreachable: bool,
}

fn ms(rng: &mut SmallRng, most: u64) -> Duration {
    Duration::from_millis(rng.random_range(0..=most))
}

fn any_pushback(rng: &mut SmallRng) -> Pushback {
    if rng.random_ratio(1, 4) {
        *PUSHBACKS.choose(rng).expect("there are some")
    } else {
        NO_PUSHBACK
    }
}

/// UNAVAILABLE often, any other code sometimes.
fn any_failure(rng: &mut SmallRng) -> i32 {
    if rng.random_ratio(4, 5) {
        14
    } else {
        // 17 and 99 are not codes, and mean UNKNOWN.
        *[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 99]
            .choose(rng)
            .expect("there are some")
    }
}

fn any_fault(rng: &mut SmallRng) -> TransportFault {
    use TransportFault::*;
    *[
        ConnectFailed,
        NeverSent,
        NeverSent,
        StreamRefused,
        StreamRefused,
        ConnectionReset,
        ConnectionClosed,
        StreamReset(2),
        StreamReset(8),
        StreamReset(11),
        Protocol,
    ]
    .choose(rng)
    .expect("there are some")
}

impl Fate {
    pub(crate) fn draw(rng: &mut SmallRng, weather: Weather, chances: Chances) -> Self {
        let fails = rng.random_ratio(weather.0, 100);
        let answer = if chances.unreachable && rng.random_ratio(9, 10) {
            Answer::Fault(TransportFault::NeverSent)
        } else if fails {
            bad(rng)
        } else {
            good(rng, chances)
        };
        let reads = match rng.random_range(0..4) {
            0 => Reads::Frames(rng.random_range(0..3)),
            _ => Reads::Everything,
        };
        let takes = if rng.random_ratio(2, 5) {
            Duration::ZERO
        } else {
            ms(rng, 60)
        };
        Self {
            reads,
            takes,
            answer,
        }
    }
}

fn bad(rng: &mut SmallRng) -> Answer {
    match rng.random_range(0..20) {
        0..=13 => Answer::TrailersOnly(any_failure(rng), any_pushback(rng)),
        14 => Answer::Http(*[200, 400, 401, 404, 500, 503].choose(rng).expect("some")),
        15..=18 => Answer::Fault(any_fault(rng)),
        _ => Answer::Silence,
    }
}

fn good(rng: &mut SmallRng, chances: Chances) -> Answer {
    if rng.random_ratio(1, 4) {
        return Answer::TrailersOnly(0, any_pushback(rng));
    }
    let end = match rng.random_range(0..12) {
        0..=7 => End::Status(0, any_pushback(rng)),
        8 => End::Status(any_failure(rng), any_pushback(rng)),
        9 => End::Cut(any_fault(rng)),
        10 => End::NoStatus,
        _ if chances.somebody_ends_it => End::Silence,
        _ => End::Status(14, NO_PUSHBACK),
    };
    Answer::Stream(Stream {
        messages: rng.random_range(0..3),
        gap: ms(rng, 15),
        reads_on: rng.random(),
        end,
    })
}

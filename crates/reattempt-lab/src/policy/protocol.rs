//! What an attempt's outcome is in each protocol, as its own classifier and pushback reader see it.

use std::io;
use std::time::Duration;

use http::{HeaderValue, Response};
use reattempt::backoff::Randomness;
use reattempt::reason::{CIRCUIT_BREAKER_OPEN, ReasonClass};
use reattempt::{
    CallContext, Classify, Failure, OnDeadline, ReadPushback, ServerPushback, Stage, Transparent,
    Verdict,
};
use reattempt_couchbase::kv::Status;
use reattempt_couchbase::{KvAnswer, KvClassifier, KvPushback, KvTransportError};
use reattempt_grpc::{Code, CodeSet, GRPC_STATUS, GrpcClassifier, GrpcPushback, RETRY_PUSHBACK_MS};
use reattempt_http::{HttpClassifier, HttpPushback, HttpRoute};

use crate::load::{AnswerCode, RecordedFailure};

/// The protocol of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    Grpc,
    Http,
    Kv,
}

/// What became of an attempt, before it is classified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    /// The connection was refused.
    Refused,
    /// Its timeout passed.
    Timeout,
    Answer {
        code: i32,
        pushback_ms: Option<u32>,
    },
    /// An attempt of a recording failed.
    Recorded {
        failure: RecordedFailure,
        pushback_ms: Option<u32>,
    },
}

impl Protocol {
    /// The number of a code that was written in a scenario; absent, the overload code.
    pub(crate) fn code(self, written: Option<&AnswerCode>) -> Result<i32, &'static str> {
        const GRPC: &str = "a gRPC status other than OK, by number or name, for a service config";
        const HTTP: &str = "a status from 400 to 599 for an HTTP policy";
        const KV: &str = "a status from 1 to 65535 for a key-value strategy";
        let number = |least: i64, most: i64, must| match written {
            Some(AnswerCode::Number(number)) if (least..=most).contains(number) => {
                i32::try_from(*number).map_err(|_| must)
            }
            _ => Err(must),
        };
        match (self, written) {
            (Self::Grpc, None) => Ok(Code::Unavailable.number()),
            (Self::Http, None) => Ok(503),
            (Self::Kv, None) => Ok(Status::ETMPFAIL.0.into()),
            (Self::Grpc, Some(AnswerCode::Name(name))) => match name.parse::<Code>() {
                Ok(code) if code != Code::Ok => Ok(code.number()),
                _ => Err(GRPC),
            },
            (Self::Grpc, Some(_)) => number(1, 16, GRPC),
            (Self::Http, Some(_)) => number(400, 599, HTTP),
            (Self::Kv, Some(_)) => number(1, 0xffff, KV),
        }
    }

    /// The code that a tier answers when the failure of its own call has none.
    pub(crate) const fn gateway(self, timed_out: bool) -> i32 {
        match (self, timed_out) {
            (Self::Grpc, true) => 4,
            (Self::Grpc, false) => 14,
            (Self::Http, true) => 504,
            (Self::Http, false) => 502,
            (Self::Kv, _) => 0x86,
        }
    }

    /// The verdict of the protocol's classifier, under the policy in this context.
    pub(crate) fn verdict(self, outcome: Outcome, context: &CallContext) -> Verdict {
        let came = match outcome {
            Outcome::Success if self == Self::Http => Ok((200, None)),
            Outcome::Success => Ok((0, None)),
            Outcome::Answer { code, pushback_ms } => Ok((code, pushback_ms)),
            Outcome::Refused => Err(Stage::Dispatch),
            Outcome::Timeout => Err(Stage::InFlight),
            Outcome::Recorded { failure, .. } if failure.is_kept => return failure.verdict,
            Outcome::Recorded { failure, .. } => return self.anew(failure.verdict, context),
        };
        let error = |stage| match stage {
            Stage::Dispatch => io::Error::from(io::ErrorKind::ConnectionRefused),
            _ => io::Error::from(io::ErrorKind::TimedOut),
        };
        match self {
            // The stack of `reattempt call`: without a policy nothing is retryable (A6).
            Self::Grpc => {
                let classifier = GrpcClassifier::new().retryable(CodeSet::EMPTY);
                let came = came.map(|(code, ms)| grpc(code, ms)).map_err(error);
                classifier.classify(came.as_ref(), context)
            }
            Self::Http => {
                let came = came.map(|(code, ms)| of_http(code, ms)).map_err(error);
                HttpClassifier::new().classify(came.as_ref(), context)
            }
            Self::Kv => {
                let came = came.map(|(code, ms)| Kv::new(code, ms)).map_err(KvLost);
                KvClassifier::new().classify(came.as_ref(), context)
            }
        }
    }

    /// The verdict on a recorded failure: which codes are retried depends on the policy. How far
    /// the attempt came, and whether it is safe, the record knows better than the code.
    pub(super) fn anew(self, recorded: Verdict, context: &CallContext) -> Verdict {
        let codes = match self {
            Self::Grpc => 1..=16,
            Self::Http => 400..=599,
            Self::Kv => return recorded,
        };
        // The code of a failure of this client says nothing.
        let by_code = |failure: &&Failure| {
            failure.transparent == Transparent::No
                && failure.reason != CIRCUIT_BREAKER_OPEN
                && failure.class() != ReasonClass::Request
        };
        let Some(failure) = recorded.failure().filter(by_code) else {
            return recorded;
        };
        let Some(code) = failure.code.filter(|code| codes.contains(code)) else {
            return recorded;
        };
        let answer = Outcome::Answer {
            code,
            pushback_ms: None,
        };
        match (self, failure.stage) {
            (_, Stage::Response) => self.verdict(answer, context),
            (Self::Grpc, _) => match self.verdict(answer, context) {
                Verdict::Retry(_) => Verdict::Retry(*failure),
                _ => Verdict::Fatal(*failure),
            },
            _ => recorded,
        }
    }

    /// The code of a recorded failure whose server asked for at least this delay, if the policy in
    /// this context does not accept that much. What it accepts was read before: it has its spread,
    /// and may be above a cap because of it.
    fn refused(self, of: &RecordedFailure, least_ms: u32, context: &CallContext) -> Option<i32> {
        let code = of.verdict.failure()?.code?;
        if of.is_kept || self != Self::Http || !(300..=599).contains(&code) {
            return None;
        }
        let reader = http_pushback(context).spread(Duration::ZERO);
        let answer = of_http(code, Some(least_ms));
        let least = Duration::from_millis(least_ms.into());
        match ReadPushback::<_, ()>::read(&reader, Ok(&answer), &CallContext::default()).valid() {
            Some(ServerPushback::After(read)) if read >= least => None,
            _ => Some(code),
        }
    }

    /// The most that the policy in this context adds to a server's delay, in milliseconds.
    pub(crate) fn spread_ms(self, context: &CallContext) -> u32 {
        let reader = http_pushback(context).randomness(Randomness::Fixed(1.0));
        let now = of_http(503, Some(0));
        match ReadPushback::<_, ()>::read(&reader, Ok(&now), &CallContext::default()).valid() {
            Some(ServerPushback::After(most)) if self == Self::Http => {
                u32::try_from(most.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX)
            }
            _ => 0,
        }
    }

    /// What the protocol's classifier says of delays that do not fit before the deadline.
    pub(crate) fn on_deadline(self) -> OnDeadline {
        fn of<Res, Err>(classifier: &impl Classify<Res, Err>) -> OnDeadline {
            classifier.on_deadline()
        }
        match self {
            Self::Grpc => of::<Response<()>, io::Error>(&GrpcClassifier::new()),
            Self::Http => of::<Response<()>, io::Error>(&HttpClassifier::new()),
            Self::Kv => of::<Kv, KvLost>(&KvClassifier::new()),
        }
    }

    /// The pushback that the protocol's reader reads. One that spreads it draws a random number.
    pub(crate) fn pushback(
        self,
        outcome: Outcome,
        context: &CallContext,
    ) -> Option<ServerPushback> {
        let after = |ms: u32| ServerPushback::After(Duration::from_millis(ms.into()));
        let (code, pushback_ms) = match outcome {
            Outcome::Answer { code, pushback_ms } => (code, pushback_ms),
            Outcome::Recorded { failure, .. } if failure.stop => return Some(ServerPushback::Stop),
            Outcome::Recorded {
                failure,
                pushback_ms,
            } => {
                let least = pushback_ms?.saturating_sub(failure.spread_ms);
                match self.refused(&failure, least, context) {
                    Some(code) => (code, Some(least)),
                    None => return pushback_ms.map(after),
                }
            }
            Outcome::Success | Outcome::Refused | Outcome::Timeout => return None,
        };
        match self {
            Self::Grpc => {
                let answer = grpc(code, pushback_ms);
                GrpcPushback.read(Ok::<_, &()>(&answer), context).valid()
            }
            Self::Http => {
                let answer = of_http(code, pushback_ms);
                HttpPushback::new()
                    .read(Ok::<_, &()>(&answer), context)
                    .valid()
            }
            Self::Kv => {
                let answer = Kv::new(code, pushback_ms);
                KvPushback::new()
                    .read(Ok::<_, &()>(&answer), context)
                    .valid()
            }
        }
    }
}

/// The reader that the policy in this context sets.
fn http_pushback(context: &CallContext) -> HttpPushback {
    let route = context.policy().and_then(|policy| policy.data());
    let pushback = route.and_then(HttpRoute::pushback);
    pushback.cloned().unwrap_or_default()
}

fn grpc(code: i32, pushback_ms: Option<u32>) -> Response<()> {
    let mut answer = Response::new(());
    let headers = answer.headers_mut();
    headers.insert(GRPC_STATUS, HeaderValue::from(code));
    if let Some(ms) = pushback_ms {
        headers.insert(RETRY_PUSHBACK_MS, HeaderValue::from(ms));
    }
    answer
}

/// With `retry-after-ms` beside a `Retry-After` in whole seconds, rounded up.
fn of_http(code: i32, pushback_ms: Option<u32>) -> Response<()> {
    let mut answer = Response::new(());
    let status = u16::try_from(code)
        .ok()
        .and_then(|code| http::StatusCode::from_u16(code).ok());
    *answer.status_mut() = status.unwrap_or(http::StatusCode::SERVICE_UNAVAILABLE);
    if let Some(ms) = pushback_ms {
        let headers = answer.headers_mut();
        headers.insert(
            http::header::RETRY_AFTER,
            HeaderValue::from(ms.div_ceil(1000)),
        );
        headers.insert("retry-after-ms", HeaderValue::from(ms));
    }
    answer
}

/// An answer of the key-value service.
struct Kv {
    status: u16,
    throttled: Option<Duration>,
}

impl Kv {
    fn new(code: i32, pushback_ms: Option<u32>) -> Self {
        Self {
            status: u16::try_from(code).unwrap_or(Status::ETMPFAIL.0),
            throttled: pushback_ms.map(|ms| Duration::from_millis(ms.into())),
        }
    }
}

impl KvAnswer for Kv {
    fn status(&self) -> u16 {
        self.status
    }

    fn opcode(&self) -> u8 {
        reattempt_couchbase::kv::Opcode::GET.0
    }

    fn throttle_duration(&self) -> Option<Duration> {
        self.throttled
    }
}

/// An attempt that came this far and got no answer.
struct KvLost(Stage);

impl KvTransportError for KvLost {
    fn stage(&self) -> Stage {
        self.0
    }
}

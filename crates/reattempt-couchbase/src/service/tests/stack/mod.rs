//! The layers together, on paused time.

mod late;
mod retries;

use std::sync::{Arc, Mutex};

use reattempt::backoff::Backoff;
use reattempt::reason::{
    QUERY_INDEX_NOT_FOUND, QUERY_PREPARED_STATEMENT_FAILURE, SEARCH_TOO_MANY_REQUESTS,
    SOCKET_CLOSED_WHILE_IN_FLIGHT, SOCKET_NOT_AVAILABLE, VIEWS_NO_ACTIVE_PARTITION,
};
use reattempt::strategy::{BestEffort, MaxAttempts, NeverRetry};
use reattempt::throttle::TokenBucket;
use reattempt::{
    DeadlineLayer, Elapsed, HasCallContext, Idempotency, NextAttempt, OnDeadline, Replay,
    RetryInfo, RetryLayer, RetryReason, RetryStrategy, RetryThrottle, StopReason, ThrottleLayer,
};

use super::*;

/// How the node handles one request.
enum Does {
    Answers(u16, Pieces),
    NeverConnects,
    LosesTheAnswer,
}

fn answers(status: u16, body: &str) -> Does {
    Does::Answers(status, Pieces::text(body))
}

fn fails(code: i32) -> Does {
    answers(400, &errors(&format!(r#"{{"code": {code}, "msg": "m"}}"#)))
}

fn works() -> Does {
    answers(200, r#"{"results": [1]}"#)
}

/// A statement that can be retried.
#[derive(Clone, Debug)]
struct Statement;

impl Replay for Statement {
    fn replay(&self, _: &NextAttempt<'_>) -> Option<Self> {
        Some(Self)
    }
}

struct Ended {
    outcome: Result<Answer, BoxError>,
    info: RetryInfo,
    sent: usize,
}

impl Ended {
    fn status(&self) -> u16 {
        self.outcome.as_ref().unwrap().status().as_u16()
    }

    fn reasons(&self) -> Vec<RetryReason> {
        self.info.reasons().collect()
    }

    fn delays(&self) -> Vec<u128> {
        self.info
            .records()
            .filter_map(|record| Some(record.delay?.as_millis()))
            .collect()
    }

    fn elapsed(&self) -> &Elapsed {
        self.outcome.as_ref().unwrap_err().downcast_ref().unwrap()
    }

    async fn text(self) -> String {
        let body = self.outcome.unwrap().into_body().collect().await.unwrap();
        String::from_utf8(body.to_bytes().to_vec()).unwrap()
    }
}

struct Client {
    service: HttpService,
    strategy: Arc<dyn RetryStrategy>,
    limit: Duration,
    bucket: Arc<TokenBucket>,
}

impl Client {
    fn of(service: HttpService) -> Self {
        Self {
            service,
            strategy: Arc::new(BestEffort::new()),
            limit: ms(60_000),
            bucket: Arc::new(TokenBucket::new(1000, 1000).unwrap()),
        }
    }

    fn strategy(mut self, strategy: impl RetryStrategy + 'static) -> Self {
        self.strategy = Arc::new(strategy);
        self
    }

    fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The node handles requests like this, in order, and succeeds from then on.
    async fn call(
        &self,
        mut request: Request<Statement>,
        does: impl IntoIterator<Item = Does>,
    ) -> Ended {
        let left: Arc<Mutex<VecDeque<Does>>> = Arc::new(Mutex::new(does.into_iter().collect()));
        let sent = Arc::new(Mutex::new(0));
        let watch = RetryInfo::track(&mut request);
        let transport = |outcome: Result<&Answer, &BoxError>, _: &CallContext| {
            let refused = outcome.is_err_and(|error| error.to_string() == "refused");
            let stage = if refused {
                Stage::Dispatch
            } else {
                Stage::InFlight
            };
            Verdict::Retry(Failure::new(reason::UNKNOWN, stage))
        };
        let count = Arc::clone(&sent);
        let client = ServiceBuilder::new()
            .layer(ServiceIdempotencyLayer::new(self.service))
            .layer(DeadlineLayer::new(self.limit))
            .layer(ThrottleLayer::new(
                self.bucket.clone() as Arc<dyn RetryThrottle>
            ))
            .layer(RetryLayer::new(
                ServiceClassifier::new(self.service, transport),
                Arc::clone(&self.strategy),
            ))
            .layer(ServiceErrorLayer::new(self.service))
            .service_fn(move |request: Request<Statement>| {
                let reporter = request.context().unwrap().reporter();
                *count.lock().unwrap() += 1;
                let does = left.lock().unwrap().pop_front().unwrap_or_else(works);
                async move {
                    match does {
                        Does::Answers(status, body) => {
                            // At the head, as transports do.
                            reporter.stage(Stage::Response);
                            Ok(response(status, body))
                        }
                        Does::NeverConnects => Err(BoxError::from("refused")),
                        Does::LosesTheAnswer => Err(BoxError::from("reset")),
                    }
                }
            });
        let outcome = client.oneshot(request).await;
        let sent = *sent.lock().unwrap();
        Ended {
            outcome,
            info: watch.info(),
            sent,
        }
    }
}

fn post() -> Request<Statement> {
    Request::post("http://node/service")
        .body(Statement)
        .unwrap()
}

fn read_only() -> Request<Statement> {
    let mut request = post();
    request.extensions_mut().insert(ReadOnly);
    request
}

//! The layers together, on paused time.

use std::sync::{Arc, Mutex};

use reattempt::reason::{
    QUERY_INDEX_NOT_FOUND, QUERY_PREPARED_STATEMENT_FAILURE, SEARCH_TOO_MANY_REQUESTS,
    SOCKET_CLOSED_WHILE_IN_FLIGHT, SOCKET_NOT_AVAILABLE, VIEWS_NO_ACTIVE_PARTITION,
};
use reattempt::strategy::{BestEffort, FailFast};
use reattempt::throttle::TokenBucket;
use reattempt::{
    Annotated, DeadlineLayer, Elapsed, Idempotency, NextAttempt, Replay, RetryInfo, RetryLayer,
    RetryReason, RetryStrategy, RetryThrottle, Stopped, ThrottleLayer,
};

use super::*;

/// What the node does with one request.
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

/// A statement that can be sent again.
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

    /// The node does this, one request after another, and works from then on.
    async fn call(
        &self,
        mut request: Request<Statement>,
        does: impl IntoIterator<Item = Does>,
    ) -> Ended {
        let left: Arc<Mutex<VecDeque<Does>>> = Arc::new(Mutex::new(does.into_iter().collect()));
        let sent = Arc::new(Mutex::new(0));
        let watch = CallContext::watch(&mut request);
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

/// C41 C42 C4: like any other retry, after the back-off and counted; and a statement that is not read-only too, because
/// nothing has happened.
#[tokio::test(start_paused = true)]
async fn a_prepared_statement_that_is_gone_is_prepared_again_after_the_back_off() {
    let index = errors(r#"{"code": 5000, "msg": "queryport.indexNotFound"}"#);
    let node = [fails(4040), fails(4050), fails(4070), answers(500, &index)];
    let ended = Client::of(HttpService::query()).call(post(), node).await;
    assert_eq!(ended.status(), 200);
    assert_eq!(ended.delays(), [1, 2, 4, 8]);
    assert_eq!(
        ended.reasons(),
        [QUERY_PREPARED_STATEMENT_FAILURE, QUERY_INDEX_NOT_FOUND]
    );
    assert_eq!((ended.info.attempts(), ended.sent), (5, 5));
    assert_eq!(ended.text().await, r#"{"results": [1]}"#);
}

/// C41 C7: never past its own time.
#[tokio::test(start_paused = true)]
async fn a_statement_that_cannot_be_prepared_ends_at_the_deadline() {
    let began = Instant::now();
    let client = Client::of(HttpService::query()).limit(ms(2000));
    let ended = client.call(post(), (0..1000).map(|_| fails(4040))).await;
    assert_eq!(began.elapsed(), ms(2000));
    assert!(!ended.elapsed().ambiguous, "each was answered");
    assert_eq!(ended.reasons(), [QUERY_PREPARED_STATEMENT_FAILURE]);
    // 1, 2, 4 … 256, then every 500: the last is not sent.
    assert_eq!(
        ended.delays()[..10],
        [1, 2, 4, 8, 16, 32, 64, 128, 256, 500]
    );
    assert_eq!(ended.sent, 12);
}

#[tokio::test(start_paused = true)]
async fn the_answer_that_is_final_is_the_callers_unchanged() {
    let ended = Client::of(HttpService::query())
        .call(post(), [fails(4040), fails(3000)])
        .await;
    assert_eq!(
        (ended.status(), ended.info.stopped()),
        (400, Some(Stopped::Fatal))
    );
    let found = ended
        .outcome
        .as_ref()
        .unwrap()
        .extensions()
        .get::<ServiceAnswer>();
    assert_eq!(found.unwrap().error().unwrap().code(), Some(3000));
    assert!(ended.text().await.contains(r#"{"code": 3000, "msg": "m"}"#));
}

/// C12 C32: the answer to a statement was lost half-way.
#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_is_asked_for_again_by_who_only_reads() {
    let broken = || Does::Answers(200, Pieces::of([data(r#"{"results": [1"#), Piece::Breaks]));
    for service in [HttpService::query(), HttpService::analytics()] {
        let client = Client::of(service);
        let ended = client.call(read_only(), [broken(), works()]).await;
        assert_eq!(ended.reasons(), [SOCKET_CLOSED_WHILE_IN_FLIGHT]);
        assert_eq!(ended.text().await, r#"{"results": [1]}"#);

        let ended = client.call(post(), [broken(), works()]).await;
        assert_eq!(ended.info.stopped(), Some(Stopped::NotIdempotent));
        assert_eq!(ended.sent, 1);
        let record = ended.info.records().next().unwrap().failure.unwrap();
        assert_eq!(
            (record.reason, record.stage),
            (SOCKET_CLOSED_WHILE_IN_FLIGHT, Stage::InFlight)
        );
        let mut body = ended.outcome.unwrap().into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first, r#"{"results": [1"#);
        assert!(body.frame().await.unwrap().is_err());
    }
}

/// C12 C13 C32
#[tokio::test(start_paused = true)]
async fn a_lost_attempt_is_sent_again_as_far_as_its_service_allows() {
    let method = |method: &str| Request::builder().method(method).body(Statement).unwrap();
    for (service, request, again) in [
        (HttpService::query(), post(), false),
        (HttpService::query(), method("GET"), false),
        (HttpService::query(), read_only(), true),
        (HttpService::analytics(), read_only(), true),
        (HttpService::analytics(), post(), false),
        (HttpService::search(), post(), true),
        (HttpService::views(), post(), true),
        (HttpService::management(), method("GET"), true),
        (HttpService::management(), method("HEAD"), false),
        (HttpService::management(), method("PUT"), false),
        (HttpService::management(), method("DELETE"), false),
        (HttpService::management(), read_only(), false),
    ] {
        let client = Client::of(service);
        let ended = client.call(request.clone(), [Does::LosesTheAnswer]).await;
        assert_eq!(ended.sent, if again { 2 } else { 1 }, "{service:?}");
        let stopped = if again {
            Stopped::Success
        } else {
            Stopped::NotIdempotent
        };
        assert_eq!(ended.info.stopped(), Some(stopped));
        let ended = client
            .call(request, [Does::NeverConnects, Does::NeverConnects])
            .await;
        assert_eq!(
            (ended.sent, ended.reasons()),
            (3, vec![SOCKET_NOT_AVAILABLE])
        );
    }
}

/// The caller knows better.
#[tokio::test(start_paused = true)]
async fn what_the_caller_stamps_beats_the_list() {
    let mut once = post();
    once.context_mut()
        .set_idempotency(Idempotency::NotIdempotent);
    let ended = Client::of(HttpService::search())
        .call(once, [Does::LosesTheAnswer])
        .await;
    assert_eq!(ended.info.stopped(), Some(Stopped::NotIdempotent));
}

/// C45
#[tokio::test(start_paused = true)]
async fn a_search_that_is_refused_comes_back() {
    let node = [answers(429, "num_queries_per_min"), answers(429, "")];
    let ended = Client::of(HttpService::search()).call(post(), node).await;
    assert_eq!((ended.status(), ended.delays()), (200, vec![1, 2]));
    assert_eq!(ended.reasons(), [SEARCH_TOO_MANY_REQUESTS]);
    let current = HttpService::search().with_current_server_codes();
    let ended = Client::of(current)
        .call(post(), [answers(429, "num_queries_per_min")])
        .await;
    assert_eq!((ended.status(), ended.sent), (429, 1));
    assert_eq!(ended.text().await, "num_queries_per_min");
}

/// C46 C5 C6: under any strategy, in a controlled way, and not past the deadline.
#[tokio::test(start_paused = true)]
async fn a_302_of_the_views_is_asked_again_under_fail_fast_too() {
    let moved = || answers(302, "");
    let views = Client::of(HttpService::views()).strategy(FailFast);
    let ended = views.call(post(), (0..7).map(|_| moved())).await;
    assert_eq!(ended.status(), 200);
    assert_eq!(ended.delays(), [1, 10, 50, 100, 500, 1000, 1000]);
    assert_eq!(ended.reasons(), [VIEWS_NO_ACTIVE_PARTITION]);

    let began = Instant::now();
    let ended = views
        .limit(ms(700))
        .call(post(), (0..100).map(|_| moved()))
        .await;
    assert_eq!(began.elapsed(), ms(700));
    assert!(!ended.elapsed().ambiguous);
    assert_eq!(ended.sent, 6, "after 1, 11, 61, 161 and 661 ms");
}

/// C6
#[tokio::test(start_paused = true)]
async fn fail_fast_stops_at_any_other() {
    let failing = || [fails(4040), answers(429, ""), answers(503, "")];
    for (at, service) in [
        HttpService::query(),
        HttpService::search(),
        HttpService::views(),
    ]
    .into_iter()
    .enumerate()
    {
        let client = Client::of(service).strategy(FailFast);
        let node = failing().into_iter().skip(at);
        let ended = client.call(post(), node).await;
        assert_eq!(
            (ended.sent, ended.info.stopped()),
            (1, Some(Stopped::Attempts)),
            "{service:?}"
        );
    }
}

/// C7: the deadline holds while an error body dribbles.
#[tokio::test(start_paused = true)]
async fn a_body_that_dribbles_is_waited_for_until_the_deadline() {
    let dribble = (0..100).flat_map(|_| [Piece::Pause(ms(100)), data(" ")]);
    let began = Instant::now();
    let client = Client::of(HttpService::query()).limit(ms(450));
    let ended = client
        .call(post(), [Does::Answers(500, Pieces::of(dribble))])
        .await;
    assert_eq!(began.elapsed(), ms(450));
    assert!(
        ended.elapsed().ambiguous,
        "the statement had been sent, and its answer has not come"
    );
}

/// Errors that come when the caller has the rows already: no further attempt, but no success either.
#[tokio::test(start_paused = true)]
async fn an_error_that_comes_late_counts_as_a_failure() {
    let rows = format!(r#"{{"results": ["{}"]"#, "x".repeat(20_000));
    let late = |end: Piece| Does::Answers(200, Pieces::of([data(&rows), end]));
    let error = r#", "errors": [{"code": 23000, "msg": "m"}]}"#;
    for (end, reason, counted) in [
        (data(error), Some(reason::ANALYTICS_TEMPORARY_FAILURE), true),
        (
            data(&error.replace("23000", "24000")),
            Some(reason::UNKNOWN),
            false,
        ),
        (Piece::Breaks, Some(SOCKET_CLOSED_WHILE_IN_FLIGHT), true),
        (data("}"), None, false),
    ] {
        let mut request = read_only();
        let watch = CallContext::watch(&mut request);
        let client = Client::of(HttpService::analytics());
        client
            .bucket
            .settled(reattempt::throttle::Settled::Failure(&Failure::new(
                reason::UNKNOWN,
                Stage::Response,
            )));
        let ended = client.call(request, [late(end)]).await;
        assert_eq!(
            (ended.sent, ended.info.stopped()),
            (1, Some(Stopped::Committed))
        );
        assert_eq!(
            client.bucket.milli_tokens(),
            Some(999_000),
            "nothing is known yet"
        );
        let mut body = ended.outcome.unwrap().into_body();
        while let Some(Ok(_)) = body.frame().await {}
        let tokens = if counted {
            998_000
        } else if reason.is_none() {
            1_000_000
        } else {
            999_000
        };
        assert_eq!(client.bucket.milli_tokens(), Some(tokens), "{reason:?}");
        drop(watch);
    }
}

/// As soon as it is there: nobody has to read on.
#[tokio::test(start_paused = true)]
async fn a_late_error_is_told_before_the_end() {
    let rows = format!(r#"{{"results": ["{}"]"#, "x".repeat(20_000));
    let error = r#", "errors": [{"code": 23000, "msg": "m"}"#;
    let body = Pieces::of([data(&rows), data(error), Piece::Hangs]);
    let client = Client::of(HttpService::analytics());
    let ended = client.call(read_only(), [Does::Answers(200, body)]).await;
    let mut body = ended.outcome.unwrap().into_body();
    for told in [1_000_000, 999_000] {
        body.frame().await.unwrap().unwrap();
        assert_eq!(client.bucket.milli_tokens(), Some(told));
    }
}

/// C15: there is no queue of retries to be capped, because a call that waits is its caller's own; what all calls send again
/// together is held back by the throttle, and each then gets the node's own answer.
#[tokio::test(start_paused = true)]
async fn a_storm_of_retries_is_held_back_by_the_throttle() {
    let mut client = Client::of(HttpService::query());
    client.bucket = Arc::new(TokenBucket::new(100, 100).unwrap());
    let calls: Vec<_> = (0..1000)
        .map(|_| client.call(post(), (0..100).map(|_| fails(4040))))
        .collect();
    let mut calls: std::collections::VecDeque<_> = calls.into_iter().map(Box::pin).collect();
    let mut ended = Vec::new();
    // All of them at once.
    std::future::poll_fn(|cx| {
        calls.retain_mut(|call| match call.as_mut().poll(cx) {
            Poll::Ready(call) => {
                ended.push(call);
                false
            }
            Poll::Pending => true,
        });
        if calls.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    let sent: usize = ended.iter().map(|call| call.sent).sum();
    assert!(
        sent <= 1000 + 50,
        "{sent}: half of the tokens, and not one retry more"
    );
    for call in ended {
        assert_eq!(
            (call.status(), call.info.stopped()),
            (400, Some(Stopped::Throttled))
        );
    }
}

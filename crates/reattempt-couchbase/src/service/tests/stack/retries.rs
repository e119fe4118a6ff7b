//! What is retried, when, and what is not.

use super::*;

/// C41 C42 C4: an ordinary retry, after the back-off and counted; also for a statement that is not
/// read-only, because it had no effect.
#[tokio::test(start_paused = true)]
async fn a_lost_prepared_statement_is_retried_after_the_back_off() {
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

/// C41 C7: never past the deadline.
#[tokio::test(start_paused = true)]
async fn a_statement_that_cannot_be_prepared_ends_at_the_deadline() {
    let began = Instant::now();
    let client = Client::of(HttpService::query()).limit(ms(2000));
    let ended = client.call(post(), (0..1000).map(|_| fails(4040))).await;
    assert_eq!(began.elapsed(), ms(2000));
    assert!(!ended.elapsed().ambiguous, "each got a response");
    assert_eq!(ended.reasons(), [QUERY_PREPARED_STATEMENT_FAILURE]);
    // 1, 2, 4 … 256, then every 500: the last one is not sent.
    assert_eq!(
        ended.delays()[..10],
        [1, 2, 4, 8, 16, 32, 64, 128, 256, 500]
    );
    assert_eq!(ended.sent, 12);
}

/// C41 C7: a maximum of attempts gives up at the deadline elsewhere, but not in this protocol.
#[tokio::test(start_paused = true)]
async fn any_strategy_of_a_service_waits_for_the_deadline() {
    let call = async |strategy: MaxAttempts| {
        let began = Instant::now();
        let client = Client::of(HttpService::query()).limit(ms(30));
        let node = (0..9).map(|_| fails(4040));
        let ended = client.strategy(strategy).call(post(), node).await;
        (ended, began.elapsed())
    };
    let attempts = || MaxAttempts::new(9, Backoff::constant(ms(20)));
    let (capped, took) = call(attempts()).await;
    assert_eq!((capped.elapsed().info.attempts(), took), (2, ms(30)));
    let (given_up, took) = call(attempts().on_deadline(OnDeadline::GiveUp)).await;
    assert_eq!((given_up.status(), given_up.sent, took), (400, 2, ms(20)));
}

#[tokio::test(start_paused = true)]
async fn the_answer_that_is_final_is_the_callers_unchanged() {
    let ended = Client::of(HttpService::query())
        .call(post(), [fails(4040), fails(3000)])
        .await;
    assert_eq!(
        (ended.status(), ended.info.stopped()),
        (400, Some(StopReason::Fatal))
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

/// C12 C32: the response to a statement was lost midway.
#[tokio::test(start_paused = true)]
async fn a_broken_off_answer_is_retried_only_if_read_only() {
    let broken = || Does::Answers(200, Pieces::of([data(r#"{"results": [1"#), Piece::Breaks]));
    for service in [HttpService::query(), HttpService::analytics()] {
        let client = Client::of(service);
        let ended = client.call(read_only(), [broken(), works()]).await;
        assert_eq!(ended.reasons(), [SOCKET_CLOSED_WHILE_IN_FLIGHT]);
        assert_eq!(ended.text().await, r#"{"results": [1]}"#);

        let ended = client.call(post(), [broken(), works()]).await;
        assert_eq!(ended.info.stopped(), Some(StopReason::NotIdempotent));
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
            StopReason::Success
        } else {
            StopReason::NotIdempotent
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

/// The caller's own value takes precedence.
#[tokio::test(start_paused = true)]
async fn what_the_caller_stamps_beats_the_list() {
    let mut once = post();
    once.context_mut()
        .set_idempotency(Idempotency::NotIdempotent);
    let ended = Client::of(HttpService::search())
        .call(once, [Does::LosesTheAnswer])
        .await;
    assert_eq!(ended.info.stopped(), Some(StopReason::NotIdempotent));
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

/// C46 C5 C6: under any strategy, with the controlled back-off, and not past the deadline.
#[tokio::test(start_paused = true)]
async fn a_302_of_the_views_is_asked_again_under_fail_fast_too() {
    let moved = || answers(302, "");
    let views = Client::of(HttpService::views()).strategy(NeverRetry);
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
        let client = Client::of(service).strategy(NeverRetry);
        let node = failing().into_iter().skip(at);
        let ended = client.call(post(), node).await;
        assert_eq!(
            (ended.sent, ended.info.stopped()),
            (1, Some(StopReason::Attempts)),
            "{service:?}"
        );
    }
}

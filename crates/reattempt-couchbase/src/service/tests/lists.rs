//! RFC 0049's Response Code Retry List, service by service.

use reattempt::reason::{
    ANALYTICS_TEMPORARY_FAILURE, QUERY_INDEX_NOT_FOUND, QUERY_PREPARED_STATEMENT_FAILURE,
    SEARCH_TOO_MANY_REQUESTS, SERVICE_RESPONSE_CODE_INDICATED, VIEWS_NO_ACTIVE_PARTITION,
    VIEWS_TEMPORARY_FAILURE,
};
use reattempt::{RetryReason, Verdict};

use super::*;

const QUERY: HttpService = HttpService::query();
const ALL: [HttpService; 5] = [
    HttpService::query(),
    HttpService::analytics(),
    HttpService::search(),
    HttpService::views(),
    HttpService::management(),
];

/// All statuses that a response can have.
fn statuses() -> impl Iterator<Item = u16> {
    200..600
}

/// The codes from 0 to 30,000 that are retried for this service, with this text.
async fn codes(service: HttpService, text: &str) -> Vec<(i32, RetryReason)> {
    let mut listed = Vec::new();
    for code in 0..30_000 {
        let answer = ServiceAnswer {
            error: Some(ServiceError::new(Some(code)).with_message(text)),
            ..ServiceAnswer::unread()
        };
        let verdict = service.verdict(StatusCode::BAD_REQUEST, &answer);
        listed.extend(retried(verdict).map(|reason| (code, reason)));
    }
    listed
}

/// C41 C42
#[tokio::test(start_paused = true)]
async fn of_all_query_codes_the_rfc_lists_four() {
    let text = "index deleted or node hosting the index is down - cause: queryport.indexNotFound";
    let prepared = [4040, 4050, 4070].map(|code| (code, QUERY_PREPARED_STATEMENT_FAILURE));
    assert_eq!(codes(QUERY, "").await, prepared);
    let with_index = [&prepared[..], &[(5000, QUERY_INDEX_NOT_FOUND)]].concat();
    assert_eq!(codes(QUERY, text).await, with_index);
}

/// C41 C43
#[tokio::test(start_paused = true)]
async fn the_option_adds_three_codes_and_the_servers_retry_field() {
    let current = QUERY.with_current_server_codes();
    let prepared = [4040, 4050, 4060, 4070, 4080, 4090];
    let prepared = prepared.map(|code| (code, QUERY_PREPARED_STATEMENT_FAILURE));
    assert_eq!(codes(current, "").await, prepared);
    let by_field = Some(SERVICE_RESPONSE_CODE_INDICATED);
    let by_code = Some(QUERY_PREPARED_STATEMENT_FAILURE);
    for (error, reason) in [
        (r#"{"code": 17013, "retry": true}"#, by_field),
        (r#"{"retry": true, "code": 12004, "msg": "m"}"#, by_field),
        (r#"{"retry": true}"#, by_field),
        // The RFC's own codes take precedence; `false` does not override them.
        (r#"{"code": 4040, "retry": true}"#, by_code),
        (r#"{"code": 4040, "retry": false}"#, by_code),
        (r#"{"code": 12016, "retry": true}"#, None),
        (r#"{"code": 17013, "retry": false}"#, None),
        (r#"{"code": 17013, "retry": "true"}"#, None),
        (r#"{"code": 17013, "retry": 1}"#, None),
        (r#"{"code": 17013, "retry": [true]}"#, None),
        (r#"{"code": 17013, "reason": {"retry": true}}"#, None),
    ] {
        let body = errors(error);
        let with = judged(current, 200, &body).await;
        assert_eq!(retried(with), reason, "{error}");
        let without = judged(QUERY, 200, &body).await;
        let of_rfc = reason.filter(|_| reason == by_code);
        assert_eq!(retried(without), of_rfc, "{error} without the option");
    }
    // Analytics has no such member.
    let analytics = HttpService::analytics().with_current_server_codes();
    let body = errors(r#"{"code": 24000, "retry": true}"#);
    assert!(is_final(judged(analytics, 400, &body).await));
}

/// C42
#[tokio::test(start_paused = true)]
async fn a_5000_needs_its_text_in_its_own_message() {
    for (list, listed) in [
        (r#"{"code": 5000, "msg": "TEXT"}"#, true),
        (r#"{"msg": "TEXT - x", "code": 5000}"#, true),
        (
            r#"{"code": 5000, "msg": "queryport\u002eindexNotFound"}"#,
            true,
        ),
        (r#"{"code": 5000, "msg": "queryport.indexnotfound"}"#, false),
        (r#"{"code": 5000, "msg": "queryport indexNotFound"}"#, false),
        (r#"{"code": 5000}"#, false),
        (r#"{"code": 5001, "msg": "TEXT"}"#, false),
        (r#"{"code": 5000, "msg": "m", "reason": "TEXT"}"#, false),
        (r#"{"code": 5000, "reason": {"msg": "TEXT"}}"#, false),
        (r#"{"code": 5000, "msg": ["TEXT"]}"#, false),
        (
            r#"{"code": 5000, "msg": "m"}, {"code": 5000, "msg": "TEXT"}"#,
            false,
        ),
    ] {
        let list = list.replace("TEXT", "cause: queryport.indexNotFound");
        let verdict = judged(QUERY, 500, &errors(&list)).await;
        let reason = listed.then_some(QUERY_INDEX_NOT_FOUND);
        assert_eq!(retried(verdict), reason, "{list}");
        assert!(listed || is_final(verdict), "{list}");
    }
}

/// C44
#[tokio::test(start_paused = true)]
async fn of_all_analytics_codes_the_rfc_lists_three() {
    let expected = [23000, 23003, 23007].map(|code| (code, ANALYTICS_TEMPORARY_FAILURE));
    let text = "queryport.indexNotFound";
    for service in [
        HttpService::analytics(),
        HttpService::analytics().with_current_server_codes(),
    ] {
        assert_eq!(codes(service, text).await, expected);
    }
    assert!(
        codes(QUERY.with_current_server_codes(), text)
            .await
            .iter()
            .all(|(code, _)| *code < 23000)
    );
}

/// C41 C44: the body decides, for any status.
#[tokio::test(start_paused = true)]
async fn errors_in_the_body_beat_the_status() {
    for status in [200, 201, 302, 400, 404, 429, 500, 503] {
        let body = errors(r#"{"code": 4050, "msg": "unrecognizable"}"#);
        let Verdict::Retry(failure) = judged(QUERY, status, &body).await else {
            panic!("{status}")
        };
        assert_eq!(failure.reason, QUERY_PREPARED_STATEMENT_FAILURE);
        assert_eq!(
            (failure.code, failure.stage, failure.safe),
            (Some(4050), Stage::Response, true)
        );
        let body =
            errors(r#"{"code": 23003, "msg": "operation cannot be performed during rebalance"}"#);
        let Verdict::Retry(failure) = judged(HttpService::analytics(), status, &body).await else {
            panic!("{status}")
        };
        assert_eq!(
            (failure.reason, failure.code),
            (ANALYTICS_TEMPORARY_FAILURE, Some(23003))
        );
        let other = judged(QUERY, status, &body).await;
        assert!(is_final(other), "another service's code");
        assert_eq!(other.failure().unwrap().code, Some(23003));
    }
}

/// A status is no code of the service's errors.
#[tokio::test(start_paused = true)]
async fn an_error_without_a_number_gives_the_failure_no_code() {
    for service in [QUERY, HttpService::analytics()] {
        for code in [r#""code": "4040", "#, ""] {
            let body = errors(&format!(r#"{{{code}"msg": "m"}}"#));
            let verdict = judged(service, 503, &body).await;
            assert_eq!(verdict.failure().unwrap().code, None, "{body}");
        }
    }
}

/// C41 C44
#[tokio::test(start_paused = true)]
async fn without_errors_the_status_decides_and_a_failed_one_is_final() {
    for body in [
        "",
        "{}",
        r#"{"errors": []}"#,
        r#"{"warnings": [{"code": 4040}]}"#,
        "<html>gateway</html>",
    ] {
        for service in [QUERY, HttpService::analytics().with_current_server_codes()] {
            assert_eq!(judged(service, 200, body).await, Verdict::Success, "{body}");
            for status in [301, 400, 408, 429, 500, 502, 503, 504] {
                let verdict = judged(service, status, body).await;
                assert!(is_final(verdict), "{status} {body}");
                assert_eq!(verdict.failure().unwrap().code, Some(status.into()));
            }
        }
    }
}

/// C42 C43 C44: rows show that the statement was executed, so it may have changed something.
#[tokio::test(start_paused = true)]
async fn after_rows_only_idempotent_statements_are_sent_again() {
    let current = QUERY.with_current_server_codes();
    for (rows, safe) in [("", true), (r#"{"id": 1}"#, false), ("1", false)] {
        let body =
            format!(r#"{{"results": [{rows}], "errors": [{{"code": 12009, "retry": true}}]}}"#);
        let verdict = judged(current, 200, &body).await;
        assert_eq!(retried(verdict), Some(SERVICE_RESPONSE_CODE_INDICATED));
        assert_eq!(verdict.failure().unwrap().safe, safe, "{body}");
    }
    let gone = r#"{"results": [1], "errors": [{"code": 5000, "msg": "queryport.indexNotFound"}]}"#;
    let verdict = judged(current, 200, gone).await;
    assert_eq!(retried(verdict), Some(QUERY_INDEX_NOT_FOUND));
    assert!(!verdict.failure().unwrap().safe);
    let busy = r#"{"results": [1], "errors": [{"code": 23000}]}"#;
    let verdict = judged(HttpService::analytics(), 200, busy).await;
    assert_eq!(retried(verdict), Some(ANALYTICS_TEMPORARY_FAILURE));
    assert!(!verdict.failure().unwrap().safe);
    let body = r#"{"results": [1], "errors": [{"code": 4040}]}"#;
    assert!(
        judged(current, 200, body).await.failure().unwrap().safe,
        "nothing was done"
    );
}

/// C45
#[tokio::test(start_paused = true)]
async fn search_sends_429_again_and_nothing_else() {
    let search = HttpService::search();
    for status in statuses() {
        let verdict = judged(search, status, r#"{"error": "e", "status": "fail"}"#).await;
        match status {
            200..300 => assert_eq!(verdict, Verdict::Success),
            429 => assert_eq!(retried(verdict), Some(SEARCH_TOO_MANY_REQUESTS)),
            _ => assert!(is_final(verdict), "{status}"),
        }
    }
    // Some shards failed: the partial result is the response.
    let partial = r#"{"status": {"failed": 1, "errors": {"s": "deadline"}}, "hits": null}"#;
    assert_eq!(judged(search, 200, partial).await, Verdict::Success);
}

/// C45
#[tokio::test(start_paused = true)]
async fn with_the_option_a_429_that_names_a_limit_is_final() {
    let search = HttpService::search();
    for limit in [
        "num_concurrent_requests",
        "num_queries_per_min",
        "ingress_mib_per_min",
        "egress_mib_per_min",
        "num_fts_indexes",
    ] {
        let body = format!(r#"{{"error": "limit reached: [\"{limit}\"]"}}"#);
        let current = search.with_current_server_codes();
        assert!(is_final(judged(current, 429, &body).await), "{limit}");
        let without = judged(search, 429, &body).await;
        assert_eq!(retried(without), Some(SEARCH_TOO_MANY_REQUESTS));
        let other = judged(current, 429, "num_queries_per_hour").await;
        assert_eq!(retried(other), Some(SEARCH_TOO_MANY_REQUESTS));
    }
}

/// C46
#[tokio::test(start_paused = true)]
async fn views_send_the_listed_statuses_again() {
    let again = [
        300, 301, 303, 307, 401, 408, 409, 412, 416, 417, 501, 502, 503, 504,
    ];
    for status in statuses() {
        let verdict = judged(HttpService::views(), status, "").await;
        match status {
            200..300 => assert_eq!(verdict, Verdict::Success),
            302 => assert_eq!(retried(verdict), Some(VIEWS_NO_ACTIVE_PARTITION)),
            500 => assert_eq!(retried(verdict), Some(VIEWS_TEMPORARY_FAILURE)),
            _ if again.contains(&status) => {
                assert_eq!(retried(verdict), Some(VIEWS_TEMPORARY_FAILURE), "{status}");
            }
            _ => assert!(is_final(verdict), "{status}"),
        }
        if let Some(failure) = verdict.failure() {
            assert_eq!(
                (failure.code, failure.stage),
                (Some(status.into()), Stage::Response)
            );
        }
    }
}

/// C46
#[tokio::test(start_paused = true)]
async fn a_404_of_the_views_needs_the_word_missing() {
    for (body, again) in [
        (r#"{"error":"not_found","reason":"missing"}"#, true),
        (
            "{\"error\": \"not_found\",\n \"reason\" : \"missing\"}",
            true,
        ),
        (r#"no JSON, but "reason":"missing" in it"#, true),
        (r#"{"error":"not_found","reason":"deleted"}"#, false),
        (
            r#"{"error":"not_found","reason":"missing_named_view"}"#,
            false,
        ),
        (r#"{"error":"missing","reason":"not_found"}"#, false),
        (r#"{"reason":["missing"]}"#, false),
        (r#"{"reason":"missing""#, true),
        (r#"{"reason":"missin"#, false),
        ("", false),
    ] {
        let verdict = judged(HttpService::views(), 404, body).await;
        let reason = again.then_some(VIEWS_TEMPORARY_FAILURE);
        assert_eq!(retried(verdict), reason, "{body}");
        assert!(again || is_final(verdict), "{body}");
    }
}

/// C46
#[tokio::test(start_paused = true)]
async fn a_views_500_is_retried_unless_its_text_is_a_permanent_error() {
    for (body, again) in [
        (
            r#"{"error":"error","reason":"{not_found, missing_named_view}"}"#,
            false,
        ),
        (r#"{"error":"badarg","reason":"x"}"#, false),
        (r#"{"error":"x","reason":["badarg"]}"#, false),
        ("an error: {not_found, missing_named_view}", false),
        // The text alone is enough, exactly as written.
        ("{not_found, missing_named_view}", false),
        (r#""badarg""#, false),
        ("badarg", true),
        (r#"{"error":"x","reason":"badarg in quotes"}"#, true),
        (
            r#"{"error":"x","reason":"{not_found,missing_named_view}"}"#,
            true,
        ),
        (r#"{"error":"x","reason":"{not_found, deleted}"}"#, true),
        (r#"{"error":"case_clause"}"#, true),
        ("", true),
    ] {
        let verdict = judged(HttpService::views(), 500, body).await;
        let reason = again.then_some(VIEWS_TEMPORARY_FAILURE);
        assert_eq!(retried(verdict), reason, "{body}");
        assert!(again || is_final(verdict), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn management_sends_no_status_again() {
    for status in statuses() {
        let verdict = judged(
            HttpService::management(),
            status,
            r#"{"errors": [{"code": 4040}]}"#,
        )
        .await;
        if (200..300).contains(&status) {
            assert_eq!(verdict, Verdict::Success);
        } else {
            assert!(is_final(verdict), "{status}");
        }
    }
}

/// C32
#[test]
fn idempotency_is_by_service() {
    use http::Method;
    use reattempt::Idempotency::{Idempotent, NotIdempotent};

    for service in ALL {
        for method in [
            Method::GET,
            Method::HEAD,
            Method::POST,
            Method::PUT,
            Method::DELETE,
        ] {
            for read_only in [false, true] {
                let expected = match service.kind {
                    Kind::Query | Kind::Analytics => read_only,
                    Kind::Search | Kind::Views => true,
                    Kind::Management => method == Method::GET,
                };
                let expected = if expected { Idempotent } else { NotIdempotent };
                assert_eq!(
                    service.idempotency(&method, read_only),
                    expected,
                    "{service:?} {method} {read_only}"
                );
            }
        }
    }
}

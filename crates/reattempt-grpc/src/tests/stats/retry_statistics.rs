//! A6's counters: "Retry and Hedging Statistics".

use super::*;

/// R72: the 5th to 9th count in one bucket, the 10th to 99th in the next; the next call starts at
/// the first bucket.
#[tokio::test(start_paused = true)]
async fn each_retry_attempt_counts_in_exactly_one_bucket() {
    let measured = Measured::new();
    let server = Server::new([Status(Code::Unavailable)]);
    measured.call(&many_retries(1102), &server).await;
    measured.call(&many_retries(3), &server).await;
    let statistics = measured.stats.retry_statistics()["shop.Cart/Add"];
    let histogram = [
        (1, 2),
        (2, 2),
        (3, 1),
        (4, 1),
        (5, 5),
        (10, 90),
        (100, 900),
        (1000, 102),
    ];
    assert!(statistics.histogram().eq(histogram));
    assert_eq!((statistics.attempts(), statistics.failed()), (1103, 1103));
}

/// R72: the first attempt of a call is not a retry attempt, whether it succeeds or fails; a last
/// attempt that succeeds has not failed.
#[tokio::test(start_paused = true)]
async fn first_attempts_and_retry_attempts_that_work_have_not_failed() {
    let measured = Measured::new();
    let busy = || Status(Code::Unavailable);
    for (script, counts) in [
        (vec![Status(Code::Ok)], (0, 0)),
        (vec![Status(Code::Internal)], (0, 0)),
        (vec![busy(), busy(), Late(Code::Ok)], (2, 1)),
        (vec![busy(), Status(Code::Internal)], (3, 2)),
    ] {
        let server = Server::new(script);
        measured.call(&many_retries(5), &server).await;
        assert_eq!(measured.retries(), counts, "{:?}", server.times());
    }
}

/// R72: a stream that fails after its head committed the call is a failed attempt too.
#[tokio::test(start_paused = true)]
async fn a_retry_attempt_that_fails_in_its_trailers_has_failed() {
    let measured = Measured::new();
    let late = [
        Late(Code::Unavailable),
        Breaks(None),
        Breaks(Some(TransportFault::ConnectionReset)),
    ];
    for (n, end) in (1..).zip(late) {
        let server = Server::new([Status(Code::Unavailable), end]);
        measured.call(&many_retries(5), &server).await;
        assert_eq!(measured.retries(), (n, n));
    }
    let first = Server::new([Late(Code::Unavailable)]);
    measured.call(&many_retries(5), &first).await;
    assert_eq!(measured.retries(), (3, 3), "a first attempt counts nowhere");
}

/// R72: the first attempt of a hedged call is the initial RPC, later ones are retry attempts;
/// losing hedges have not failed.
#[tokio::test(start_paused = true)]
async fn hedges_are_retry_attempts_and_losers_have_not_failed() {
    let measured = Measured::new();
    let server = Server::new([
        Hangs,
        after(10, Status(Code::Unavailable)),
        Hangs,
        after(50, Late(Code::Ok)),
    ]);
    measured.call(&hedging(4, "0.2s", "14"), &server).await;
    assert_eq!(server.times(), [0, 200, 210, 410]);
    assert_eq!(measured.retries(), (3, 1));
    let statistics = measured.stats.retry_statistics()["shop.Cart/Add"];
    assert_eq!([1, 2, 3, 4].map(|nth| statistics.count(nth)), [1, 1, 1, 0]);
}

/// R72, R63
#[tokio::test(start_paused = true)]
async fn transparent_retries_are_no_retry_attempts() {
    let measured = Measured::new();
    let unsent = || Fault(TransportFault::NeverSent);
    let server = Server::new([
        unsent(),
        unsent(),
        Status(Code::Unavailable),
        unsent(),
        Status(Code::Ok),
    ]);
    measured.call(&many_retries(5), &server).await;
    assert_eq!(server.times().len(), 5);
    let statistics = measured.stats.retry_statistics()["shop.Cart/Add"];
    assert_eq!((statistics.attempts(), statistics.count(1)), (1, 1));
    assert_eq!(statistics.failed(), 1, "the retry attempt was never sent");
}

/// R72: an attempt cut off by the deadline has failed, before its head and after; one dropped by
/// its caller has not.
#[tokio::test(start_paused = true)]
async fn the_deadline_fails_an_attempt_and_dropping_it_does_not() {
    let limited = unthrottled(
        r#""timeout":"1s","retryPolicy":{"maxAttempts":5,"initialBackoff":"0.1s","maxBackoff":"0.1s",
        "backoffMultiplier":1,"retryableStatusCodes":[14]}"#,
    );
    for hangs in [Hangs, HangsInBody] {
        let measured = Measured::new();
        let server = Server::new([Status(Code::Unavailable), hangs.clone()]);
        measured.call(&limited, &server).await;
        assert_eq!(measured.retries(), (1, 1));
        let server = Server::new([Status(Code::Unavailable), hangs]);
        let config = many_retries(5);
        let call = measured.call(&config, &server);
        let left = tokio::time::timeout(Duration::from_secs(1), call).await;
        assert!(left.is_err());
        assert_eq!(measured.retries(), (2, 1));
    }
}

/// R72
#[tokio::test(start_paused = true)]
async fn methods_are_counted_apart_and_beyond_the_bound_together() {
    let options = StatsOptions::new().most_methods(1);
    let measured = Measured::with(options);
    for path in ["/shop.Cart/Add", "/shop.Cart/Add", "/a.B/C", "/a.B/D"] {
        let server = Server::new([Status(Code::Unavailable), Status(Code::Ok)]);
        let mut request = request();
        *request.uri_mut() = path.parse().unwrap();
        read(
            measured
                .stack(&many_retries(2), &server)
                .oneshot(request)
                .await,
        )
        .await;
    }
    let statistics = measured.stats.retry_statistics();
    let attempts: BTreeMap<_, _> = statistics
        .iter()
        .map(|(name, statistics)| (&**name, statistics.attempts()))
        .collect();
    assert_eq!(
        attempts,
        BTreeMap::from([("other", 2), ("shop.Cart/Add", 2)])
    );
    let recorded = measured.memory.0.lock().unwrap();
    let methods: std::collections::BTreeSet<_> =
        recorded.iter().map(|recorded| &*recorded.method).collect();
    assert!(methods.into_iter().eq(["other", "shop.Cart/Add"]));
}

//! A table that follows a file; `reattempt::config::follow` has the rest.

use reattempt::config::follow::{Follow, FollowError};
use reattempt::health::HealthPolicy;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_table_follows_a_file_with_its_throttles() {
    let name = format!("reattempt-http-follow-{}.json", std::process::id());
    let path = std::env::temp_dir().join(name);
    let second = Duration::from_secs(1);
    let text = |timeout: &str, max: u32| {
        format!(
            r#"{{"default": {{"timeout": "{timeout}", "retry": {{}}, "throttle": "t"}}, "colour": 1,
                "health": {{"consecutiveFailures": {max}}},
                "throttles": {{"t": {{"maxTokens": {max}, "tokenRatio": 0.1}}}}}}"#
        )
    };
    let live = LiveHttpPolicies::default();
    let missing = live.follow(&path).await.unwrap_err();
    assert!(
        matches!(missing, FollowError::Unreadable { .. }),
        "{missing}"
    );

    std::fs::write(&path, text("5s", 10)).unwrap();
    let following = live
        .follow(Follow::file(&path).every(second))
        .await
        .unwrap();
    assert_eq!(
        lines(&following.warnings()),
        ["$.colour: is not known and has no effect"]
    );
    let timeout = || live.route(&Request::new(())).unwrap().timeout();
    assert_eq!(timeout(), Some(second * 5));
    live.load()
        .throttle("t")
        .unwrap()
        .settled(Settled::Failure(&FAILURE));
    let health = live.load().health().clone();
    let of = |failures: u32| HealthPolicy::standard().consecutive_failures(failures);
    assert_eq!(*health.load(), of(10));

    std::fs::write(&path, text("5m", 0)).unwrap();
    tokio::time::sleep(second * 2).await;
    assert_eq!(timeout(), Some(second * 5));
    let error = following.error().unwrap();
    let FollowError::Faulty { faults, .. } = &*error else {
        panic!("{error}")
    };
    let paths: Vec<_> = faults.faults().iter().map(|fault| &*fault.path).collect();
    assert_eq!(paths, ["$.default.timeout", "$.throttles.t.maxTokens"]);
    assert_eq!(*health.load(), of(10));

    std::fs::write(&path, text("3s", 100)).unwrap();
    tokio::time::sleep(second * 2).await;
    assert_eq!(timeout(), Some(second * 3));
    let fill = live.load().throttle("t").unwrap().milli_tokens();
    assert_eq!(fill, Some(90_000), "the fill fraction is kept");
    assert_eq!(*health.load(), of(100));
    std::fs::remove_file(&path).unwrap();
}

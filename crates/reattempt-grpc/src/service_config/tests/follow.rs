//! A config that follows a file; `reattempt::config::follow` has the rest.

use std::time::Duration;

use http::Request;
use reattempt::Route;
use reattempt::config::follow::{Follow, FollowError};

use crate::service_config::LiveServiceConfig;

#[tokio::test(start_paused = true)]
async fn a_service_config_follows_a_file() {
    let name = format!("reattempt-grpc-follow-{}.json", std::process::id());
    let path = std::env::temp_dir().join(name);
    let second = Duration::from_secs(1);
    let text = |timeout: &str| {
        format!(r#"{{"methodConfig": [{{"name": [{{}}], "timeout": "{timeout}"}}], "colour": 1}}"#)
    };
    let live = LiveServiceConfig::default();
    std::fs::write(&path, text("soon")).unwrap();
    let refused = live.follow(&path).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("$.methodConfig[0].timeout: must be a duration"),
        "{refused}"
    );

    std::fs::write(&path, text("5s")).unwrap();
    let following = live
        .follow(Follow::file(&path).every(second))
        .await
        .unwrap();
    assert_eq!(following.warnings()[0].path, "$.colour");
    let timeout = || {
        let request = Request::post("http://h/a.B/C").body(()).unwrap();
        live.route(&request).unwrap().timeout()
    };
    assert_eq!(timeout(), Some(second * 5));

    std::fs::write(&path, text("-1s")).unwrap();
    tokio::time::sleep(second * 2).await;
    assert_eq!(timeout(), Some(second * 5));
    let error = following.error().unwrap();
    assert!(matches!(&*error, FollowError::Faulty { .. }), "{error}");

    std::fs::write(&path, text("2s")).unwrap();
    tokio::time::sleep(second * 2).await;
    assert_eq!(timeout(), Some(second * 2));
    assert!(following.error().is_none());
    std::fs::remove_file(&path).unwrap();
}

//! A config that follows a file; `reattempt::config::follow` has the rest.

use std::time::Duration;

use http::Request;
use reattempt::Route;
use reattempt::config::follow::{Follow, FollowError};

use crate::follow::tests::Said;
use crate::service_config::{LiveServiceConfig, Options, ServiceConfig};

/// With advice, which is not logged.
const WARNED: &str =
    r#"{"colour": 1, "methodConfig": [{"name": [{}], "timeout": "0s"}], "shape": 2}"#;
const LOGGED: &str = "WARN message=the service config has warnings: $.colour: is not known and has \
     no effect; $.shape: is not known and has no effect";

#[test]
fn what_has_no_effect_is_logged_and_advice_is_not() {
    let advised = r#"{"methodConfig": [{"name": [{}], "timeout": "0s"}]}"#;
    type Make = fn(&str, Options);
    let made: [(&str, Make); 3] = [
        ("parse_with", |text, options| {
            ServiceConfig::parse_with(text, &options).unwrap();
        }),
        ("with_default", |text, options| {
            LiveServiceConfig::with_default(text, options).unwrap();
        }),
        ("update", |text, options| {
            LiveServiceConfig::new(options).update(text).unwrap();
        }),
    ];
    for (name, make) in made {
        let (said, _guard) = Said::follow();
        make(advised, Options::new());
        make(WARNED, Options::new().log_warnings(false));
        assert!(said.events().is_empty(), "{name}: {:?}", said.events());
        make(WARNED, Options::new());
        assert_eq!(said.events(), [(None, LOGGED.to_owned())], "{name}");
    }
}

#[test]
fn warnings_of_the_same_config_are_logged_once() {
    let (said, _guard) = Said::follow();
    let live = LiveServiceConfig::default();
    for (text, lines) in [(WARNED, 1), (WARNED, 1), ("{}", 1), (WARNED, 2)] {
        live.update(text).unwrap();
        assert_eq!(said.events().len(), lines, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn warnings_of_a_followed_file_are_logged_once() {
    let name = format!("reattempt-grpc-warned-{}.json", std::process::id());
    let path = std::env::temp_dir().join(name);
    let second = Duration::from_secs(1);
    std::fs::write(&path, WARNED).unwrap();
    let (said, _guard) = Said::follow();
    let live = LiveServiceConfig::default();
    let follow = Follow::file(&path).every(second);
    let _following = live.follow(follow).await.unwrap();
    assert_eq!(said.events(), [(None, LOGGED.to_owned())]);

    std::fs::write(&path, r#"{"colour": 2}"#).unwrap();
    tokio::time::sleep(second * 2).await;
    let told = said.events();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[1]
            .1
            .contains("was loaded again, with warnings: $.colour")
    );
    std::fs::remove_file(&path).unwrap();
}

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

//! An error that no reader knows is logged once per stack, by type and without its contents.

use std::error::Error;
use std::future::ready;
use std::time::Duration;

use http::{Request, Response};
use reattempt::strategy::RetryOnce;
use reattempt::test_util::listen;
use reattempt::{
    AttemptDeadlineLayer, ClientError, ClientErrorLayer, HedgeLayer, HedgePolicy, RetryLayer,
};
use reattempt_http::{AnyTransportError, HttpClassifier, TransportError, TransportFault};
use tower::{BoxError, Layer, ServiceExt};

#[derive(Debug, thiserror::Error)]
#[error("cannot log in as root:hunter2")]
struct LoginFailed {
    #[source]
    cause: Option<BoxError>,
    _password: &'static str,
}

fn login_failed(cause: Option<BoxError>) -> LoginFailed {
    LoginFailed {
        cause,
        _password: "hunter2",
    }
}

/// Sends a call that fails with this error through each layer three times, and returns what was
/// logged.
async fn logged<E: TransportError>(error: fn() -> E) -> Vec<String> {
    let listener = listen();
    let inner = tower::service_fn(move |_: Request<()>| ready(Err::<Response<()>, _>(error())));
    let retried = RetryLayer::new(HttpClassifier::new(), RetryOnce).layer(inner);
    let policy = HedgePolicy::new(2, std::time::Duration::from_secs(1));
    let hedged = HedgeLayer::new(HttpClassifier::new(), policy).layer(inner);
    for _ in 0..3 {
        let failed = retried.clone().oneshot(Request::new(())).await;
        assert!(failed.is_err());
        assert!(hedged.clone().oneshot(Request::new(())).await.is_err());
    }
    listener.warnings()
}

#[tokio::test(start_paused = true)]
async fn a_boxed_error_is_named_once_per_stack() {
    let boxed = logged(|| BoxError::from(login_failed(None))).await;
    let any = logged(|| AnyTransportError::new(login_failed(None))).await;
    let local = logged(|| -> Box<dyn Error> { Box::new(login_failed(None)) }).await;
    for warnings in [boxed, any, local] {
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        let unknown = "got an error of a type that no reader knows (`LoginFailed`)";
        assert!(warnings[0].starts_with(&format!("RetryLayer {unknown}")));
        assert!(warnings[1].starts_with(&format!("HedgeLayer {unknown}")));
        assert!(warnings.iter().all(|line| !line.contains("hunter2")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cause_without_a_name_is_logged_without_its_text() {
    let warnings = logged(|| BoxError::from(login_failed(Some("hunter2 is wrong".into())))).await;
    let types = "(`LoginFailed`, caused by a type that does not show its name)";
    assert!(warnings[0].contains(types), "{warnings:?}");
    assert!(!warnings[0].contains("hunter2"), "{warnings:?}");
}

#[tokio::test(start_paused = true)]
async fn known_errors_are_not_logged() {
    use std::io;

    let kinds: [fn() -> BoxError; 3] = [
        || io::Error::from(io::ErrorKind::ConnectionReset).into(),
        || io::Error::from(io::ErrorKind::OutOfMemory).into(),
        || {
            login_failed(Some(
                io::Error::from(io::ErrorKind::ConnectionRefused).into(),
            ))
            .into()
        },
    ];
    for kind in kinds {
        assert_eq!(logged(kind).await, [""; 0]);
    }
}

/// As in the presets, which have a layer for it above the transport.
#[tokio::test(start_paused = true)]
async fn an_error_below_a_deadline_is_named_as_without() {
    let named = logged(|| ClientError::Transport(BoxError::from(login_failed(None)))).await;
    assert!(named[0].contains("(`LoginFailed`)"), "{named:?}");
    let known = || {
        let known = std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        ClientError::Transport(BoxError::from(known))
    };
    assert_eq!(logged(known).await, [""; 0]);
}

/// tower's `Buffer` boxes it.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_took_too_long_is_one_in_a_box_too() {
    let hangs = |_: Request<()>| std::future::pending::<Result<Response<()>, std::io::Error>>();
    let service = tower::ServiceBuilder::new()
        .layer(AttemptDeadlineLayer::new(Duration::from_millis(50)))
        .layer(ClientErrorLayer)
        .service_fn(hangs);
    let late = service.oneshot(Request::new(())).await.unwrap_err();
    assert_eq!(late.fault(), TransportFault::Timeout);
    assert_eq!(BoxError::from(late).fault(), TransportFault::Timeout);
}

#[tokio::test(start_paused = true)]
async fn an_implementation_that_knows_nothing_is_named() {
    struct Mine(TransportFault);
    impl TransportError for Mine {
        fn fault(&self) -> TransportFault {
            self.0
        }
    }
    let named = logged(|| Mine(TransportFault::Unknown)).await;
    assert!(
        named[0].contains("::Mine` reports as TransportFault::Unknown"),
        "{named:?}"
    );
    assert_eq!(
        logged(|| Mine(TransportFault::RequestFailed)).await,
        [""; 0]
    );
}

/// A boxed error of h2, whose feature may be missing.
#[tokio::test(start_paused = true)]
async fn the_missing_feature_is_named() {
    let warnings = logged(|| {
        let reset = h2::Error::from(h2::Reason::INTERNAL_ERROR);
        BoxError::from(login_failed(Some(reset.into())))
    })
    .await;
    if cfg!(feature = "h2") {
        assert_eq!(warnings, [""; 0], "a reset stream");
    } else {
        let types = "(`LoginFailed`, caused by `h2::Error`)";
        assert!(warnings[0].contains(types), "{warnings:?}");
        assert!(
            warnings[0].ends_with("reattempt-grpc feature `h2`"),
            "{warnings:?}"
        );
    }
}

//! Call credentials that cannot be made.

use super::*;

/// R17, R49: a failure on the client side sends nothing; a drop ends the call.
#[tokio::test]
async fn attempts_without_credentials_are_not_sent() {
    let server = start(Step::ok("pie")).await;
    let config = retrying(4, "0.001s");
    let mut channel = Channel::new(&config);
    channel.credentials = |attempt| match attempt {
        1 => Err(ControlPlaneFailure::new(Code::Unavailable, "no token")),
        _ => Ok(HeaderMap::new()),
    };
    let ended = channel.call(unary(&server.uri())).await;
    assert_eq!(ended.code, Code::Ok);
    assert_eq!(previous(&server.seen()), [Some(1)]);
    channel.credentials = |_| Err(ControlPlaneFailure::dropped("too many calls"));
    let ended = channel.call(unary(&server.uri())).await;
    assert_eq!((ended.code, ended.info.attempts()), (Code::Unavailable, 1));
    assert_eq!(server.seen_count(), 1);
    assert_eq!(tokens(&config), Some(9_500));
}

use std::io;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use reattempt_http::AnyTransportError;
use tonic::Code;

use super::*;

/// The body of a response whose head has no status.
fn due<B>(inner: B) -> TonicStatusBody<B> {
    TonicStatusBody {
        inner,
        status_due: true,
        failed: false,
    }
}

fn page(status: u16, headers: &[(&'static str, &[u8])]) -> Response<()> {
    let mut response = Response::builder().status(status).body(()).unwrap();
    for (name, value) in headers {
        let value = HeaderValue::from_bytes(value).unwrap();
        response.headers_mut().insert(*name, value);
    }
    response
}

#[test]
fn an_http_page_has_the_code_of_its_head_and_its_headers() {
    let html: (_, &[u8]) = ("content-type", b"text/html");
    let grpc: (_, &[u8]) = ("content-type", b"application/grpc");
    let gone = |mut response: Response<()>| {
        response.extensions_mut().insert(crate::Code::Unknown);
        response
    };
    for (response, code, message) in [
        (
            page(503, &[html, ("content-length", b"7")]),
            Code::Unavailable,
            "HTTP 503 Service Unavailable without grpc-status (text/html)",
        ),
        (
            page(404, &[]),
            Code::Unimplemented,
            "HTTP 404 Not Found without grpc-status",
        ),
        (
            page(200, &[html]),
            Code::Unknown,
            "HTTP 200 OK without grpc-status (text/html)",
        ),
        (
            gone(page(200, &[grpc])),
            Code::Unknown,
            "HTTP 200 OK without grpc-status (application/grpc)",
        ),
    ] {
        let mut response = response;
        let headers = response.headers_mut();
        headers.insert("retry-after", 3.into());
        headers.insert(crate::PREVIOUS_ATTEMPTS, 2.into());
        let status = of_head(response).unwrap_err();
        assert_eq!((status.code(), status.message()), (code, message));
        let metadata = status.metadata();
        assert_eq!(metadata.get("retry-after").unwrap(), "3");
        assert_eq!(metadata.get("grpc-previous-rpc-attempts").unwrap(), "2");
        assert!(!metadata.contains_key("content-length"), "it has no body");
    }
}

#[test]
fn a_content_type_is_shown_in_part_and_without_controls() {
    let long = [b"a\tb\xff ".as_slice(), &[b'x'; 500]].concat();
    let status = of_head(page(500, &[("content-type", &long)])).unwrap_err();
    let shown = format!("(ab {})", "x".repeat(59));
    assert!(status.message().ends_with(&shown), "{}", status.message());
}

#[test]
fn a_status_in_the_head_and_grpc_web_pass_unchanged() {
    for response in [
        page(503, &[("grpc-status", b"14")]),
        page(
            200,
            &[("grpc-status", b"0"), ("content-type", b"text/html")],
        ),
        page(200, &[("content-type", b"application/grpc-web+proto")]),
        page(503, &[("content-type", b"Application/GRPC-Web-Text")]),
    ] {
        let passed = of_head(response).unwrap();
        assert!(!passed.body().status_due, "{passed:?}");
    }
    assert!(of_head(page(200, &[])).unwrap().body().status_due);
}

#[tokio::test]
async fn a_stream_without_a_status_ends_with_one_error() {
    let message = || Full::<Bytes>::from("message").map_err(|never| -> Status { match never {} });
    let mut body = due(message());
    assert!(body.frame().await.unwrap().is_ok());
    assert!(body.inner.is_end_stream() && !body.is_end_stream());
    let status = body.frame().await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert!(body.is_end_stream() && body.frame().await.is_none());

    let trailers = |name: &'static str| {
        let pairs = [(http::HeaderName::from_static(name), HeaderValue::from(0))];
        std::future::ready(Some(Ok(pairs.into_iter().collect())))
    };
    let mut body = due(message().with_trailers(trailers("x-other")));
    assert!(body.frame().await.unwrap().is_ok());
    let status = body.frame().await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    assert!(body.frame().await.is_none());

    let mut body = due(message().with_trailers(trailers("grpc-status")));
    assert!(body.frame().await.unwrap().is_ok());
    assert!(body.frame().await.unwrap().unwrap().is_trailers());
    assert!(body.frame().await.is_none());
}

#[test]
fn an_error_keeps_its_texts_and_is_the_source() {
    let refused = io::Error::new(io::ErrorKind::ConnectionRefused, "nothing listens");
    let status = of_call(AnyTransportError::new(refused));
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(status.message(), "nothing listens");
    let source = status.source().and_then(|error| error.source());
    let source = source.and_then(|error| error.downcast_ref::<io::Error>());
    assert_eq!(
        source.map(io::Error::kind),
        Some(io::ErrorKind::ConnectionRefused)
    );
}

#[test]
fn an_error_of_which_nothing_is_known_is_left_to_tonic() {
    let own = AnyTransportError::new(Status::permission_denied("not you"));
    let status = of_call(own);
    assert_eq!(
        (status.code(), status.message()),
        (Code::PermissionDenied, "not you")
    );
    let status = of_call(AnyTransportError::new("no idea"));
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unknown, "no idea")
    );
}

#[tokio::test]
async fn a_stream_that_breaks_off_has_the_code_of_its_fault() {
    let mut broken = Status::unknown("error reading a body from connection");
    broken.set_source(Arc::new(io::Error::from(io::ErrorKind::ConnectionReset)));
    let end = std::future::ready(Some(Err(broken)));
    let inner = Empty::<Bytes>::new()
        .map_err(|never| match never {})
        .with_trailers(end);
    let mut body = due(inner);
    let status = body.frame().await.unwrap().unwrap_err();
    assert!(body.frame().await.is_none());
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(
        status.message(),
        "error reading a body from connection: connection reset"
    );
}

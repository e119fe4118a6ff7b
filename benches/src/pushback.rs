//! The cost of reading a failed response's pushback, by its form.

use std::hint::black_box;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::Response;
use reattempt::{CallContext, FoundPushback, ReadPushback};
use reattempt_grpc::GrpcPushback;
use reattempt_http::HttpPushback;

use crate::cases::Case;

/// What a server sends with a 503, beside its pushback.
const HEADERS: [(&str, &str); 7] = [
    ("date", "Sun, 22 Nov 2026 08:49:37 GMT"),
    ("server", "nginx"),
    ("content-type", "application/json"),
    ("content-length", "47"),
    ("cache-control", "no-store"),
    ("vary", "accept-encoding"),
    ("x-request-id", "8d1f1a52-5c5f-4d0a-9f9c-0d6c4d0f6a57"),
];

/// What a gRPC server sends with a call that failed at once, beside its pushback.
const TRAILERS: [(&str, &str); 3] = [
    ("content-type", "application/grpc"),
    ("grpc-status", "14"),
    ("grpc-message", "the server is busy"),
];

fn response(status: u16, headers: &[(&str, &str)], own: Option<(&str, &str)>) -> Response<()> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers.iter().copied().chain(own) {
        response = response.header(name, value);
    }
    response.body(()).expect("valid headers")
}

/// Reading a clock is not counted: its cost is the system's.
fn then() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

fn read(reader: &impl ReadPushback<Response<()>, ()>, response: &Response<()>, calls: u64) -> u64 {
    let context = CallContext::default();
    let found = |_: &u64| {
        let found = reader.read(Ok(black_box(response)), black_box(&context));
        found != FoundPushback::Unreadable
    };
    (0..calls).filter(found).count() as u64
}

fn http(own: Option<(&str, &str)>, calls: u64) -> u64 {
    let reader = HttpPushback::new().wall_clock(then);
    read(&reader, &response(503, &HEADERS, own), calls)
}

/// All cases.
#[must_use]
pub fn all() -> Vec<Case> {
    let case = |name, run| Case {
        name,
        run,
        future: 0,
    };
    vec![
        case("retry-after-seconds", |calls| {
            http(Some(("retry-after", "7")), calls)
        }),
        case("retry-after-date", |calls| {
            let date = ("retry-after", "Sun, 22 Nov 2026 08:49:47 GMT");
            http(Some(date), calls)
        }),
        case("retry-after-absent", |calls| http(None, calls)),
        case("grpc-pushback", |calls| {
            let own = ("grpc-retry-pushback-ms", "250");
            read(&GrpcPushback, &response(200, &TRAILERS, Some(own)), calls)
        }),
    ]
}

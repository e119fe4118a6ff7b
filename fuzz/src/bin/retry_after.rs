//! `Retry-After` and related headers: any values, one per line; the delay never exceeds the cap.
#![no_main]

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Response};
use libfuzzer_sys::fuzz_target;
use reattempt::{CallContext, ReadPushback, ServerPushback};
use reattempt_http::{BeyondCap, HttpPushback};

const CAP: Duration = Duration::from_secs(60);
const NAMES: [&str; 5] = [
    "retry-after",
    "retry-after-ms",
    "ratelimit-reset",
    "x-ratelimit-reset",
    "ratelimit-remaining",
];

fuzz_target!(|data: &[u8]| {
    let mut headers = HeaderMap::new();
    for (at, line) in data.split(|byte| *byte == b'\n').take(8).enumerate() {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(NAMES[at % NAMES.len()], value);
        }
    }
    let _ = HttpPushback::new().delay(&headers);
    let mut response = Response::new(());
    *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
    *response.headers_mut() = headers;
    let reader = HttpPushback::new().cap(CAP, BeyondCap::Wait);
    let word = ReadPushback::<_, ()>::read(&reader, Ok(&response), &CallContext::default());
    if let Some(word) = word.valid() {
        assert!(matches!(word, ServerPushback::After(delay) if delay <= CAP));
    }
});

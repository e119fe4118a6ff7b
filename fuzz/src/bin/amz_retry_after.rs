//! `x-amz-retry-after` and the related headers, one value per line: never longer than 25 s, and for
//! the strategy never more than 5 s beyond its own back-off.
#![no_main]

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Response};
use libfuzzer_sys::fuzz_target;
use reattempt::{CallContext, Failure, ReadPushback, RetryStrategy, ServerPushback, Stage, reason};
use reattempt_http::HttpPushback;
use reattempt_http::aws::{AwsStandard, AwsVersion};

const NAMES: [&str; 4] = [
    "x-amz-retry-after",
    "x-amz-retry-after",
    "retry-after",
    "retry-after-ms",
];

fuzz_target!(|data: &[u8]| {
    let mut headers = HeaderMap::new();
    for (line, name) in data
        .split(|byte| *byte == b'\n')
        .zip(NAMES.iter().cycle())
        .take(8)
    {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(*name, value);
        }
    }
    let mut response = Response::new(());
    *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
    *response.headers_mut() = headers;
    let _ = HttpPushback::new().also_amz().delay(response.headers());
    let (reader, context) = (HttpPushback::amz(), CallContext::default());
    let word = ReadPushback::<_, ()>::read(&reader, Ok(&response), &context);
    let Some(word) = word.valid() else {
        return;
    };
    let ServerPushback::After(asked) = word else {
        panic!("{word:?}: this header cannot mean stop");
    };
    assert!(asked <= Duration::from_secs(25));
    assert!(response.headers().contains_key("x-amz-retry-after"));
    let failure = Failure::new(reason::UNKNOWN, Stage::Response);
    for own in [Duration::ZERO, Duration::from_millis(50), Duration::MAX] {
        let delay = AwsStandard::new(AwsVersion::V2_1).delay_asked(&failure, asked, own);
        assert!(delay >= own && delay <= own.saturating_add(Duration::from_secs(5)));
    }
});

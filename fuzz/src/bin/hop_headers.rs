//! Headers that cross hops, with any values, one per line: nothing panics, and no stored value is
//! long.
#![no_main]

use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use reattempt_http::hop::{
    self, AMZ_SDK_REQUEST, ATTEMPT_COUNT, AmzSdkRequest, DO_NOT_RETRY, EXPECTED_TIMEOUT,
    RETRY_REASON,
};

fuzz_target!(|data: &[u8]| {
    let names = [
        AMZ_SDK_REQUEST,
        ATTEMPT_COUNT,
        EXPECTED_TIMEOUT,
        RETRY_REASON,
        DO_NOT_RETRY,
    ];
    let mut headers = HeaderMap::new();
    for (line, name) in data
        .split(|byte| *byte == b'\n')
        .zip(names.iter().cycle())
        .take(10)
    {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(name, value);
        }
    }
    assert!(hop::attempt_count(&headers) != Some(0));
    let _ = hop::expected_timeout(&headers);
    assert!(hop::retry_reason(&headers).is_none_or(|word| word.len() <= 64));
    assert!(hop::do_not_retry(&headers).is_none_or(|word| word.len() <= 64));
    if let Some(said) = AmzSdkRequest::read(&headers) {
        said.write(&mut headers);
        assert_eq!(AmzSdkRequest::read(&headers), Some(said));
    }
});

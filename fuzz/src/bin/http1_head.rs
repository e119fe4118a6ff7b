//! The head of an HTTP/1 request, as the scripted server reads it, and the size line of a chunk.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = reattempt_testbed::http::reading::http1_head(data);
    let _ = reattempt_testbed::http::reading::http1_chunk(data);
});

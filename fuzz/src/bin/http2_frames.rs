//! HTTP/2 frames and their header blocks (HPACK, one dynamic table), as the scripted server reads
//! them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reattempt_testbed::http::reading;

fuzz_target!(|data: &[u8]| {
    let _ = reading::http2_frames(data);
    let _ = reading::header_blocks([data]);
});

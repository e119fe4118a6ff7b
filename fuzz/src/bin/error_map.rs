//! A KV error map: no input panics, and no retry specification computes a delay that does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reattempt_couchbase::ErrorMap;

fuzz_target!(|json: &[u8]| {
    let Ok(map) = ErrorMap::parse(json) else {
        return;
    };
    for status in 0..=u16::MAX {
        let Some(entry) = map.get(status) else {
            continue;
        };
        let Some(spec) = entry.retry_spec() else {
            continue;
        };
        for retries in [0, 1, 2, 63, 64, u32::MAX] {
            let _ = spec.delay(retries);
        }
    }
});

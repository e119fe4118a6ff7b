//! A service config: no text panics, faults and warnings have a path, and an accepted config can be
//! queried.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reattempt_grpc::service_config::{LiveServiceConfig, ServiceConfig};

fuzz_target!(|text: &str| {
    match ServiceConfig::parse(text) {
        Ok(config) => {
            assert!(config.warnings().iter().all(|w| w.path.starts_with('$')));
            let _ = (config.method("/a.B/C"), config.method(text));
            assert!(LiveServiceConfig::default().update(text).is_ok());
        }
        Err(refused) => assert!(!refused.faults().is_empty() && !refused.to_string().is_empty()),
    }
});

//! HTTP policies: no text panics, faults and warnings have a path and a bounded size, and an
//! accepted document matches requests.
#![no_main]

use http::Request;
use libfuzzer_sys::fuzz_target;
use reattempt::Route;
use reattempt_http::{HttpPolicies, LiveHttpPolicies};

fuzz_target!(|text: &str| {
    match HttpPolicies::parse(text) {
        Ok(parsed) => {
            assert!(parsed.warnings.iter().all(|w| w.path.starts_with('$')));
            for uri in ["/", "http://example.com:80/users/7/orders", "*", text] {
                if let Ok(request) = Request::get(uri).header("host", "example.com").body(()) {
                    let _ = parsed.policies.route(&request);
                }
            }
            assert!(LiveHttpPolicies::new(parsed.policies).update(text).is_ok());
        }
        Err(refused) => {
            let said = refused.faults();
            assert!(!said.is_empty() && said.iter().all(|fault| fault.to_string().len() < 2000));
        }
    }
});

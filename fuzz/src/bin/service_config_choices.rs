//! A list of service config choices and its TXT record: neither panics, faults have a path, and the
//! chosen entry is read as any service config.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_grpc::service_config::choices::{ATTRIBUTE, Client, choose, txt_value};

fuzz_target!(|input: (u32, &[u8])| {
    let (percentile, record) = input;
    let _ = txt_value([record]);
    let Ok(value) = txt_value([ATTRIBUTE.as_bytes(), b"=", record]) else {
        assert!(!record.is_ascii());
        return;
    };
    let list = value.expect("it has the attribute");
    match choose(&list, &Client::new(percentile).hostname("h")) {
        Ok(chosen) => drop(chosen.map(|config| ServiceConfig::parse(&config))),
        Err(refused) => assert!(
            refused
                .faults()
                .iter()
                .all(|fault| fault.path.starts_with('$'))
        ),
    }
});

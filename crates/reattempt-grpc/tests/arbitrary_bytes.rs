//! The properties of the fuzz targets, on every test run: arbitrary text as service configs and
//! lists of choices, arbitrary bytes as headers.

use std::convert::Infallible;
use std::time::Duration;

use http::{HeaderValue, Request, Response};
use proptest::prelude::*;
use reattempt::{CallContext, Classify, ReadPushback, RetryStrategy, ServerPushback};
use reattempt_grpc::service_config::choices::{self, Client};
use reattempt_grpc::service_config::{LiveServiceConfig, ServiceConfig};
use reattempt_grpc::{GrpcClassifier, GrpcPushback, GrpcTimeoutLayer};
use tower::{Layer, Service};

/// A value that may or may not be valid in its position.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("null".to_owned()),
        Just("[]".to_owned()),
        Just("[\"UNAVAILABLE\", 14]".to_owned()),
        Just("1e999".to_owned()),
        Just("1e-999999999999999999999".to_owned()),
        "-?[0-9]{1,25}(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,22})?",
        "\"-?[0-9]{1,14}(\\.[0-9]{1,10})?s\"",
    ]
}

/// A service config with an arbitrary value in each position.
fn config() -> impl Strategy<Value = String> {
    prop::collection::vec(value(), 12).prop_map(|v| {
        format!(
            r#"{{"methodConfig": [{{"name": [{{"service": "a.B"}}], "timeout": {}, "waitForReady": {},
                "maxRequestMessageBytes": {}, "retryPolicy": {{"maxAttempts": {}, "initialBackoff": {},
                "maxBackoff": {}, "backoffMultiplier": {}, "retryableStatusCodes": {}}}}},
                {{"name": [{{}}], "hedgingPolicy": {{"maxAttempts": {}, "hedgingDelay": {}}}}}],
                "retryThrottling": {{"maxTokens": {}, "tokenRatio": {}}}}}"#,
            v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11],
        )
    })
}

/// A retry policy with valid members except for arbitrary numbers.
fn policy() -> impl Strategy<Value = String> {
    let seconds = "[0-9]{1,12}(\\.[0-9]{1,9})?";
    let factor = "[0-9]{1,9}(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,4})?";
    (2_u64.., seconds, seconds, factor).prop_map(|(attempts, initial, max, factor)| {
        format!(
            r#"{{"methodConfig": [{{"name": [{{}}], "retryPolicy": {{"maxAttempts": {attempts},
                "initialBackoff": "{initial}s", "maxBackoff": "{max}s", "backoffMultiplier": {factor},
                "retryableStatusCodes": [14]}}}}]}}"#
        )
    })
}

/// Arbitrary JSON; many of its members have names of the schema.
fn json() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "methodConfig",
        "name",
        "service",
        "method",
        "timeout",
        "retryPolicy",
        "hedgingPolicy",
        "maxAttempts",
        "hedgingDelay",
        "retryableStatusCodes",
        "retryThrottling",
        "maxTokens",
        "tokenRatio",
        "loadBalancingConfig",
        "loadBalancingPolicy",
        "healthCheckConfig",
        "serviceConfig",
        "percentage",
        "clientLanguage",
        "clientHostname",
        "MAX_ATTEMPTS",
        "",
        "\\u0000\\ud83d\\ude00",
    ]);
    let leaf = prop_oneof![
        value(),
        "\"[a-z./]{0,5}\"",
        Just("true".to_owned()),
        "[0-9]{1,3}",
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        let member =
            (name.clone(), inner.clone()).prop_map(|(name, json)| format!("\"{name}\":{json}"));
        let members = prop::collection::vec(member, 0..6);
        let items = prop::collection::vec(inner, 0..4);
        prop_oneof![
            3 => members.prop_map(|members| format!("{{{}}}", members.join(","))),
            2 => items.prop_map(|items| format!("[{}]", items.join(","))),
        ]
    })
}

fn check_choices(list: &str, client: &Client) {
    match choices::choose(list, client) {
        Ok(Some(config)) => {
            check(&config);
            assert!(
                choices::Choices::parse(list)
                    .unwrap()
                    .iter()
                    .any(|choice| choice.is_for(client))
            );
        }
        Ok(None) => {}
        Err(refused) => assert!(
            refused
                .faults()
                .iter()
                .all(|fault| fault.path.starts_with('$'))
        ),
    }
}

fn check(text: &str) {
    match ServiceConfig::parse(text) {
        Ok(config) => {
            assert!(config.warnings().iter().all(|w| w.path.starts_with('$')));
            let _ = (config.method("/a.B/C"), config.method(text));
            assert!(LiveServiceConfig::default().update(text).is_ok());
        }
        Err(refused) => assert!(!refused.faults().is_empty()),
    }
}

proptest! {
    #[test]
    fn no_service_config_panics(text in ".{0,80}", config in config(), policy in policy()) {
        for text in [text, config, policy] {
            check(&text);
        }
    }

    #[test]
    fn no_json_panics_and_an_invalid_config_changes_nothing(json in json()) {
        check(&json);
        let live = LiveServiceConfig::default();
        live.update(r#"{"retryThrottling":{"maxTokens":7,"tokenRatio":1}}"#).unwrap();
        let before = live.load();
        let refused = live.update(&json).is_err();
        prop_assert_eq!(refused, std::sync::Arc::ptr_eq(&before, &live.load()));
    }

    #[test]
    fn no_list_of_choices_panics(
        json in json(), list in prop::collection::vec(json(), 0..3), text in ".{0,80}", percentile in any::<u32>(),
        record in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..4),
    ) {
        let client = Client::new(percentile).hostname("a");
        check_choices(&json, &client);
        check_choices(&text, &client);
        check_choices(&format!("[{}]", list.join(",")), &client);
        let of_each = list.iter().map(|config| format!(r#"{{"percentage":50,"serviceConfig":{config}}}"#));
        check_choices(&format!("[{}]", of_each.collect::<Vec<_>>().join(",")), &client);
        let _ = choices::txt_value(&record);
        let record = [b"grpc_config=".to_vec()].into_iter().chain(record);
        if let Ok(value) = choices::txt_value(record) {
            check_choices(&value.expect("it has the attribute"), &client);
        }
    }

    #[test]
    fn no_back_off_of_a_policy_passes_its_maximum(
        initial in any::<u64>(), max in any::<u64>(), factor in any::<f64>(), retries in any::<u32>(),
    ) {
        let max = Duration::from_nanos(max);
        let policy = reattempt_grpc::service_config::RetryPolicy::new(
            5, Duration::from_nanos(initial), max, factor, reattempt_grpc::CodeSet::EMPTY,
        );
        prop_assert!(policy.delay_after(retries) <= max);
        prop_assert_eq!(policy.max_attempts(), Some(5));
    }

    #[test]
    fn no_header_panics(
        bytes in prop::collection::vec(any::<u8>(), 0..20), number in "-?[0-9]{1,12}[numSMHx]?",
    ) {
        let service = tower::service_fn(|_: Request<()>| async { Ok::<_, Infallible>(()) });
        let mut service = GrpcTimeoutLayer.layer(service);
        for bytes in [&bytes[..], number.as_bytes()] {
            if let ServerPushback::After(delay) = GrpcPushback::parse(bytes) {
                prop_assert!(delay <= Duration::from_millis(i32::MAX as u64));
            }
            let Ok(value) = HeaderValue::from_bytes(bytes) else {
                continue;
            };
            let response = Response::builder()
                .header("grpc-status", &value)
                .header("grpc-retry-pushback-ms", &value);
            let response = response.body(()).unwrap();
            let context = CallContext::default();
            let _ = ReadPushback::<_, ()>::read(&GrpcPushback, Ok(&response), &context);
            let classifier = GrpcClassifier::new();
            let _ = Classify::<_, std::io::Error>::classify(&classifier, Ok(&response), &context);
            let request = Request::builder().header("grpc-timeout", value).body(()).unwrap();
            drop(service.call(request));
        }
    }
}

//! Policies inside of an application's own settings, in TOML and in YAML.

use std::fmt::Debug;
use std::time::Duration;

use http::Request;
use reattempt::{Recovery, RetryThrottle, Route};
use reattempt_couchbase::ErrorMap;
use reattempt_grpc::service_config::ServiceConfig;
use reattempt_http::policy::{HttpPolicies, Parsed};
use serde::Deserialize;
use serde::de::DeserializeOwned;

fn toml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

fn yaml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_norway::from_str(text).map_err(|error| error.to_string())
}

/// The error has all of these faults.
fn has<T: Debug>(refused: Result<T, String>, faults: &[&str]) {
    let error = refused.unwrap_err();
    assert!(faults.iter().all(|fault| error.contains(fault)), "{error}");
}

#[derive(Debug, Deserialize)]
struct Http {
    name: String,
    http: Parsed,
}

fn check_http(settings: Http) {
    assert_eq!(settings.name, "shop");
    let [warning] = &settings.http.warnings[..] else {
        panic!("{:?}", settings.http.warnings)
    };
    assert_eq!(warning.path, "$.color");
    let policies = settings.http.policies;
    let route = policies.route(&Request::get("/v1/a").body(()).unwrap());
    let route = route.unwrap();
    assert_eq!(route.timeout(), Some(Duration::from_millis(1500)));
    let Recovery::Retry(retry) = route.recovery() else {
        panic!("{route:?}")
    };
    assert_eq!(retry.max_attempts(), Some(4));
    let throttle = policies.throttle("backend").unwrap();
    assert_eq!(throttle.milli_tokens(), Some(10_000));
}

const HTTP_FAULTS: [&str; 3] = [
    "the HTTP policy cannot be used",
    "$.routes[0].retry.maxAttempts: must be an integer from 1 to 1000, got 2.5",
    "$.routes[0].timeout: must be a duration greater than 0",
];

#[test]
fn http_policies_stand_in_toml() {
    let settings = r#"
        name = "shop"
        [http]
        color = "red"
        throttles.backend = { maxTokens = 10, tokenRatio = 0.1 }
        [[http.routes]]
        match = { methods = ["GET"], prefix = "/v1/" }
        retry = { maxAttempts = 4, backoff = { initial = "0.1s", multiplier = 1.5 } }
        timeout = "1.5s"
        throttle = "backend"
    "#;
    check_http(toml(settings).unwrap());
    let settings = r#"routes = [{ timeout = 5, retry = { maxAttempts = 2.5 } }]"#;
    has(toml::<HttpPolicies>(settings), &HTTP_FAULTS);
}

#[test]
fn http_policies_stand_in_yaml() {
    let settings = "
name: shop
http:
  color: red
  throttles:
    backend: {maxTokens: 10, tokenRatio: 0.1}
  routes:
    - match: {methods: [GET], prefix: /v1/}
      retry: {maxAttempts: 4, backoff: {initial: 0.1s, multiplier: 1.5}}
      timeout: 1.5s
      throttle: backend
";
    check_http(yaml(settings).unwrap());
    let settings = "routes: [{timeout: 5, retry: {maxAttempts: 2.5}}]";
    has(yaml::<HttpPolicies>(settings), &HTTP_FAULTS);
}

fn check_grpc(config: &ServiceConfig) {
    let policy = &config.method("/a.B/C").policy;
    assert_eq!(policy.timeout(), Some(Duration::from_secs(5)));
    let Recovery::Retry(retry) = policy.recovery() else {
        panic!("{policy:?}")
    };
    assert_eq!(retry.max_attempts(), Some(3));
    assert_eq!(config.throttle().unwrap().milli_tokens(), Some(10_000));
}

const GRPC_FAULTS: [&str; 2] = [
    "$.methodConfig[0].timeout: must be a duration",
    "$.retryThrottling.tokenRatio: is missing: a number is needed",
];

#[test]
fn a_service_config_stands_in_toml() {
    let settings = r#"
        retryThrottling = { maxTokens = 10, tokenRatio = 0.1 }
        [[methodConfig]]
        name = [{ service = "a.B" }]
        timeout = "5s"
        [methodConfig.retryPolicy]
        maxAttempts = 3
        initialBackoff = "0.1s"
        maxBackoff = "1s"
        backoffMultiplier = 2
        retryableStatusCodes = ["UNAVAILABLE", 8]
    "#;
    check_grpc(&toml(settings).unwrap());
    let settings = r#"
        retryThrottling = { maxTokens = 10 }
        methodConfig = [{ name = [{}], timeout = "1m" }]
    "#;
    has(toml::<ServiceConfig>(settings), &GRPC_FAULTS);
}

#[test]
fn a_service_config_stands_in_yaml() {
    let settings = "
retryThrottling: {maxTokens: 10, tokenRatio: 0.1}
methodConfig:
  - name: [{service: a.B}]
    timeout: 5s
    retryPolicy:
      maxAttempts: 3
      initialBackoff: 0.1s
      maxBackoff: 1s
      backoffMultiplier: 2
      retryableStatusCodes: [UNAVAILABLE, 8]
";
    check_grpc(&yaml(settings).unwrap());
    let settings = "
retryThrottling: {maxTokens: 10}
methodConfig: [{name: [{}], timeout: 1m}]
";
    has(yaml::<ServiceConfig>(settings), &GRPC_FAULTS);
}

fn check_map(map: &ErrorMap) {
    let entry = map.get(0xf1).unwrap();
    assert!(entry.attributes().retry());
    let spec = entry.retry_spec().unwrap();
    assert_eq!(spec.delay(1), Duration::from_millis(20));
    assert!(map.faults().is_empty(), "{:?}", map.faults());
}

const MAP_FAULTS: [&str; 2] = [
    "$.version: must be an integer that is not negative",
    "$.errors: must be an object of statuses",
];

#[test]
fn an_error_map_stands_in_toml() {
    let settings = r#"
        version = 2
        revision = 1
        [errors.f1]
        attrs = ["auto-retry"]
        retry = { strategy = "linear", interval = 20, after = 5 }
    "#;
    check_map(&toml(settings).unwrap());
    has(toml::<ErrorMap>("version = -1\nerrors = []"), &MAP_FAULTS);
}

#[test]
fn an_error_map_stands_in_yaml() {
    let settings = "
version: 2
revision: 1
errors:
  f1:
    attrs: [auto-retry]
    retry: {strategy: linear, interval: 20, after: 5}
";
    check_map(&yaml(settings).unwrap());
    has(yaml::<ErrorMap>("{version: -1, errors: []}"), &MAP_FAULTS);
}

/// Of two the last one would be used, and no one would see it.
#[test]
fn a_member_that_is_there_twice_is_no_policy() {
    let twice = r#"{"default": {"timeout": "2s", "retry": {}, "timeout": "200s"}}"#;
    let refused = serde_json::from_str::<Parsed>(twice).map_err(|error| error.to_string());
    has(refused, &["\"timeout\" is there twice"]);
}

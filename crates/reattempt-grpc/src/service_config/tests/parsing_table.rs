//! The forms in which current gRPC clients differ, row by row: what is accepted with which value,
//! and what is rejected with which fault. The decisions are documented in
//! docs/conformance/grpc-service-config.md.

use std::time::Duration;

use reattempt::backoff::Jitter;
use reattempt::reason::UNKNOWN;
use reattempt::throttle::Settled;
use reattempt::{Decision, Failure, Recovery, RetryThrottle, RetryView, RoutePolicy, Stage};

use crate::MethodPolicy;
use crate::service_config::{Options, ServiceConfig};

/// The position of the fragment; the rest of the config is a valid default.
#[derive(Clone, Copy, Debug)]
enum At {
    /// In place of this member of the retry policy.
    Retry(&'static str),
    /// In place of this member of the hedging policy.
    Hedge(&'static str),
    /// In place of this member of `retryThrottling`.
    Throttling(&'static str),
    /// Members of an entry that applies to every call.
    Entry,
    /// The list of names of an entry with a timeout.
    Names,
    /// Members of the document.
    Document,
    /// The whole text.
    Text,
}

/// The expected result.
#[derive(Clone, Copy, Debug)]
enum Is {
    /// Accepted; the config shown for `/a.B/C` contains this text.
    Taken(&'static str),
    /// Rejected with exactly one fault, which starts with this text; `…` stands for the path of the
    /// policy, entry or throttling.
    Refused(&'static str),
}
use At::*;
use Is::*;

const DURATION: &str =
    "must be a duration greater than 0 such as \"0.1s\" (at most nine decimal places), got";

/// Row, position, fragment, expected result.
type Row = (&'static str, At, &'static str, Is);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // Names of fields, and `null`.
    ("field name in another case, required", Retry("maxAttempts"), r#""MaxAttempts":3"#, Refused("….maxAttempts: is missing: an integer is needed")),
    ("field name in another case, optional", Entry, r#""Timeout":"1s""#, Taken("timeout None")),
    ("field name in proto form", Retry("initialBackoff"), r#""initial_backoff":"1s""#, Refused("….initialBackoff: is missing: a duration is needed")),
    ("field twice", Retry("maxAttempts"), r#""maxAttempts":3,"maxAttempts":3"#, Refused("….maxAttempts: is there twice")),
    ("field twice, written in two ways", Retry("maxAttempts"), r#""maxAttempts":3,"m\u0061xAttempts":3"#, Refused("….maxAttempts: is there twice")),
    ("unknown field twice", Entry, r#""x":1,"x":1"#, Refused("….x: is there twice")),
    ("unknown field", Entry, r#""perAttemptRecvTimeout":"junk""#, Taken("none")),
    ("retryPolicy null", Entry, r#""retryPolicy":null"#, Taken("none")),
    ("retryThrottling null", Document, r#""retryThrottling":null"#, Taken("no bucket")),
    ("methodConfig null", Document, r#""methodConfig":null"#, Taken("none")),
    // maxAttempts
    ("maxAttempts \"4\"", Retry("maxAttempts"), r#""maxAttempts":"4""#, Refused("….maxAttempts: must be an integer greater than 1, got \"4\"")),
    ("maxAttempts 3.0", Retry("maxAttempts"), r#""maxAttempts":3.0"#, Taken("retry 3")),
    ("maxAttempts 3e0", Retry("maxAttempts"), r#""maxAttempts":3e0"#, Taken("retry 3")),
    ("maxAttempts 0.3E+1", Retry("maxAttempts"), r#""maxAttempts":0.3E+1"#, Taken("retry 3")),
    ("maxAttempts 2.5", Retry("maxAttempts"), r#""maxAttempts":2.5"#, Refused("….maxAttempts: must be an integer greater than 1, got 2.5")),
    ("maxAttempts null", Retry("maxAttempts"), r#""maxAttempts":null"#, Refused("….maxAttempts: is missing: an integer is needed")),
    ("maxAttempts absent", Retry("maxAttempts"), "", Refused("….maxAttempts: is missing: an integer is needed")),
    ("maxAttempts 1", Retry("maxAttempts"), r#""maxAttempts":1"#, Refused("….maxAttempts: must be an integer greater than 1, got 1")),
    ("maxAttempts -3", Retry("maxAttempts"), r#""maxAttempts":-3"#, Refused("….maxAttempts: must be an integer greater than 1, got -3")),
    ("maxAttempts 5", Retry("maxAttempts"), r#""maxAttempts":5"#, Taken("retry 5")),
    ("maxAttempts 6", Retry("maxAttempts"), r#""maxAttempts":6"#, Taken("retry 5")),
    ("maxAttempts 1e99", Retry("maxAttempts"), r#""maxAttempts":1e99"#, Taken("retry 5")),
    ("hedging maxAttempts 6", Hedge("maxAttempts"), r#""maxAttempts":6"#, Taken("hedge 5")),
    ("hedging maxAttempts \"4\"", Hedge("maxAttempts"), r#""maxAttempts":"4""#, Refused("….maxAttempts: must be an integer greater than 1, got \"4\"")),
    ("hedging maxAttempts absent", Hedge("maxAttempts"), "", Refused("….maxAttempts: is missing: an integer is needed")),
    // backoffMultiplier
    ("multiplier \"2\"", Retry("backoffMultiplier"), r#""backoffMultiplier":"2""#, Refused("….backoffMultiplier: must be a number greater than 0, got \"2\"")),
    ("multiplier 0.5", Retry("backoffMultiplier"), r#""backoffMultiplier":0.5"#, Taken("100ms, 50ms")),
    ("multiplier 2e0", Retry("backoffMultiplier"), r#""backoffMultiplier":2e0"#, Taken("100ms, 200ms")),
    ("multiplier 0", Retry("backoffMultiplier"), r#""backoffMultiplier":0"#, Refused("….backoffMultiplier: must be a number greater than 0, got 0")),
    ("multiplier -1", Retry("backoffMultiplier"), r#""backoffMultiplier":-1"#, Refused("….backoffMultiplier: must be a number greater than 0, got -1")),
    ("multiplier 1e999", Retry("backoffMultiplier"), r#""backoffMultiplier":1e999"#, Refused("….backoffMultiplier: must be a number that a 64-bit float can hold, got 1e999")),
    ("multiplier 1e-999", Retry("backoffMultiplier"), r#""backoffMultiplier":1e-999"#, Refused("….backoffMultiplier: must be a number that a 64-bit float can hold, got 1e-999")),
    ("multiplier 1e308", Retry("backoffMultiplier"), r#""backoffMultiplier":1e308"#, Taken("100ms, 315576000000s")),
    // Durations
    ("\".5s\"", Retry("initialBackoff"), r#""initialBackoff":".5s""#, Refused("….initialBackoff: DURATION \".5s\"")),
    ("\"1.s\"", Retry("initialBackoff"), r#""initialBackoff":"1.s""#, Refused("….initialBackoff: DURATION \"1.s\"")),
    ("10 fraction digits", Retry("initialBackoff"), r#""initialBackoff":"0.1000000000s""#, Refused("….initialBackoff: DURATION \"0.1000000000s\"")),
    ("\"0.000000001s\"", Retry("initialBackoff"), r#""initialBackoff":"0.000000001s""#, Taken("after 1ns, 2ns")),
    ("\"1.000000001s\"", Retry("initialBackoff"), r#""initialBackoff":"1.000000001s""#, Taken("after 1.000000001s, 2.000000002s")),
    ("\"+1s\"", Retry("initialBackoff"), r#""initialBackoff":"+1s""#, Refused("….initialBackoff: DURATION \"+1s\"")),
    ("\" 1s\"", Retry("initialBackoff"), r#""initialBackoff":" 1s""#, Refused("….initialBackoff: DURATION \" 1s\"")),
    ("\"1 s\"", Retry("initialBackoff"), r#""initialBackoff":"1 s""#, Refused("….initialBackoff: DURATION \"1 s\"")),
    ("\"--1s\"", Retry("initialBackoff"), r#""initialBackoff":"--1s""#, Refused("….initialBackoff: DURATION \"--1s\"")),
    ("\"1.-5s\"", Retry("initialBackoff"), r#""initialBackoff":"1.-5s""#, Refused("….initialBackoff: DURATION \"1.-5s\"")),
    ("\"01s\"", Retry("initialBackoff"), r#""initialBackoff":"01s""#, Refused("….initialBackoff: DURATION \"01s\"")),
    ("\"1e0s\"", Retry("initialBackoff"), r#""initialBackoff":"1e0s""#, Refused("….initialBackoff: DURATION \"1e0s\"")),
    ("\"1\"", Retry("initialBackoff"), r#""initialBackoff":"1""#, Refused("….initialBackoff: DURATION \"1\"")),
    ("\"1S\"", Retry("initialBackoff"), r#""initialBackoff":"1S""#, Refused("….initialBackoff: DURATION \"1S\"")),
    ("duration 1", Retry("initialBackoff"), r#""initialBackoff":1"#, Refused("….initialBackoff: DURATION 1")),
    ("\"315576000000s\"", Retry("initialBackoff"), r#""initialBackoff":"315576000000s""#, Taken("after 315576000000s")),
    ("\"315576000001s\"", Retry("initialBackoff"), r#""initialBackoff":"315576000001s""#, Refused("….initialBackoff: DURATION \"315576000001s\"")),
    ("\"315576000000.000000001s\"", Retry("maxBackoff"), r#""maxBackoff":"315576000000.000000001s""#, Refused("….maxBackoff: DURATION \"315576000000.000000001s\"")),
    ("\"0s\" backoff", Retry("initialBackoff"), r#""initialBackoff":"0s""#, Refused("….initialBackoff: DURATION \"0s\"")),
    ("\"0s\" maxBackoff", Retry("maxBackoff"), r#""maxBackoff":"0s""#, Refused("….maxBackoff: DURATION \"0s\"")),
    ("\"-0s\" backoff", Retry("initialBackoff"), r#""initialBackoff":"-0s""#, Refused("….initialBackoff: DURATION \"-0s\"")),
    ("\"-1s\" backoff", Retry("initialBackoff"), r#""initialBackoff":"-1s""#, Refused("….initialBackoff: DURATION \"-1s\"")),
    ("initialBackoff absent", Retry("initialBackoff"), "", Refused("….initialBackoff: is missing: a duration is needed")),
    ("\"-1s\" timeout", Entry, r#""timeout":"-1s""#, Refused("….timeout: must be a duration such as \"0.1s\" (at most nine decimal places), got \"-1s\"")),
    ("\"0s\" timeout", Entry, r#""timeout":"0s""#, Taken("timeout Some(0ns)")),
    ("\"0.5s\" timeout", Entry, r#""timeout":"0.5s""#, Taken("timeout Some(500ms)")),
    ("\"1.5s\" timeout", Entry, r#""timeout":"1.5s""#, Taken("timeout Some(1.5s)")),
    ("timeout null", Entry, r#""timeout":null"#, Taken("timeout None")),
    ("timeout 1", Entry, r#""timeout":1"#, Refused("….timeout: must be a duration such as \"0.1s\" (at most nine decimal places), got 1")),
    ("timeout object", Entry, r#""timeout":{"seconds":1}"#, Refused("….timeout: must be a duration such as \"0.1s\" (at most nine decimal places), got an object")),
    // Status codes
    ("codes [14]", Retry("retryableStatusCodes"), r#""retryableStatusCodes":[14]"#, Taken("{Unavailable}")),
    ("codes [\"unavailable\"]", Retry("retryableStatusCodes"), r#""retryableStatusCodes":["unavailable"]"#, Taken("{Unavailable}")),
    ("codes [\"UnAvailable\",\"ABORTED\",1]", Retry("retryableStatusCodes"), r#""retryableStatusCodes":["UnAvailable","ABORTED",1]"#, Taken("{Cancelled, Aborted, Unavailable}")),
    ("codes [0]", Retry("retryableStatusCodes"), r#""retryableStatusCodes":[0]"#, Refused("….retryableStatusCodes[0]: CODE 0")),
    ("codes [\"OK\"]", Retry("retryableStatusCodes"), r#""retryableStatusCodes":["OK"]"#, Refused("….retryableStatusCodes[0]: CODE \"OK\"")),
    ("codes [17]", Retry("retryableStatusCodes"), r#""retryableStatusCodes":[17]"#, Refused("….retryableStatusCodes[0]: CODE 17")),
    ("codes [-1]", Retry("retryableStatusCodes"), r#""retryableStatusCodes":[-1]"#, Refused("….retryableStatusCodes[0]: CODE -1")),
    ("codes [-14]", Retry("retryableStatusCodes"), r#""retryableStatusCodes":[-14]"#, Refused("….retryableStatusCodes[0]: CODE -14")),
    ("codes [\"BOGUS\"]", Retry("retryableStatusCodes"), r#""retryableStatusCodes":["BOGUS"]"#, Refused("….retryableStatusCodes[0]: CODE \"BOGUS\"")),
    ("codes [\"14\"]", Retry("retryableStatusCodes"), r#""retryableStatusCodes":["14"]"#, Refused("….retryableStatusCodes[0]: CODE \"14\"")),
    ("codes [14.5]", Retry("retryableStatusCodes"), r#""retryableStatusCodes":[14.5]"#, Refused("….retryableStatusCodes[0]: CODE 14.5")),
    ("codes [14.0]", Retry("retryableStatusCodes"), r#""retryableStatusCodes":[14.0]"#, Taken("{Unavailable}")),
    ("codes [1.4e1]", Retry("retryableStatusCodes"), r#""retryableStatusCodes":[1.4e1]"#, Taken("{Unavailable}")),
    ("codes [\"CANCELED\"]", Retry("retryableStatusCodes"), r#""retryableStatusCodes":["CANCELED"]"#, Refused("….retryableStatusCodes[0]: CODE \"CANCELED\"")),
    ("codes [\" UNAVAILABLE\"]", Retry("retryableStatusCodes"), r#""retryableStatusCodes":[" UNAVAILABLE"]"#, Refused("….retryableStatusCodes[0]: CODE \" UNAVAILABLE\"")),
    ("codes [null]", Retry("retryableStatusCodes"), r#""retryableStatusCodes":[14,null]"#, Refused("….retryableStatusCodes[1]: CODE null")),
    ("codes [14,14]", Retry("retryableStatusCodes"), r#""retryableStatusCodes":[14,"UNAVAILABLE"]"#, Taken("{Unavailable}")),
    ("codes []", Retry("retryableStatusCodes"), r#""retryableStatusCodes":[]"#, Refused("….retryableStatusCodes: must name at least one status code")),
    ("codes \"UNAVAILABLE\"", Retry("retryableStatusCodes"), r#""retryableStatusCodes":"UNAVAILABLE""#, Refused("….retryableStatusCodes: must be an array of status codes, got \"UNAVAILABLE\"")),
    ("codes absent", Retry("retryableStatusCodes"), "", Refused("….retryableStatusCodes: is missing: an array of status codes is needed")),
    // hedgingPolicy
    ("hedging, no hedgingDelay", Hedge("hedgingDelay"), "", Taken("hedge 3 each 0ns")),
    ("hedgingDelay \"0s\"", Hedge("hedgingDelay"), r#""hedgingDelay":"0s""#, Taken("hedge 3 each 0ns")),
    ("hedgingDelay \"0.5s\"", Hedge("hedgingDelay"), r#""hedgingDelay":"0.5s""#, Taken("hedge 3 each 500ms")),
    ("hedgingDelay \"-1s\"", Hedge("hedgingDelay"), r#""hedgingDelay":"-1s""#, Refused("….hedgingDelay: must be a duration such as")),
    ("hedgingDelay 5", Hedge("hedgingDelay"), r#""hedgingDelay":5"#, Refused("….hedgingDelay: must be a duration such as")),
    ("nonFatalStatusCodes absent", Hedge("nonFatalStatusCodes"), "", Taken("{}")),
    ("nonFatalStatusCodes []", Hedge("nonFatalStatusCodes"), r#""nonFatalStatusCodes":[]"#, Taken("{}")),
    ("nonFatalStatusCodes \"U\"", Hedge("nonFatalStatusCodes"), r#""nonFatalStatusCodes":"U""#, Refused("….nonFatalStatusCodes: must be an array of status codes, got \"U\"")),
    ("nonFatalStatusCodes [\"OK\"]", Hedge("nonFatalStatusCodes"), r#""nonFatalStatusCodes":["OK"]"#, Refused("….nonFatalStatusCodes[0]: CODE \"OK\"")),
    ("hedgingPolicy [] ", Entry, r#""hedgingPolicy":[]"#, Refused("….hedgingPolicy: must be an object, got an array")),
    ("both policies", Entry, r#""retryPolicy":{RETRY},"hedgingPolicy":{"maxAttempts":2}"#, Refused("…: has both retryPolicy and hedgingPolicy: only one may be set")),
    ("both policies, one null", Entry, r#""retryPolicy":null,"hedgingPolicy":{"maxAttempts":2}"#, Taken("hedge 2")),
    // retryThrottling
    ("maxTokens 1", Throttling("maxTokens"), r#""maxTokens":1"#, Taken("bucket of 1000")),
    ("maxTokens 1000", Throttling("maxTokens"), r#""maxTokens":1000"#, Taken("bucket of 1000000")),
    ("maxTokens 1001", Throttling("maxTokens"), r#""maxTokens":1001"#, Refused("….maxTokens: must be an integer from 1 to 1000, got 1001")),
    ("maxTokens 0", Throttling("maxTokens"), r#""maxTokens":0"#, Refused("….maxTokens: must be an integer from 1 to 1000, got 0")),
    ("maxTokens -1", Throttling("maxTokens"), r#""maxTokens":-1"#, Refused("….maxTokens: must be an integer from 1 to 1000, got -1")),
    ("maxTokens 0.5", Throttling("maxTokens"), r#""maxTokens":0.5"#, Refused("….maxTokens: must be an integer from 1 to 1000, got 0.5")),
    ("maxTokens 2.5", Throttling("maxTokens"), r#""maxTokens":2.5"#, Refused("….maxTokens: must be an integer from 1 to 1000, got 2.5")),
    ("maxTokens 10.0", Throttling("maxTokens"), r#""maxTokens":10.0"#, Taken("bucket of 10000")),
    ("maxTokens \"10\"", Throttling("maxTokens"), r#""maxTokens":"10""#, Refused("….maxTokens: must be an integer from 1 to 1000, got \"10\"")),
    ("maxTokens absent", Throttling("maxTokens"), "", Refused("….maxTokens: is missing: an integer is needed")),
    ("tokenRatio 0.0004", Throttling("tokenRatio"), r#""tokenRatio":0.0004"#, Refused("….tokenRatio: must be a number of at least 0.001 (decimal places beyond 3 are dropped), got 0.0004")),
    ("tokenRatio 1e-1", Throttling("tokenRatio"), r#""tokenRatio":1e-1"#, Taken("+100")),
    ("tokenRatio 0.5466", Throttling("tokenRatio"), r#""tokenRatio":0.5466"#, Taken("+546")),
    ("tokenRatio 0.251", Throttling("tokenRatio"), r#""tokenRatio":0.251"#, Taken("+251")),
    ("tokenRatio 0.0019999", Throttling("tokenRatio"), r#""tokenRatio":0.0019999"#, Taken("+1")),
    ("tokenRatio 1", Throttling("tokenRatio"), r#""tokenRatio":1"#, Taken("+1000")),
    ("tokenRatio huge", Throttling("tokenRatio"), r#""tokenRatio":1e999"#, Taken("+10000")),
    ("tokenRatio 0", Throttling("tokenRatio"), r#""tokenRatio":0"#, Refused("….tokenRatio: must be a number of at least 0.001")),
    ("tokenRatio negative", Throttling("tokenRatio"), r#""tokenRatio":-0.1"#, Refused("….tokenRatio: must be a number of at least 0.001")),
    ("tokenRatio \"0.1\"", Throttling("tokenRatio"), r#""tokenRatio":"0.1""#, Refused("….tokenRatio: must be a number of at least 0.001")),
    ("tokenRatio absent", Throttling("tokenRatio"), "", Refused("….tokenRatio: is missing: a number is needed")),
    // Names
    ("name {}", Names, "[{}]", Taken("timeout Some(7s)")),
    ("name {} twice", Names, "[{},{}]", Refused("….name[1]: names the same calls as $.methodConfig[0].name[0]")),
    ("{\"service\":\"\",\"method\":\"\"}", Names, r#"[{"service":"","method":""}]"#, Taken("timeout Some(7s)")),
    ("{\"service\":\"\",\"method\":\"m\"}", Names, r#"[{"service":"","method":"C"}]"#, Refused("….name[0]: a method needs its service")),
    ("{\"method\":\"m\"}", Names, r#"[{"method":"C"}]"#, Refused("….name[0]: a method needs its service")),
    ("{\"service\":\"s\",\"method\":null}", Names, r#"[{"service":"a.B","method":null}]"#, Taken("timeout Some(7s)")),
    ("service in another case", Names, r#"[{"service":"A.b"}]"#, Taken("timeout None")),
    ("duplicate service", Names, r#"[{"service":"s"},{"service":"s","method":""}]"#, Refused("….name[1]: names the same calls as $.methodConfig[0].name[0]")),
    ("duplicate method", Names, r#"[{"service":"s","method":"m"},{"method":"m","service":"s"}]"#, Refused("….name[1]: names the same calls as $.methodConfig[0].name[0]")),
    ("service 1", Names, r#"[{"service":1}]"#, Refused("….name[0].service: must be a string, got 1")),
    ("name [null]", Names, "[null]", Refused("….name[0]: must be an object, got null")),
    ("name not array", Names, "{}", Refused("….name: must be an array of objects, got an object")),
    ("name []", Names, "[]", Taken("timeout None")),
    ("name null", Names, "null", Taken("timeout None")),
    ("name missing", Document, r#""methodConfig":[{"timeout":"7s"}]"#, Taken("timeout None")),
    ("name missing, invalid all the same", Document, r#""methodConfig":[{"timeout":"7"}]"#, Refused("….timeout: must be a duration such as")),
    ("duplicate across entries", Document, r#""methodConfig":[{"name":[{"service":"a.B"}]},{"name":[{},{"service":"a.B"}]}]"#, Refused("$.methodConfig[1].name[1]: names the same calls as $.methodConfig[0].name[0]")),
    ("methodConfig {}", Document, r#""methodConfig":{}"#, Refused("$.methodConfig: must be an array of objects, got an object")),
    ("methodConfig [null]", Document, r#""methodConfig":[null]"#, Refused("…: must be an object, got null")),
    ("methodConfig []", Document, r#""methodConfig":[]"#, Taken("none")),
    // Load balancing
    ("loadBalancingConfig of unknown policies only", Document, r#""loadBalancingConfig":[{"unknown_1":{}},{"unknown_2":{}}]"#, Refused("$.loadBalancingConfig: must name a load balancing policy that is known here, such as \"pick_first\" or \"round_robin\"")),
    ("loadBalancingConfig with a known one", Document, r#""loadBalancingConfig":[{"unknown":{"x":1}},{"round_robin":{}}]"#, Taken("none")),
    ("loadBalancingConfig with the client's own", Document, r#""loadBalancingConfig":[{"ours":{}}]"#, Taken("none")),
    ("loadBalancingConfig in another case", Document, r#""loadBalancingConfig":[{"Round_Robin":{}}]"#, Refused("$.loadBalancingConfig: must name a load balancing policy")),
    ("loadBalancingConfig []", Document, r#""loadBalancingConfig":[]"#, Taken("none")),
    ("loadBalancingConfig {}", Document, r#""loadBalancingConfig":{"round_robin":{}}"#, Refused("$.loadBalancingConfig: must be an array of objects, got an object")),
    ("loadBalancingConfig [{}]", Document, r#""loadBalancingConfig":[{"round_robin":{}},{}]"#, Refused("$.loadBalancingConfig[1]: must have one member, the name of a load balancing policy")),
    ("loadBalancingConfig, two names in one", Document, r#""loadBalancingConfig":[{"round_robin":{},"pick_first":{}}]"#, Refused("$.loadBalancingConfig[0]: must have one member, the name of a load balancing policy")),
    ("loadBalancingConfig, no object", Document, r#""loadBalancingConfig":[{"round_robin":1}]"#, Refused("$.loadBalancingConfig[0].round_robin: must be an object, got 1")),
    ("loadBalancingPolicy unknown", Document, r#""loadBalancingPolicy":"unknown""#, Refused("$.loadBalancingPolicy: must be a load balancing policy that is known here, such as \"pick_first\" or \"round_robin\", got \"unknown\"")),
    ("loadBalancingPolicy in any case", Document, r#""loadBalancingPolicy":"ROUND_ROBIN""#, Taken("none")),
    ("loadBalancingPolicy \"\"", Document, r#""loadBalancingPolicy":"""#, Taken("none")),
    ("loadBalancingPolicy 1", Document, r#""loadBalancingPolicy":1"#, Refused("$.loadBalancingPolicy: must be a string, got 1")),
    ("healthCheckConfig", Document, r#""healthCheckConfig":{"serviceName":"a.B"}"#, Taken("none")),
    ("healthCheckConfig of another form", Document, r#""healthCheckConfig":{"serviceName":1}"#, Refused("$.healthCheckConfig.serviceName: must be a string, got 1")),
    // waitForReady and sizes
    ("waitForReady true", Entry, r#""waitForReady":true"#, Taken("wait Some(true)")),
    ("waitForReady null", Entry, r#""waitForReady":null"#, Taken("wait None")),
    ("waitForReady \"true\"", Entry, r#""waitForReady":"true""#, Refused("….waitForReady: must be true or false, got \"true\"")),
    ("waitForReady 1", Entry, r#""waitForReady":1"#, Refused("….waitForReady: must be true or false, got 1")),
    ("maxRequestMessageBytes 0", Entry, r#""maxRequestMessageBytes":0"#, Taken("request Some(0)")),
    ("maxRequestMessageBytes 1024.0", Entry, r#""maxRequestMessageBytes":1024.0"#, Taken("request Some(1024)")),
    ("maxRequestMessageBytes 4294967295", Entry, r#""maxRequestMessageBytes":4294967295"#, Taken("request Some(4294967295)")),
    ("maxRequestMessageBytes 4294967296", Entry, r#""maxRequestMessageBytes":4294967296"#, Refused("….maxRequestMessageBytes: must be a whole number of bytes below 2^32, got 4294967296")),
    ("maxRequestMessageBytes \"1024\"", Entry, r#""maxRequestMessageBytes":"1024""#, Refused("….maxRequestMessageBytes: must be a whole number of bytes below 2^32, got \"1024\"")),
    ("maxRequestMessageBytes -1", Entry, r#""maxRequestMessageBytes":-1"#, Refused("….maxRequestMessageBytes: must be a whole number of bytes below 2^32, got -1")),
    ("maxRequestMessageBytes 0.5", Entry, r#""maxRequestMessageBytes":0.5"#, Refused("….maxRequestMessageBytes: must be a whole number of bytes below 2^32, got 0.5")),
    ("maxResponseMessageBytes 7", Entry, r#""maxResponseMessageBytes":7"#, Taken("response Some(7)")),
    ("maxResponseMessageBytes true", Entry, r#""maxResponseMessageBytes":true"#, Refused("….maxResponseMessageBytes: must be a whole number of bytes below 2^32, got true")),
    // The text
    ("empty text", Text, "", Refused("$: is not JSON: the text ends where a value should be (byte 0)")),
    ("null", Text, "null", Refused("$: must be an object, got null")),
    ("[]", Text, "[]", Refused("$: must be an object, got an array")),
    ("byte order mark", Text, "\u{feff}{}", Refused("$: is not JSON: a byte order mark is not allowed (byte 0)")),
    ("comment", Text, "{ // why\n}", Refused("$: is not JSON: a comment is not allowed (byte 2)")),
    ("trailing comma", Text, r#"{"a":1,}"#, Refused("$: is not JSON: a member needs a name in quotes (byte 7)")),
    ("trailing text", Text, "{}}", Refused("$: is not JSON: something follows the value (byte 2)")),
    ("half a surrogate pair", Text, r#"{"\ud800":1}"#, Refused("$: is not JSON: half a surrogate pair (byte 8)")),
    ("number with a leading zero", Retry("maxAttempts"), r#""maxAttempts":03"#, Refused("$: is not JSON: a number has no leading zeros (byte ")),
    ("number with a plus sign", Retry("maxAttempts"), r#""maxAttempts":+3"#, Refused("$: is not JSON: no JSON value starts like this (byte ")),
    ("NaN", Retry("backoffMultiplier"), r#""backoffMultiplier":NaN"#, Refused("$: is not JSON: no JSON value starts like this (byte ")),
    ("single quotes", Text, "{'a':1}", Refused("$: is not JSON: a member needs a name in quotes (byte 1)")),
];

const RETRY: [(&str, &str); 5] = [
    ("maxAttempts", r#""maxAttempts":3"#),
    ("initialBackoff", r#""initialBackoff":"0.1s""#),
    ("maxBackoff", r#""maxBackoff":"315576000000s""#),
    ("backoffMultiplier", r#""backoffMultiplier":2"#),
    ("retryableStatusCodes", r#""retryableStatusCodes":[14]"#),
];
const HEDGE: [(&str, &str); 3] = [
    ("maxAttempts", r#""maxAttempts":3"#),
    ("hedgingDelay", r#""hedgingDelay":"1s""#),
    ("nonFatalStatusCodes", r#""nonFatalStatusCodes":[14]"#),
];
const THROTTLING: [(&str, &str); 2] = [
    ("maxTokens", r#""maxTokens":10"#),
    ("tokenRatio", r#""tokenRatio":0.1"#),
];

/// The default members, with one of them replaced.
fn members(usual: &[(&str, &str)], replaced: &str, fragment: &str) -> String {
    let members = usual
        .iter()
        .map(|(name, member)| if *name == replaced { fragment } else { member })
        .filter(|member| !member.is_empty());
    members.collect::<Vec<_>>().join(",")
}

/// The whole text, and the path that `…` stands for.
fn text(at: At, fragment: &str) -> (String, &'static str) {
    let fragment = fragment.replace("RETRY", &members(&RETRY, "", ""));
    let entry = |members: &str| format!(r#"{{"methodConfig":[{{"name":[{{}}],{members}}}]}}"#);
    match at {
        Retry(name) => (
            entry(&format!(
                r#""retryPolicy":{{{}}}"#,
                members(&RETRY, name, &fragment)
            )),
            "$.methodConfig[0].retryPolicy",
        ),
        Hedge(name) => (
            entry(&format!(
                r#""hedgingPolicy":{{{}}}"#,
                members(&HEDGE, name, &fragment)
            )),
            "$.methodConfig[0].hedgingPolicy",
        ),
        Throttling(name) => {
            let members = members(&THROTTLING, name, &fragment);
            (
                format!(r#"{{"retryThrottling":{{{members}}}}}"#),
                "$.retryThrottling",
            )
        }
        Entry => (entry(&fragment), "$.methodConfig[0]"),
        Names => (
            format!(r#"{{"methodConfig":[{{"name":{fragment},"timeout":"7s"}}]}}"#),
            "$.methodConfig[0]",
        ),
        Document => (format!("{{{fragment}}}"), "$.methodConfig[0]"),
        Text => (fragment, "$"),
    }
}

/// The delay after this many retries.
fn delay(policy: &dyn reattempt::RetryStrategy, retries: u32) -> Duration {
    let failure = Failure::new(UNKNOWN, Stage::Response);
    let now = tokio::time::Instant::now().into_std();
    match policy.decide(&RetryView::new(&failure, now).retries(retries)) {
        Decision::After(delay) => delay,
        other => panic!("{other:?}"),
    }
}

fn recovery(policy: &RoutePolicy) -> String {
    match policy.recovery() {
        Recovery::Retry(retry) => {
            let (first, second) = (delay(&**retry, 0), delay(&**retry, 1));
            let attempts = retry.max_attempts().unwrap();
            format!("retry {attempts} after {first:?}, {second:?}")
        }
        Recovery::Hedge(hedge) => {
            format!(
                "hedge {} each {:?}",
                hedge.max_attempts(),
                hedge.delay().fixed().unwrap()
            )
        }
        Recovery::None => "none".to_owned(),
        _ => panic!("a config always says how"),
    }
}

/// The whole config of `/a.B/C`, as text.
fn shown(config: &ServiceConfig) -> String {
    let method = config.method("/a.B/C");
    let bucket = match config.throttle() {
        None => "no bucket".to_owned(),
        Some(bucket) => {
            let full = bucket.milli_tokens().unwrap();
            let failure = Failure::new(UNKNOWN, Stage::Response);
            (0..full / 1000).for_each(|_| bucket.settled(Settled::Failure(&failure)));
            bucket.settled(Settled::Success);
            format!("bucket of {full} +{}", bucket.milli_tokens().unwrap())
        }
    };
    format!(
        "{}; {:?}; timeout {:?}; wait {:?}; request {:?}; response {:?}; {bucket};",
        recovery(&method.policy),
        method.policy.data::<MethodPolicy>().unwrap().retryable,
        method.policy.timeout(),
        method.wait_for_ready,
        method.max_request_message_bytes,
        method.max_response_message_bytes,
    )
}

/// R1 R2 R3 R4 R5 R6 R7 R8 R9 R80
#[test]
fn every_row_of_the_table_is_decided() {
    let options = Options::new()
        .jitter(Jitter::None)
        .load_balancing_policy("ours");
    let mut wrong = Vec::new();
    for (row, at, fragment, is) in ROWS {
        let (text, here) = text(*at, fragment);
        let came = match ServiceConfig::parse_with(&text, &options) {
            Ok(config) => Ok(shown(&config)),
            Err(invalid) => {
                let faults = invalid.faults().iter().map(ToString::to_string);
                Err(faults.collect::<Vec<_>>())
            }
        };
        let right = match (is, &came) {
            (Taken(part), Ok(shown)) => shown.contains(part),
            (Refused(fault), Err(faults)) => {
                let fault = fault
                    .replace('…', here)
                    .replace("DURATION", DURATION)
                    .replace("CODE", "must be a gRPC status code other than OK: a number from 1 to 16 or a name such as \"UNAVAILABLE\", got");
                faults.len() == 1 && faults[0].starts_with(&fault)
            }
            _ => false,
        };
        if !right {
            wrong.push(format!(
                "{row}: {text}\n  should be {is:?}\n  came to {came:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

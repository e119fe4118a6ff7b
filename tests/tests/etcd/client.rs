//! The client: the documented stack around three channels, and the calls of the tests.

use std::time::Duration;

use reattempt::{RetryInfo, RoundRobin, Stage, StopReason};
use reattempt_grpc::service_config::{Options, ServiceConfig};
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};

use crate::messages::{
    Compare, KeyValue, PutRequest, PutResponse, RangeRequest, RangeResponse, RequestOp,
    StatusRequest, StatusResponse, TxnRequest, TxnResponse,
};
use crate::stack::{Stack, unary};

/// Reads are retried until they succeed. Writes have no policy: a write is sent again only if it
/// was never sent.
const SERVICE_CONFIG: &str = r#"{"methodConfig": [{
    "name": [{"service": "etcdserverpb.KV", "method": "Range"}],
    "timeout": "30s",
    "retryPolicy": {
        "maxAttempts": 1000, "initialBackoff": "0.01s", "maxBackoff": "0.1s", "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE", "DEADLINE_EXCEEDED"]
    }
}, {
    "name": [{"service": "etcdserverpb.KV"}],
    "timeout": "30s"
}]}"#;

/// The timeout of one attempt, for which a stopped member can block a call.
const ATTEMPT: Duration = Duration::from_millis(1500);

#[derive(Clone)]
pub(crate) struct Client {
    stack: Stack,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    /// Never sent, or rejected by the server without effect.
    NotDone,
    /// In flight when its attempt failed, or unknown to the server itself.
    Unknown,
}

/// The fate of a write that failed.
fn fate(info: &RetryInfo) -> Fate {
    let mut failures = info.records().map(|record| record.failure);
    if failures.all(|failure| failure.is_some_and(|failure| failure.stage == Stage::Dispatch)) {
        Fate::NotDone
    } else {
        Fate::Unknown
    }
}

impl Client {
    /// Each attempt of a call goes to a member that the call has not tried.
    pub(crate) fn new(ports: [u16; 3]) -> Self {
        let options = Options::new().max_attempts_limit(1000);
        let config = ServiceConfig::parse_with(SERVICE_CONFIG, &options).expect("a service config");
        let channels = ports.map(|port| (port.to_string(), channel(port, ATTEMPT)));
        Self {
            stack: Stack::new(config, RoundRobin::new(channels).expect("three")),
        }
    }

    /// The keys in this range, and the number of attempts. Linearizable: a member asks the leader
    /// first.
    ///
    /// If the stream fails after its head, the caller gets the error (R10) and repeats the call.
    pub(crate) async fn range(&self, key: &str, end: &[u8]) -> (Vec<KeyValue>, u32) {
        let message = RangeRequest {
            key: key.into(),
            range_end: end.into(),
        };
        let mut attempts = 0;
        loop {
            let (answer, info) = self
                .stack
                .call("/etcdserverpb.KV/Range", message.clone())
                .await;
            attempts += info.attempts();
            match answer {
                Ok(RangeResponse { kvs }) => return (kvs, attempts),
                Err(status) => {
                    let broken_off = info.stopped() == Some(StopReason::Committed);
                    assert!(broken_off, "a read is lost: {status}\n{info:#}");
                }
            }
        }
    }

    /// Writes a key that only this call writes.
    pub(crate) async fn put(&self, key: &str) -> Fate {
        let message = put(key, "once");
        match self.stack.call("/etcdserverpb.KV/Put", message).await {
            (Ok(PutResponse {}), _) => Fate::Done,
            (Err(_), info) => fate(&info),
        }
    }

    /// Writes both if the first key was last written at this revision.
    pub(crate) async fn put_both(&self, puts: [(&str, &str); 2], mod_revision: i64) -> Fate {
        let message = TxnRequest {
            compare: vec![Compare {
                target: Compare::MOD_REVISION,
                key: puts[0].0.to_owned(),
                mod_revision: Some(mod_revision),
            }],
            success: puts
                .map(|(key, value)| RequestOp {
                    put: Some(put(key, value)),
                })
                .into(),
        };
        match self.stack.call("/etcdserverpb.KV/Txn", message).await {
            (Ok(TxnResponse { succeeded: true }), _) => Fate::Done,
            (Ok(_), _) => Fate::NotDone,
            (Err(_), info) => fate(&info),
        }
    }
}

/// The status of one member, if it responds soon. Not through the stack.
pub(crate) async fn status(port: u16) -> Option<StatusResponse> {
    let grpc = Grpc::new(channel(port, Duration::from_secs(1)));
    let path = "/etcdserverpb.Maintenance/Status";
    unary(grpc, path, Request::new(StatusRequest {})).await.ok()
}

pub(crate) fn channel(port: u16, attempt: Duration) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).expect("an address");
    let endpoint = endpoint.timeout(attempt).connect_timeout(attempt);
    endpoint.connect_lazy()
}

fn put(key: &str, value: &str) -> PutRequest {
    PutRequest {
        key: key.into(),
        value: value.into(),
    }
}

//! A KV response with any status, framing extras and body: throttle duration, verdict, error map.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use reattempt::{CallContext, Classify, ReadPushback, RetryReason, Stage, reason};
use reattempt_couchbase::kv::{KvAnswer, KvPushback, KvTransportError};
use reattempt_couchbase::{ErrorMap, KvClassifier};

struct Answer<'a> {
    head: [u8; 3],
    body: &'a [u8],
    map: Option<ErrorMap>,
}

impl KvAnswer for Answer<'_> {
    fn status(&self) -> u16 {
        u16::from_be_bytes([self.head[0], self.head[1]])
    }
    fn opcode(&self) -> u8 {
        self.head[2]
    }
    fn framing_extras(&self) -> &[u8] {
        self.body
    }
    fn error_map(&self) -> Option<&ErrorMap> {
        self.map.as_ref()
    }
}

struct Lost;

impl KvTransportError for Lost {
    fn stage(&self) -> Stage {
        Stage::InFlight
    }
    fn reason(&self) -> RetryReason {
        reason::UNKNOWN
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((head, body)) = data.split_first_chunk::<3>() else {
        return;
    };
    let map = ErrorMap::parse(body).ok();
    let answer = Answer {
        head: *head,
        body,
        map,
    };
    let asked = answer.throttle_duration().unwrap_or_default();
    assert!(asked < Duration::from_secs(130));
    let _ = ReadPushback::<_, Lost>::read(&KvPushback::new(), Ok(&answer), &CallContext::default());
    let context = CallContext::default();
    for classifier in [
        KvClassifier::new(),
        KvClassifier::new().with_current_server_codes(),
    ] {
        let _ = Classify::<_, Lost>::classify(&classifier, Ok(&answer), &context);
    }
});

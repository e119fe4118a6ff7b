//! A KV node whose responses come from the input, from HELLO to the last request: features, error
//! map, SASL, bucket, configurations, also in 0x07 and pushed; then classifier, pushback and
//! strategy on the responses.
//!
//! Uses a loopback socket, because the client needs one. The node resets most of its connections,
//! so that few ports remain in TIME_WAIT.
#![no_main]

use std::cell::RefCell;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use reattempt::{CallContext, Classify, ReadPushback, RetryStrategy, RetryView, Verdict};
use reattempt_clients::kv::frame::CLUSTERMAP_CHANGED;
use reattempt_clients::kv::{
    ClientError, ClientOptions, Connection, Frame, KvRequest, KvResponse, Magic, VbucketMap,
    keep_in, offer_to,
};
use reattempt_couchbase::cluster_config::NetworkChoice;
use reattempt_couchbase::kv::{ErrorMapStrategy, KvPushback, Opcode, Status};
use reattempt_couchbase::{ConfigStore, ErrorMaps, KvClassifier};
use reattempt_testbed::kv::node::{
    FEATURE_ALT_REQUEST, FEATURE_COLLECTIONS, FEATURE_KNOWN_VERSION, FEATURE_XERROR,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tower_service::Service as _;

struct World {
    runtime: Runtime,
    listener: TcpListener,
    address: String,
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new({
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("it is bound").to_string();
        World { runtime, listener, address }
    });
}

/// Takes responses from the input: a byte of flags, then the data for the flags.
struct Answers<'a>(&'a [u8]);

impl<'a> Answers<'a> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((byte, rest)) => {
                self.0 = rest;
                *byte
            }
            None => 0,
        }
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn long(&mut self) -> &'a [u8] {
        let count = u16::from_be_bytes([self.byte(), self.byte()]);
        self.bytes(usize::from(count) % 4096)
    }

    /// What the node writes for this request; false if the request may have no response, so that
    /// the node must close.
    fn to(&mut self, request: &Frame, out: &mut BytesMut) -> bool {
        let flags = self.byte();
        let mut frame = Frame::new(Magic::Response, request.opcode, request.opaque);
        if flags & 1 != 0 {
            frame.specific = u16::from_be_bytes([self.byte(), self.byte()]);
        } else if request.opcode == Opcode::SASL_AUTH {
            frame.specific = Status::AUTH_CONTINUE.0;
        }
        if flags & 2 != 0 {
            let count = usize::from(self.byte());
            frame.framing = Bytes::copy_from_slice(self.bytes(count));
        }
        if flags & 4 != 0 {
            let count = usize::from(self.byte());
            frame.extras = Bytes::copy_from_slice(self.bytes(count));
            frame.datatype = self.byte();
        }
        if flags & 8 != 0 {
            match self.byte() % 4 {
                0 => frame.opaque = u32::from(self.byte()),
                1 => frame.opcode = Opcode(self.byte()),
                2 => frame.magic = Magic::ServerRequest,
                _ => {
                    // Not a frame.
                    out.extend_from_slice(self.long());
                    return false;
                }
            }
        }
        frame.value = match (request.opcode, flags & 16 != 0) {
            (Opcode::HELLO, false) => [
                FEATURE_XERROR,
                FEATURE_ALT_REQUEST,
                FEATURE_COLLECTIONS,
                FEATURE_KNOWN_VERSION,
            ]
            .iter()
            .flat_map(|feature| feature.to_be_bytes())
            .collect(),
            (Opcode::SASL_LIST_MECHS, false) => Bytes::from_static(b"SCRAM-SHA1"),
            (Opcode::SASL_AUTH, false) => {
                // Starts with the client's own nonce, which the input cannot contain; few rounds,
                // so that it is fast.
                let said = String::from_utf8_lossy(&request.value);
                let nonce = said.rsplit_once("r=").map_or("", |(_, nonce)| nonce);
                let rest = String::from_utf8_lossy(self.long());
                format!(
                    "r={nonce}1,s=c2FsdA==,i={}",
                    rest.get(..4).unwrap_or("4000")
                )
                .into()
            }
            _ => Bytes::copy_from_slice(self.long()),
        };
        if flags & 32 != 0 {
            // A pushed configuration before the response.
            let pushed = Frame {
                value: Bytes::copy_from_slice(self.long()),
                ..Frame::new(Magic::ServerRequest, CLUSTERMAP_CHANGED, 0)
            };
            let _ = pushed.encode(out);
        }
        frame.encode(out).is_ok() && flags & 8 == 0
    }
}

async fn node(mut stream: TcpStream, mut answers: Answers<'_>, resets: bool) {
    let _ = stream.set_zero_linger();
    let mut input = BytesMut::new();
    loop {
        let mut out = BytesMut::new();
        let mut goes_on = true;
        while let Ok(Some(request)) = Frame::decode(&mut input, 1 << 20) {
            goes_on &= answers.to(&request, &mut out);
        }
        if !out.is_empty() && stream.write_all(&out).await.is_err() {
            return;
        }
        if !goes_on || answers.0.is_empty() && !out.is_empty() {
            if resets {
                return;
            }
            let _ = stream.shutdown().await;
            // A reset now would discard data that the client has not read yet.
            while matches!(stream.read_buf(&mut input).await, Ok(1..)) {}
            return;
        }
        if !matches!(stream.read_buf(&mut input).await, Ok(1..)) {
            return;
        }
    }
}

fn judge(outcome: &Result<KvResponse, ClientError>, maps: &ErrorMaps) {
    let context = CallContext::default();
    let read = ReadPushback::read(&KvPushback::new(), outcome.as_ref(), &context);
    if let Some(reattempt::ServerPushback::After(delay)) = read.valid() {
        assert!(delay < Duration::from_secs(130));
    }
    for classifier in [
        KvClassifier::new(),
        KvClassifier::new().with_current_server_codes(),
    ] {
        let verdict = Classify::classify(&classifier, outcome.as_ref(), &context);
        let Verdict::Retry(failure) = verdict else {
            continue;
        };
        let now = Instant::now();
        let backend = outcome
            .as_ref()
            .ok()
            .map(|answer| reattempt::Backend::new(answer.node()));
        for count in [1, 2, u32::MAX] {
            let mut view = RetryView::new(&failure, now);
            view.retries = count;
            view.streak = count;
            view.backend = backend.as_ref();
            let _ = ErrorMapStrategy::new(maps.clone()).decide(&view);
        }
    }
    if let Ok(answer) = outcome {
        let _ = (answer.flags(), answer.counter(), answer.collection_id());
    }
}

async fn client(address: &str, login: bool) {
    let (store, maps) = (ConfigStore::new(), ErrorMaps::default());
    let mut options = ClientOptions::couchbase("user", "pencil", "bucket")
        .on_config(offer_to(store.clone()))
        .on_error_map(keep_in(maps.clone()))
        .connect_timeout(Duration::from_secs(5));
    options.max_body = 1 << 16;
    if !login {
        options.bootstrap = reattempt_clients::kv::Bootstrap::Couchbase {
            credentials: None,
            bucket: Some("bucket".to_owned()),
            mechanism: None,
        };
    }
    let connected = Connection::connect(address, &options).await;
    let mut connection = match connected {
        Ok(connection) => connection,
        Err(error) => {
            assert!(
                !matches!(error, ClientError::ConnectTimeout { .. }),
                "the node answers or closes"
            );
            let _ = error.to_string();
            judge(&Err(error), &maps);
            return;
        }
    };
    let requests = [
        KvRequest::get("key"),
        KvRequest::set("key", "value", 0, 0),
        KvRequest::get_collection_id("a.b"),
        KvRequest::get_cluster_config(Some((1, 1))),
    ];
    for request in requests {
        let ready = std::future::poll_fn(|cx| connection.poll_ready(cx)).await;
        let outcome = match ready {
            Ok(()) => connection.call(request).await,
            Err(error) => Err(error),
        };
        judge(&outcome, &maps);
        if let Some(config) = store.load() {
            let _ = VbucketMap::of(&config, &NetworkChoice::default().of(&config));
        }
        if outcome.is_err() {
            break;
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((mode, bytes)) = data.split_first() else {
        return;
    };
    WORLD.with_borrow_mut(|world| {
        let World {
            runtime,
            listener,
            address,
        } = world;
        runtime.block_on(async {
            let serve = async {
                let (stream, _) = listener.accept().await.expect("the client dials");
                node(stream, Answers(bytes), mode % 16 < 14).await;
            };
            tokio::join!(serve, client(address, mode % 2 == 1));
        });
    });
});

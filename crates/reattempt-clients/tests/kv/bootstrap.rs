use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::BytesMut;
use reattempt_clients::kv::feature::FEATURE_COLLECTIONS;
use reattempt_clients::kv::frame::{CLUSTERMAP_CHANGED, DEFAULT_MAX_BODY, put_framing_extra};
use reattempt_clients::kv::sasl::Mechanism;
use reattempt_clients::kv::{
    Bootstrap, ClientError, ClientOptions, Connection, Frame, KvRequest, Magic, NodeClient,
    SendStage,
};
use reattempt_clients::scram::{MAX_ITERATIONS, ScramClient};
use reattempt_couchbase::KvTransportError;
use reattempt_couchbase::kv::{Opcode, Status};
use reattempt_couchbase::reasons::KV_INVALID_REQUEST;
use reattempt_testbed::kv::node::{DEFAULT_ERROR_MAP, FEATURE_XERROR};
use reattempt_testbed::kv::{Node, SeenRequest, Step};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;

use super::{answered, connect, couchbase, map_in, send, set_up, start, until, within};

#[tokio::test]
async fn the_order_is_hello_error_map_sasl_bucket_config() {
    let node = Node::builder().require_auth().start().await.expect("node");
    let connection = set_up(&node).await;
    let order: Vec<_> = node.seen().iter().map(|request| request.opcode).collect();
    assert_eq!(
        order,
        [
            Opcode::HELLO,
            Opcode::GET_ERROR_MAP,
            Opcode::SASL_LIST_MECHS,
            Opcode::SASL_AUTH,
            Opcode::SASL_STEP,
            Opcode::SELECT_BUCKET,
            Opcode::GET_CLUSTER_CONFIG,
        ]
    );
    assert_eq!(
        connection.error_map_json().as_deref(),
        Some(DEFAULT_ERROR_MAP.as_bytes())
    );
    let config = connection.cluster_config_json().expect("config");
    let map = map_in(&config, "127.0.0.1");
    assert_eq!(map.nodes, [node.addr().to_string()]);
    assert_eq!((map.rev_epoch, map.rev, map.vbuckets.len()), (1, 1, 64));
}

#[tokio::test]
async fn every_mechanism_refuses_a_wrong_name_or_password() {
    let node = Node::builder().require_auth().start().await.expect("node");
    for mechanism in Mechanism::BY_STRENGTH {
        let options = couchbase().mechanism(mechanism);
        let mut connection = connect(&node, &options).await.expect("connect");
        let answer = answered(&mut connection, KvRequest::set("k", "v", 0, 0)).await;
        assert!(answer.is_success());
        for (name, password) in [("Administrator", "guess"), ("someone", "password")] {
            let wrong = ClientOptions::couchbase(name, password, "default").mechanism(mechanism);
            let error = connect(&node, &wrong).await.expect_err("refused");
            assert!(matches!(error, ClientError::Auth { .. }), "{error}");
            assert_eq!(error.stage(), SendStage::NeverSent);
        }
    }
}

/// An impostor could offer only PLAIN to obtain the password.
#[tokio::test]
async fn a_server_that_offers_only_plain_does_not_get_the_password() {
    let builder = Node::builder().mechanisms(&[Mechanism::Plain]);
    let node = builder.start().await.expect("node");
    let error = connect(&node, &couchbase()).await;
    let error = error.expect_err("refused by the client");
    assert!(error.to_string().contains("in the clear"), "{error}");
    let told = |request: &SeenRequest| request.opcode == Opcode::SASL_AUTH;
    assert!(!node.seen().iter().any(told));
}

#[test]
fn no_password_is_printed() {
    let options = ClientOptions::couchbase("u", "hunter2", "b");
    let rules = Mechanism::ScramSha256.scram().expect("scram");
    let client = ScramClient::new(rules, "u", "hunter2", "n");
    let printed = format!("{options:?} {:?} {client:?}", options.bootstrap);
    assert!(!printed.contains("hunter2"), "{printed}");
}

#[tokio::test]
async fn a_bucket_that_is_not_there_is_a_typed_error() {
    let node = Node::start().await.expect("node");
    let options = ClientOptions::couchbase("Administrator", "password", "other");
    let error = connect(&node, &options).await;
    let error = error.expect_err("no bucket");
    let ClientError::Bootstrap {
        operation, status, ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(operation, Opcode::SELECT_BUCKET);
    assert_eq!(status, Status::KEY_ENOENT);
}

#[tokio::test]
async fn a_node_that_insists_on_a_login_refuses_data_without() {
    let node = Node::builder().require_auth().start().await.expect("node");
    let mut connection = super::bare(&node).await;
    let answer = answered(&mut connection, KvRequest::get("k")).await;
    assert_eq!(answer.status, Status::EACCESS);
}

/// Keys have no prefix then, and extended statuses are not sent.
#[tokio::test]
async fn a_node_without_features_has_the_default_collection_only() {
    let node = Node::builder().features(&[]).start().await.expect("node");
    let mut connection = set_up(&node).await;
    assert_eq!(connection.error_map_json(), None);
    assert!(!connection.features().contains(&FEATURE_XERROR));
    assert!(
        answered(&mut connection, KvRequest::set("k", "v", 0, 0))
            .await
            .is_success()
    );
    assert_eq!(node.seen_data()[0].collection, None);
    let error = send(&mut connection, KvRequest::get("k").in_collection(8)).await;
    assert!(matches!(
        error,
        Err(ClientError::NoCollections { collection: 8, .. })
    ));
}

/// A node that did not agree to them closes the connection at such a frame, or misreads it.
#[tokio::test]
async fn framing_extras_are_sent_only_to_a_node_that_agreed() {
    let mut framing = BytesMut::new();
    put_framing_extra(&mut framing, 1, &[1]).expect("put");
    let durable = KvRequest::set("k", "v", 0, 0).with_framing(&*framing);

    let agreed = Node::start().await.expect("node");
    let mut connection = set_up(&agreed).await;
    let answer = send(&mut connection, durable.clone()).await;
    assert!(answer.expect("an answer").is_success());
    assert_eq!(agreed.seen_data()[0].framing, durable.framing());

    let without = Node::builder()
        .features(&[FEATURE_COLLECTIONS])
        .start()
        .await
        .expect("node");
    for mut connection in [set_up(&without).await, super::bare(&without).await] {
        let error = send(&mut connection, durable.clone()).await;
        let error = error.expect_err("not sent");
        assert!(matches!(error, ClientError::NoFramingExtras { .. }));
        assert!(error.is_fatal());
        assert_eq!(error.stage(), SendStage::NeverSent);
        assert_eq!(KvTransportError::reason(&error), KV_INVALID_REQUEST);
        answered(&mut connection, KvRequest::noop()).await;
    }
    let seen = without.seen_data();
    assert!(seen.iter().all(|seen| seen.opcode == Opcode::NOOP));
}

/// The answer says nothing of what the node supports, nor of the password, whatever its body is.
#[tokio::test]
async fn a_node_that_is_not_ready_yet_is_connected_again() {
    for step in [
        Opcode::HELLO,
        Opcode::SASL_LIST_MECHS,
        Opcode::SASL_AUTH,
        Opcode::SASL_STEP,
    ] {
        for status in [Status::ETMPFAIL, Status::EINTERNAL, Status::AUTH_STALE] {
            let warms_up = Step::status(status).body("PLAIN").only(step);
            let node = Node::scripted([warms_up]).await.expect("node");
            let options = couchbase().plain_on_loopback();
            let refused = connect(&node, &options).await;
            let Err(ClientError::Bootstrap {
                operation,
                status: with,
                ..
            }) = refused
            else {
                panic!("{refused:?}")
            };
            assert_eq!((operation, with), (step, status));
            let connection = connect(&node, &options).await.expect("connect");
            assert!(connection.features().contains(&FEATURE_XERROR));
        }
    }
}

#[tokio::test]
async fn a_refused_login_and_an_unproven_one_are_final() {
    for (step, status) in [
        (Opcode::SASL_AUTH, Status::AUTH_ERROR),
        (Opcode::SASL_AUTH, Status::EACCESS),
        (Opcode::SASL_AUTH, Status::SUCCESS),
        (Opcode::SASL_AUTH, Status::EINVAL),
        (Opcode::SASL_AUTH, Status::UNKNOWN_COMMAND),
        (Opcode::SASL_STEP, Status::NOT_SUPPORTED),
        (Opcode::SASL_STEP, Status::AUTH_CONTINUE),
        (Opcode::SASL_STEP, Status::AUTH_ERROR),
        (Opcode::SASL_STEP, Status::EACCESS),
    ] {
        let refuses = Step::status(status).only(step);
        let node = Node::scripted([refuses]).await.expect("node");
        let error = connect(&node, &couchbase()).await.expect_err("refused");
        assert!(matches!(error, ClientError::Auth { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_node_that_knows_neither_hello_nor_the_list_is_used() {
    for status in [Status::UNKNOWN_COMMAND, Status::NOT_SUPPORTED] {
        let node = Node::scripted([
            Step::status(status).only(Opcode::HELLO),
            Step::status(status)
                .body("SCRAM-SHA512")
                .only(Opcode::SASL_LIST_MECHS),
        ]);
        let node = node.await.expect("node");
        let options = couchbase().plain_on_loopback();
        let connection = connect(&node, &options).await.expect("connect");
        assert!(connection.features().is_empty());
        let seen = node.seen();
        let login = seen.iter().find(|seen| seen.opcode == Opcode::SASL_AUTH);
        assert_eq!(&login.expect("a login").key[..], b"PLAIN");
    }
}

#[tokio::test]
async fn a_bootstrap_that_hangs_ends_at_its_limit() {
    let node = Node::scripted([Step::hang().only(Opcode::HELLO)])
        .await
        .expect("node");
    let options = couchbase().connect_timeout(Duration::from_millis(50));
    let error = connect(&node, &options).await;
    assert!(matches!(error, Err(ClientError::ConnectTimeout { .. })));
}

#[tokio::test]
async fn a_dial_that_hangs_ends_at_the_same_limit() {
    // Connections beyond the backlog get no answer.
    let socket = TcpSocket::new_v4().expect("socket");
    socket
        .bind("127.0.0.1:0".parse().expect("address"))
        .expect("bind");
    let listener = socket.listen(0).expect("listen");
    let address = listener.local_addr().expect("address");
    let _first = TcpStream::connect(address).await.expect("connect");
    let options = couchbase().connect_timeout(Duration::from_millis(50));
    let error = within(Connection::connect(&address.to_string(), &options)).await;
    assert!(matches!(error, Err(ClientError::ConnectTimeout { .. })));
}

#[tokio::test]
async fn hooks_receive_the_error_map_and_each_configuration_once() {
    let node = Node::builder()
        .error_map("not json")
        .start()
        .await
        .expect("node");
    type Notes = Arc<Mutex<Vec<(String, String)>>>;
    let (heard, maps) = (Notes::default(), Notes::default());
    let note = |heard: &Notes| {
        let heard = heard.clone();
        move |body: &[u8], from: &str| {
            let body = String::from_utf8_lossy(body).into_owned();
            heard.lock().expect("lock").push((body, from.to_owned()));
        }
    };
    let options = couchbase()
        .on_config(note(&heard))
        .on_error_map(note(&maps));
    let mut client = NodeClient::new(node.addr().to_string(), options);
    node.script().push(Step::not_my_vbucket());
    let answer = answered(&mut client, KvRequest::get("k")).await;
    assert_eq!(answer.status, Status::NOT_MY_VBUCKET);
    let config = String::from_utf8_lossy(&node.config_json()).into_owned();
    let once = vec![(config, "127.0.0.1".to_owned())];
    assert_eq!(*heard.lock().expect("lock"), once);
    let map = vec![("not json".to_owned(), node.addr().to_string())];
    assert_eq!(*maps.lock().expect("lock"), map);
    assert_eq!(client.error_map_json().as_deref(), Some(&b"not json"[..]));
}

#[tokio::test]
async fn a_configuration_that_the_server_pushes_is_received() {
    let mut wire = bytes::BytesMut::new();
    let push = Frame {
        value: bytes::Bytes::from_static(b"{}"),
        ..Frame::new(Magic::ServerRequest, CLUSTERMAP_CHANGED, 0)
    };
    push.encode(&mut wire).expect("encode");
    let node = Node::scripted([Step::raw(wire.freeze())])
        .await
        .expect("node");
    let mut connection = super::bare(&node).await;
    let asked = start(&mut connection, KvRequest::get("k")).await;
    until(|| connection.cluster_config_json().is_some()).await;
    assert_eq!(connection.outstanding(), 1);
    drop(asked);
}

/// A real node that offered SCRAM does not offer less later; an impostor may.
#[tokio::test]
async fn after_scram_was_offered_plain_is_not_taken() {
    let plain = Node::builder().mechanisms(&[Mechanism::Plain]);
    let (plain, scram) = (plain.start().await.expect("node"), Node::start().await);
    let scram = scram.expect("node");
    let options = couchbase().plain_on_loopback();
    let unknown = "nothing stronger is known";
    connect(&plain, &options).await.expect(unknown);
    connect(&scram, &options).await.expect("logged in");
    let told = plain.seen().len();
    let error = connect(&plain, &options).await;
    let error = error.expect_err("refused by the client");
    assert!(error.to_string().contains("in the clear"), "{error}");
    let told = plain.seen().split_off(told);
    assert!(told.iter().all(|seen| seen.opcode != Opcode::SASL_AUTH));
}

/// A node that asks for this number of rounds, looks on for a while and says so. Whether it was
/// sent the proof.
async fn slow_login(rounds: u32, listener: TcpListener, waited: oneshot::Sender<()>) -> bool {
    let (mut stream, _) = listener.accept().await.expect("accept");
    let mut waited = Some(waited);
    let (mut input, mut asked) = (BytesMut::new(), false);
    loop {
        while let Some(request) = Frame::decode(&mut input, DEFAULT_MAX_BODY).expect("frame") {
            let mut answer = Frame::new(Magic::Response, request.opcode, request.opaque);
            let status = match request.opcode {
                Opcode::SASL_STEP => return true,
                Opcode::SASL_AUTH => Status::AUTH_CONTINUE,
                _ => Status::UNKNOWN_COMMAND,
            };
            answer.specific = status.0;
            if request.opcode == Opcode::SASL_AUTH {
                let first = String::from_utf8_lossy(&request.value);
                let (_, nonce) = first.split_once("r=").expect("nonce");
                answer.value = format!("r={nonce}x,s=AAAA,i={rounds}").into();
                asked = true;
            }
            let mut out = BytesMut::new();
            answer.encode(&mut out).expect("encode");
            stream.write_all(&out).await.expect("write");
        }
        for _ in 0..2 {
            if asked {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        if let Some(waited) = waited.take_if(|_| asked) {
            let _ = waited.send(());
        }
        if !matches!(stream.read_buf(&mut input).await, Ok(1..)) {
            return false;
        }
    }
}

/// The rounds do not hold the runtime, on which everything else of the caller may run.
#[tokio::test]
async fn a_connect_can_be_cut_off_during_the_rounds_of_its_login() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address").to_string();
    let (waited, has_waited) = oneshot::channel();
    let node = tokio::spawn(slow_login(MAX_ITERATIONS, listener, waited));
    let options = couchbase().mechanism(Mechanism::ScramSha512);
    tokio::select! {
        biased;
        connected = Connection::connect(&address, &options) => panic!("{connected:?}"),
        done = has_waited => done.expect("the node lives"),
    }
    assert!(!within(node).await.expect("node"), "the proof was sent");
}

/// The least is ns_server's default.
#[tokio::test]
async fn a_node_that_asks_for_too_few_rounds_gets_no_proof() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address").to_string();
    let node = tokio::spawn(slow_login(3999, listener, oneshot::channel().0));
    let options = couchbase().mechanism(Mechanism::ScramSha512);
    let connected = within(Connection::connect(&address, &options)).await;
    let error = connected.expect_err("refused").to_string();
    let problem = "3999 SCRAM iterations are not between 4000 and 100000";
    assert!(error.contains(problem), "{error}");
    assert!(!within(node).await.expect("node"), "the proof was sent");
}

/// A server that answers every request of a bootstrap with this value, and its address.
async fn answers_with(value: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let mut head = [0_u8; 24];
        while stream.read_exact(&mut head).await.is_ok() {
            let length = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
            let mut body = vec![0; length as usize];
            stream.read_exact(&mut body).await?;
            let mut answer = vec![0x81, head[1], 0, 0, 0, 0, 0, 0];
            answer.extend((value.len() as u32).to_be_bytes());
            answer.extend(&head[12..16]);
            answer.extend([0; 8]);
            answer.extend(&value);
            stream.write_all(&answer).await?;
        }
        Ok::<_, std::io::Error>(())
    });
    address
}

/// It may be any server that an address of a configuration names.
#[tokio::test]
async fn a_server_that_proved_nothing_makes_the_client_keep_little() {
    let mut options = ClientOptions::memcached();
    options.bootstrap = Bootstrap::Couchbase {
        credentials: None,
        bucket: None,
        mechanism: None,
    };
    // Features that were asked for and others, all of them many times.
    let features = [FEATURE_XERROR, 0x7777].map(u16::to_be_bytes).concat();
    let address = answers_with(features.repeat(300_000)).await;
    let connection = within(Connection::connect(&address, &options)).await;
    let connection = connection.expect("a connection");
    assert_eq!(connection.features(), [FEATURE_XERROR]);
    assert!(connection.error_map_json().is_none(), "it is too long");

    let address = answers_with(vec![0; 5 << 20]).await;
    let refused = within(Connection::connect(&address, &options)).await;
    let error = refused.expect_err("its answers are too long");
    assert!(
        matches!(error, ClientError::BootstrapClosed { .. }),
        "{error}"
    );
}

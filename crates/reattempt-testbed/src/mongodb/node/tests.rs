use std::time::Duration;

use bson::{Document, doc};
use reattempt_clients::mongodb::wire::{Message, OpMsg, OpQuery, PROTOCOL_LIMIT, read_message};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::{Node, ReplicaSet, Role};

async fn dial(node: &Node) -> TcpStream {
    TcpStream::connect(node.addr()).await.unwrap()
}

async fn receive(stream: &mut TcpStream) -> Option<Message> {
    let read = read_message(stream, PROTOCOL_LIMIT);
    tokio::time::timeout(Duration::from_secs(20), read)
        .await
        .unwrap()
        .ok()
        .flatten()
}

async fn ask(stream: &mut TcpStream, command: Document) -> Document {
    stream
        .write_all(&OpMsg::encode(77, 0, &command).unwrap())
        .await
        .unwrap();
    match receive(stream).await {
        Some(Message::Msg(reply)) if reply.response_to == 77 => reply.document,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_old_hello_is_answered_and_nothing_else_in_that_form() {
    let node = Node::start().await.unwrap();
    let mut stream = dial(&node).await;
    let mut old = async |command: Document| {
        let bytes = OpQuery::encode(5, "admin.$cmd", &command).unwrap();
        stream.write_all(&bytes).await.unwrap();
        match receive(&mut stream).await {
            Some(Message::Reply(reply)) if reply.response_to == 5 => reply.documents[0].clone(),
            other => panic!("{other:?}"),
        }
    };
    let hello = old(doc! { "isMaster": 1, "helloOk": true }).await;
    assert_eq!(
        (hello.get_bool("ismaster"), hello.get_i32("maxWireVersion")),
        (Ok(true), Ok(21))
    );
    let refused = old(doc! { "find": "c" }).await;
    assert_eq!(refused.get_i32("code"), Ok(352));
    let seen = node.seen();
    assert!(seen[0].legacy && seen[0].database == "admin");
    assert_eq!(
        (seen[0].connection, seen[0].ordinal, seen[1].ordinal),
        (1, 0, 1)
    );
}

#[tokio::test]
async fn roles_say_what_they_are() {
    let set = ReplicaSet::start(2).await.unwrap();
    let mut primary = dial(&set.nodes()[0]).await;
    let mut secondary = dial(&set.nodes()[1]).await;
    let hello = ask(&mut primary, doc! { "hello": 1, "$db": "admin" }).await;
    assert_eq!(hello.get_str("setName"), Ok(ReplicaSet::NAME));
    assert_eq!(hello.get_str("primary"), Ok(set.nodes()[0].address()));
    assert_eq!(hello.get_array("hosts").map(Vec::len), Ok(2));
    assert_eq!(hello.get_bool("isWritablePrimary"), Ok(true));
    assert!(!hello.contains_key("topologyVersion"));
    let hello = ask(&mut secondary, doc! { "hello": 1, "$db": "admin" }).await;
    assert_eq!(hello.get_bool("secondary"), Ok(true));
    let find = doc! { "find": "c", "$db": "db" };
    let code = |reply: Document| reply.get_i32("code").ok();
    assert_eq!(code(ask(&mut secondary, find.clone()).await), Some(13435));
    let mut preferring = find.clone();
    preferring.insert("$readPreference", doc! { "mode": "secondary" });
    assert_eq!(code(ask(&mut secondary, preferring.clone()).await), None);
    let out = doc! {
        "aggregate": "c", "pipeline": [{ "$out": "d" }], "cursor": {}, "$db": "db",
        "$readPreference": { "mode": "secondary" },
    };
    assert_eq!(code(ask(&mut secondary, out).await), Some(10107));
    set.nodes()[1].set_role(Role::Recovering);
    assert_eq!(code(ask(&mut secondary, preferring).await), Some(13436));
    let mongos = Node::builder().role(Role::Mongos).start().await.unwrap();
    let hello = ask(
        &mut dial(&mongos).await,
        doc! { "hello": 1, "$db": "admin" },
    )
    .await;
    assert_eq!(hello.get_str("msg"), Ok("isdbgrid"));
    assert_eq!(hello.get_i32("logicalSessionTimeoutMinutes"), Ok(30));
}

#[tokio::test]
async fn the_clusters_time_moves_on() {
    let node = Node::start().await.unwrap();
    let mut stream = dial(&node).await;
    let mut times = Vec::new();
    for _ in 0..3 {
        let reply = ask(&mut stream, doc! { "count": "c", "$db": "db" }).await;
        let cluster = reply.get_document("$clusterTime").unwrap();
        assert_eq!(cluster.get("clusterTime"), reply.get("operationTime"));
        times.push(reply.get_timestamp("operationTime").unwrap());
    }
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
}

#[tokio::test]
async fn what_cannot_be_carried_out_is_refused() {
    let node = Node::start().await.unwrap();
    node.store().insert("", "d", [doc! {}]).unwrap();
    let mut stream = dial(&node).await;
    for (command, code) in [
        (doc! { "nonsense": 1 }, 59),
        (doc! {}, 59),
        (doc! { "find": 1 }, 73),
        (doc! { "find": "d", "filter": { "$where": "1" } }, 2),
        (doc! { "getMore": 12_i64, "collection": "c" }, 43),
        (doc! { "listIndexes": "c" }, 26),
        (
            doc! { "aggregate": "c", "pipeline": [{ "$facet": {} }] },
            40324,
        ),
        (
            doc! { "aggregate": "c", "pipeline": [{ "$out": "d" }, { "$match": {} }] },
            40601,
        ),
        (
            doc! { "aggregate": "c", "pipeline": [{ "$match": "x" }] },
            2,
        ),
        (doc! { "insert": "c", "documents": [1] }, 2),
        (doc! { "saslStart": 1, "mechanism": "PLAIN" }, 334),
        (doc! { "saslContinue": 1 }, 17),
    ] {
        let reply = ask(&mut stream, command.clone()).await;
        assert_eq!(reply.get_i32("code"), Ok(code), "{command}: {reply}");
    }
}

#[tokio::test]
async fn broken_bytes_end_the_connection_and_nothing_else() {
    let node = Node::start().await.unwrap();
    let mut broken = dial(&node).await;
    broken.write_all(&[0xff; 40]).await.unwrap();
    assert_eq!(receive(&mut broken).await, None);
    let mut stream = dial(&node).await;
    assert_eq!(
        ask(&mut stream, doc! { "ping": 1 }).await.get_f64("ok"),
        Ok(1.0)
    );
}

#[tokio::test]
async fn a_stopped_node_comes_back_at_its_address() {
    let node = Node::start().await.unwrap();
    node.stop().await;
    assert!(!node.is_running());
    assert!(TcpStream::connect(node.addr()).await.is_err());
    node.restart().await.unwrap();
    ask(&mut dial(&node).await, doc! { "ping": 1 }).await;
}

#[tokio::test]
async fn a_change_stream_waits_and_stays_open() {
    let node = Node::start().await.unwrap();
    let mut stream = dial(&node).await;
    let watch = doc! { "aggregate": "c", "pipeline": [{ "$changeStream": {} }], "$db": "db" };
    let opened = ask(&mut stream, watch).await;
    let id = opened
        .get_document("cursor")
        .unwrap()
        .get_i64("id")
        .unwrap();
    assert_ne!(id, 0);
    let more = doc! { "getMore": id, "collection": "c", "maxTimeMS": 5, "$db": "db" };
    let next = ask(&mut stream, more).await;
    let cursor = next.get_document("cursor").unwrap();
    assert_eq!(cursor.get_i64("id"), Ok(id));
    assert_eq!(cursor.get_array("nextBatch").map(Vec::len), Ok(0));
    let kill = doc! { "killCursors": "c", "cursors": [id, 99_i64], "$db": "db" };
    let killed = ask(&mut stream, kill).await;
    assert_eq!(killed.get_array("cursorsKilled"), Ok(&vec![id.into()]));
    assert_eq!(killed.get_array("cursorsNotFound").map(Vec::len), Ok(1));
}

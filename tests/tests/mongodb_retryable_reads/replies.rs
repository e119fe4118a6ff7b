//! Replies with all BSON number types (M4, M7; E5, E6).

use super::*;
use bson::Bson;

/// M4, E5: the code and `ok` may have any number type, `ok` also boolean.
#[tokio::test]
async fn a_code_is_read_from_any_number() {
    let codes = [Bson::Int32(189), Bson::Int64(189), Bson::Double(189.0)];
    let failed = [
        Bson::Int32(0),
        Bson::Int64(0),
        Bson::Double(0.0),
        Bson::Boolean(false),
    ];
    let node = node().await;
    let client = Client::new(options(&node));
    for code in codes {
        for ok in failed.clone() {
            let step = Step::code(1)
                .with("code", code.clone())
                .with("ok", ok.clone());
            node.script().on("find", step);
            let (reply, info) = call(&client, find()).await;
            assert_eq!(reply.expect("a reply").count(), 3, "{code:?} {ok:?}");
            assert_eq!(info.attempts(), 2, "{code:?} {ok:?}");
        }
    }
}

/// M4, M8, E5: a value that is not a whole number is not a code.
#[tokio::test]
async fn what_is_no_number_is_no_code() {
    let odd = [
        Bson::Double(189.5),
        Bson::Double(f64::NAN),
        Bson::Double(f64::INFINITY),
        Bson::Int64(189 + (1 << 32)),
        Bson::String("189".to_owned()),
        Bson::Null,
    ];
    let node = node().await;
    let client = Client::new(options(&node));
    for code in odd {
        node.script()
            .on("find", Step::code(1).with("code", code.clone()));
        let (refused, info) = call(&client, find()).await;
        assert!(
            matches!(refused, Err(MongoError::Server(_))),
            "{code:?}: {refused:?}"
        );
        assert_eq!(info.attempts(), 1, "{code:?}");
    }
}

/// M7, E6: a retryable number inside a reply with `ok: 1`, or inside another error, is not its
/// code.
#[tokio::test]
async fn a_number_inside_of_a_reply_is_not_its_code() {
    let node = node().await;
    let client = Client::new(options(&node));
    let written = doc! { "cursor": { "id": 0_i64, "ns": "db.c", "firstBatch": [] },
    "writeConcernError": { "code": 91, "errmsg": "down" } };
    node.script().on("find", Step::ok(written));
    let (reply, info) = call(&client, find()).await;
    assert_eq!((reply.is_ok(), info.attempts()), (true, 1));
    let inside = doc! { "code": 189 };
    let step = Step::code(50)
        .with("writeConcernError", inside.clone())
        .with("writeErrors", vec![Bson::from(inside)]);
    node.script().on("find", step);
    let (refused, info) = call(&client, find()).await;
    assert_eq!((refused.is_err(), info.attempts()), (true, 1));
}

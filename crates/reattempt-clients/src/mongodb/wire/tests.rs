use bson::{Document, doc};

use super::{
    Message, OP_MSG, OpMsg, OpQuery, OpReply, PROTOCOL_LIMIT, ReadError, WireError, frame,
    read_message,
};

async fn read(bytes: &[u8]) -> Result<Option<Message>, ReadError> {
    let mut reader = bytes;
    read_message(&mut reader, PROTOCOL_LIMIT).await
}

async fn wire_error(bytes: &[u8]) -> WireError {
    match read(bytes).await {
        Err(ReadError::Wire(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn sections(flags: u32, parts: &[&[u8]]) -> Vec<u8> {
    let mut body = flags.to_le_bytes().to_vec();
    for part in parts {
        body.extend_from_slice(part);
    }
    frame(7, 3, OP_MSG, &body).unwrap()
}

fn body_section(document: &Document) -> Vec<u8> {
    let mut bytes = vec![0];
    document.to_writer(&mut bytes).unwrap();
    bytes
}

fn sequence_section(name: &str, documents: &[Document]) -> Vec<u8> {
    let mut content = name.as_bytes().to_vec();
    content.push(0);
    for document in documents {
        document.to_writer(&mut content).unwrap();
    }
    let mut bytes = vec![1];
    bytes.extend_from_slice(&i32::try_from(content.len() + 4).unwrap().to_le_bytes());
    bytes.extend_from_slice(&content);
    bytes
}

#[tokio::test]
async fn a_message_comes_back_as_it_was_sent() {
    let document = doc! { "find": "c", "$db": "db" };
    let bytes = OpMsg::encode(5, 0, &document).unwrap();
    let expected = OpMsg {
        request_id: 5,
        response_to: 0,
        document,
    };
    assert_eq!(read(&bytes).await.unwrap(), Some(Message::Msg(expected)));
    assert_eq!(read(&[]).await.unwrap(), None);
}

#[tokio::test]
async fn the_old_question_and_answer_are_spoken() {
    let hello = doc! { "isMaster": 1 };
    let asked = OpQuery::encode(9, "admin.$cmd", &hello).unwrap();
    let Some(Message::Query(query)) = read(&asked).await.unwrap() else {
        panic!()
    };
    assert_eq!(
        (query.collection.as_str(), &query.document),
        ("admin.$cmd", &hello)
    );
    let answered = OpReply::encode(1, 9, &doc! { "ok": 1 }).unwrap();
    let Some(Message::Reply(reply)) = read(&answered).await.unwrap() else {
        panic!()
    };
    assert_eq!(
        (reply.response_to, reply.documents),
        (9, vec![doc! { "ok": 1 }])
    );
}

#[tokio::test]
async fn document_sequences_join_the_body_and_a_checksum_is_skipped() {
    let main = body_section(&doc! { "insert": "c" });
    let rows = sequence_section("documents", &[doc! { "a": 1 }, doc! { "a": 2 }]);
    let bytes = sections(1, &[&rows, &main, &[1, 2, 3, 4]]);
    let Some(Message::Msg(message)) = read(&bytes).await.unwrap() else {
        panic!()
    };
    assert_eq!(
        message.document,
        doc! { "insert": "c", "documents": [{ "a": 1 }, { "a": 2 }] }
    );
}

#[tokio::test]
async fn flags_that_change_the_meaning_are_refused() {
    let main = body_section(&doc! { "ok": 1 });
    assert_eq!(
        wire_error(&sections(2, &[&main])).await,
        WireError::MoreToCome
    );
    assert_eq!(
        wire_error(&sections(4, &[&main])).await,
        WireError::Flags(4)
    );
    // exhaustAllowed is an optional flag and may be ignored.
    assert!(read(&sections(1 << 16, &[&main])).await.is_ok());
}

#[tokio::test]
async fn lengths_are_checked_before_memory_is_taken() {
    for length in [-1, 0, 15, i32::MAX] {
        let mut bytes = OpMsg::encode(1, 0, &doc! {}).unwrap();
        bytes[..4].copy_from_slice(&i32::to_le_bytes(length));
        assert_eq!(
            wire_error(&bytes).await,
            WireError::Length {
                length,
                limit: PROTOCOL_LIMIT
            }
        );
    }
}

#[tokio::test]
async fn an_end_within_a_message_is_an_unexpected_end() {
    let bytes = OpMsg::encode(1, 0, &doc! { "a": "text" }).unwrap();
    for cut in 1..bytes.len() {
        let Err(ReadError::Io(error)) = read(&bytes[..cut]).await else {
            panic!("{cut}")
        };
        assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    }
}

#[tokio::test]
async fn malformed_sections_name_their_byte() {
    let main = body_section(&doc! { "ok": 1 });
    let mut short = sequence_section("x", &[doc! { "a": 1 }]);
    short[1] = 9;
    let cases: [(Vec<u8>, usize); 6] = [
        (sections(0, &[]), 20),
        (sections(0, &[&main, &main]), 20 + main.len()),
        (sections(0, &[&[9]]), 20),
        (sections(0, &[&[0, 200, 0, 0, 0, 0]]), 21),
        (
            sections(0, &[&main, &[1, 255, 255, 255, 127]]),
            25 + main.len(),
        ),
        (sections(1, &[]), 20),
    ];
    for (bytes, expected) in cases {
        let WireError::Malformed { at, what } = wire_error(&bytes).await else {
            panic!()
        };
        assert_eq!(at, expected, "{what}");
    }
    assert!(matches!(
        wire_error(&sections(0, &[&main, &short])).await,
        WireError::Malformed { .. }
    ));
    let twice = sequence_section("ok", &[doc! {}]);
    assert!(matches!(
        wire_error(&sections(0, &[&main, &twice])).await,
        WireError::Malformed { .. }
    ));
}

#[tokio::test]
async fn nesting_without_end_is_refused_and_not_followed() {
    // 20,000 nested documents, written from the inside out.
    let mut inner: Vec<u8> = vec![5, 0, 0, 0, 0];
    for _ in 0..20_000 {
        let length = i32::try_from(inner.len() + 8).unwrap();
        let mut outer = length.to_le_bytes().to_vec();
        outer.extend_from_slice(&[3, b'a', 0]);
        outer.extend_from_slice(&inner);
        outer.push(0);
        inner = outer;
        if inner.len() > 100_000 {
            break;
        }
    }
    let mut section = vec![0];
    section.extend_from_slice(&inner);
    let WireError::Malformed { what, .. } = wire_error(&sections(0, &[&section])).await else {
        panic!()
    };
    assert!(what.contains("nests deeper"), "{what}");
}

async fn reply(sections_of_it: &[&[u8]]) -> Result<super::Reply, ReadError> {
    let bytes = sections(0, sections_of_it);
    let read = super::read_reply(&mut &bytes[..], super::PROTOCOL_LIMIT).await;
    read.map(|reply| reply.expect("a reply"))
}

#[tokio::test]
async fn a_list_is_counted_up_to_one_more_than_the_most() {
    let nothing = vec![bson::Bson::Null; 100_002];
    for (most, count) in [(99_999, 99_999), (100_000, 100_000), (100_002, 100_001)] {
        let values = body_section(&doc! { "ok": 1, "values": &nothing[..most] });
        let reply = reply(&[&values]).await.unwrap();
        let list = reply.list.unwrap();
        assert_eq!((list.field, list.count), ("values", count));
        assert_eq!(reply.document, doc! { "ok": 1 });
    }
}

#[tokio::test]
async fn a_batch_holds_documents_only() {
    for batch in ["firstBatch", "nextBatch"] {
        let cursor = doc! { "id": 0_i64, batch: [{}, 1] };
        let section = body_section(&doc! { "ok": 1, "cursor": cursor });
        let error = reply(&[&section]).await.unwrap_err().to_string();
        assert!(
            error.contains(&format!("{batch}.1 is no document")),
            "{error}"
        );
    }
}

/// Neither fields without end nor sections that no reply has are decoded to be thrown away.
#[tokio::test]
async fn a_reply_has_fields_within_reason_and_no_sequence() {
    let fields = |count: u32| -> Document {
        let fields = (0..count).map(|n| (n.to_string(), bson::Bson::Null));
        fields.collect()
    };
    assert!(reply(&[&body_section(&fields(10_000))]).await.is_ok());
    let main = body_section(&doc! { "ok": 1, "cursor": fields(10_000) });
    let error = reply(&[&main]).await.unwrap_err().to_string();
    assert!(error.contains("more than 10000 fields"), "{error}");
    // Bytes that are no document: they are not looked at.
    let rows = [1, 8, 0, 0, 0, b'd', 0, 9];
    let main = body_section(&doc! { "ok": 1 });
    let error = reply(&[&rows, &main]).await.unwrap_err().to_string();
    assert!(
        error.contains("a reply with a document sequence"),
        "{error}"
    );
}

#[tokio::test]
async fn fields_that_nothing_reads_are_kept_while_there_is_room() {
    let text = "x".repeat(100_000);
    let errors = vec![doc! { "code": 1, "errmsg": &text }; 3];
    let main = doc! { "a": &text, "b": &text, "c": &text, "ok": 1, "writeErrors": errors };
    let kept = reply(&[&body_section(&main)]).await.unwrap().document;
    let keys: Vec<_> = kept.keys().map(String::as_str).collect();
    assert_eq!(keys, ["a", "b", "ok", "writeErrors"]);
    let first = doc! { "code": 1, "errmsg": &text[..4096] };
    assert_eq!(kept.get_array("writeErrors"), Ok(&vec![first.into()]));
}

#[tokio::test]
async fn a_long_name_of_a_code_is_cut() {
    let name = format!("{}é", "n".repeat(63));
    let main = doc! { "ok": 0, "code": 1, "codeName": name.repeat(1_000) };
    let kept = reply(&[&body_section(&main)]).await.unwrap().document;
    assert_eq!(kept.get_str("codeName"), Ok(&name[..63]));
}

/// M4: servers cut a message at a number of bytes, which may be within a character.
#[tokio::test]
async fn a_text_that_is_cut_does_not_hide_the_code() {
    let texts = doc! { "errmsg": "key #", "codeName": "name #", "other": "text #" };
    let mut main = doc! { "ok": 0, "writeConcernError": { "code": 91, "errmsg": "concern #" } };
    main.extend(texts);
    main.insert("errorLabels", vec!["label #", "RetryableError"]);
    main.insert("errInfo", doc! { "details": { "quoted": "value #" } });
    main.insert("code", 189);
    let mut section = body_section(&main);
    // The first byte of two.
    for byte in section.iter_mut().filter(|byte| **byte == b'#') {
        *byte = 0xc3;
    }
    let kept = reply(&[&section]).await.unwrap().document;
    let concern = doc! { "code": 91, "errmsg": "concern \u{fffd}" };
    let expected = doc! {
        "ok": 0, "writeConcernError": concern, "errmsg": "key \u{fffd}",
        "codeName": "name \u{fffd}", "other": "text \u{fffd}",
        "errorLabels": ["RetryableError"], "code": 189,
    };
    assert_eq!(kept, expected);
    // It is sent back with the next command.
    let mut named = body_section(&doc! { "ok": 1, "cursor": { "id": 1_i64, "ns": "db.#" } });
    let byte = named.iter().position(|byte| *byte == b'#').unwrap();
    named[byte] = 0xc3;
    assert!(reply(&[&named]).await.is_err());
}

/// What is small as it came may be fifty times as long when decoded.
#[tokio::test]
async fn small_arrays_of_a_reply_take_room_too() {
    let array = bson::Bson::from(vec![bson::Bson::Null; 60]);
    let mut main: Document = (0..9_000).map(|n| (n.to_string(), array.clone())).collect();
    main.insert("ok", 0);
    main.insert("code", 189);
    let kept = reply(&[&body_section(&main)]).await.unwrap().document;
    assert!((1_000..1_500).contains(&kept.len()), "{}", kept.len());
    assert_eq!((kept.get_i32("ok"), kept.get_i32("code")), (Ok(0), Ok(189)));
}

/// A name may have any length, and the text ends in logs and in the state of the server.
#[tokio::test]
async fn an_error_that_quotes_a_name_is_short() {
    let mut fields = vec![0x7e];
    fields.extend([b'n'; 100_000]);
    fields.extend([0, 0]);
    let mut section = vec![0];
    section.extend(i32::to_le_bytes(4 + 100_003));
    section.extend(fields);
    let error = reply(&[&section]).await.unwrap_err().to_string();
    assert!(error.len() < 5_000, "{} bytes", error.len());
}

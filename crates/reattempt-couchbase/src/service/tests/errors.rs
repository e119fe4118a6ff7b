//! What is found in the list of errors in every spelling of the response.

use super::*;

/// The first error that the layer finds, byte by byte.
fn error_in(body: &str) -> Option<ServiceError> {
    HttpService::query().read_error(StatusCode::OK, body.as_bytes())
}

fn code_in(body: &str) -> Option<i32> {
    error_in(body)?.code()
}

/// C41
#[test]
fn the_first_error_decides() {
    let two = r#"{"errors": [{"code": 1000, "msg": "a"}, {"code": 4040, "msg": "b"}]}"#;
    let error = error_in(two).unwrap();
    assert_eq!((error.code(), error.message()), (Some(1000), Some("a")));
    assert_eq!(
        code_in(r#"{"errors": [[{"code": 4040}], {"code": 4050}]}"#),
        None
    );
    assert!(error_in(r#"{"errors": [[{"code": 4040}]]}"#).is_some());
}

/// C41
#[test]
fn only_the_top_level_list_counts() {
    for body in [
        r#"{"results": [{"errors": [{"code": 4040}]}]}"#,
        r#"{"status": {"errors": [{"code": 4040}]}}"#,
        r#"[{"errors": [{"code": 4040}]}]"#,
        r#"{"results": ["\"errors\": [{\"code\": 4040}]"]}"#,
        r#"{"a": "\\", "b": "\"", "Errors": [{"code": 4040}]}"#,
        r#"{"errors": {"code": 4040}}"#,
        r#"{"errors": "4040", "code": 4040}"#,
        r#"{"errors": null}"#,
        r#"{"errors": []}"#,
        r#"{"errors": [ ]}"#,
        r#"{} {"errors": [{"code": 4040}]}"#,
        r#"text {"errors": [{"code": 4040}]}"#,
        "",
    ] {
        assert_eq!(error_in(body), None, "{body}");
    }
}

/// C41
#[test]
fn the_list_is_found_wherever_and_however_it_is_written() {
    for body in [
        r#"{"errors":[{"code":4040}]}"#,
        "\r\n{ \"errors\"\t:\n[\n{ \"code\"\n:\n4040\n}\n]\n}",
        r#"{"results":[{"a":[1,{"b":"]}"}],"c":"\"}]"}],"errors":[{"code":4040}]}"#,
        r#"{"errors":[{"reason":{"code":1,"x":[{"code":2}]},"code":4040,"y":{"code":3}}]}"#,
        r#"{"errors":[{"msg":"code\": 1","code":4040,"z":"code"}]}"#,
        r#"{"\u0065rrors":[{"c\u006fde":4040}]}"#,
        r#"{"errors":[],"errors":[{"code":4040}]}"#,
        r#"{"a":["b\n","c\\"],"errors":[{"code":4040}]}"#,
        r#"{"n":1e9,"t":true,"errors":[{"code":4040,"retry":null}]}"#,
        r#"{"long_name_long_name_long_name_long_name_long_name_long_name_long_name_long":1,"errors":[{"code":4040}]}"#,
    ] {
        assert_eq!(code_in(body), Some(4040), "{body}");
    }
}

/// C41
#[test]
fn a_code_is_an_integer() {
    for code in [
        "\"4040\"",
        "4040.0",
        "4.04e3",
        "[4040]",
        "{}",
        "null",
        "true",
        "04040",
        "+4040",
        "4040x",
        "99999999999",
        "",
    ] {
        let body = format!(r#"{{"errors": [{{"code": {code}, "msg": "m"}}]}}"#);
        let error = error_in(&body).unwrap();
        assert_eq!((error.code(), error.message()), (None, Some("m")), "{code}");
    }
    assert_eq!(code_in(r#"{"errors": [{"code": -1}]}"#), Some(-1));
}

/// C41 C42: a partly received error counts, but not a partial number.
#[test]
fn an_answer_that_is_cut_off_is_judged_by_what_was_read() {
    let whole = r#"{"results": [], "errors": [{"code": 5000, "msg": "queryport.indexNotFound\n", "retry": true}]}"#;
    let after = |text: &str| whole.find(text).unwrap() + text.len();
    for end in 0..=whole.len() {
        let error = error_in(&whole[..end]);
        assert_eq!(error.is_some(), end >= after("[{"), "{end}");
        let error = error.unwrap_or_default();
        assert_eq!(error.code().is_some(), end >= after("5000,"), "{end}");
        let found = error
            .message()
            .is_some_and(|text| text.contains("queryport.indexNotFound"));
        assert_eq!(found, end >= after("indexNotFound"), "{end}");
        assert_eq!(error.says_retry(), end >= after("true}"), "{end}");
    }
}

/// C43
#[test]
fn a_message_is_a_text_and_the_services_word_is_true() {
    let of = |error: &str| error_in(&format!(r#"{{"errors": [{error}"#)).unwrap();
    for cut_off in [
        r#"{"msg": ["x"#,
        r#"{"msg": {"a": "x"#,
        r#"{"ms"#,
        r#"{"msg": 1"#,
        r#"{"msg": null}"#,
    ] {
        assert_eq!(of(cut_off).message(), None, "{cut_off}");
    }
    assert_eq!(of(r#"{"msg": "x"#).message(), Some("x"));
    for no in ["t", "tru", "truee", "TRUE", "1", "{}", "\"true\""] {
        assert!(!of(&format!(r#"{{"retry": {no}}}"#)).says_retry(), "{no}");
    }
    assert!(of(r#"{"retry": true}"#).says_retry());
}

#[test]
fn a_message_is_read_as_json_writes_it() {
    for (written, read) in [
        (r#"a\"b\\c\/d\n\t\r\b\f"#, "a\"b\\c/d\n\t\r\u{8}\u{c}"),
        (r"\u00e9\u20AC\ud83d\ude00", "é€😀"),
        (r"\ud83d\n", "\u{fffd}\n"),
        (r"\ud83dx\ude00", "\u{fffd}x\u{fffd}"),
        (r"\u12", "\u{fffd}"),
        (r"\uzzzzA", "\u{fffd}zzzzA"),
        ("naïve", "naïve"),
        ("tab\tin it", "tab\tin it"),
    ] {
        let body = format!(r#"{{"errors": [{{"msg": "{written}"}}]}}"#);
        let error = error_in(&body).unwrap();
        assert_eq!(error.message(), Some(read), "{written}");
    }
    let mut bytes = br#"{"errors": [{"msg": ""#.to_vec();
    bytes.extend(b"\xff\"}]}");
    let error = HttpService::query()
        .read_error(StatusCode::OK, &bytes)
        .unwrap();
    assert_eq!(error.message(), Some("\u{fffd}"));
}

#[test]
fn a_message_without_end_is_kept_to_its_bound() {
    let body = format!(
        r#"{{"errors": [{{"code": 1, "msg": "{}"}}]}}"#,
        "x".repeat(1 << 20)
    );
    let error = error_in(&body).unwrap();
    assert_eq!(error.code(), Some(1));
    assert!(error.message().unwrap().len() <= 64 * 1024 + 1);
    let nested = format!(
        r#"{{"a": {}"errors": [{{"code": 4040}}]}}"#,
        "[".repeat(1 << 20)
    );
    assert_eq!(error_in(&nested), None);
}

#[test]
fn the_other_services_tell_their_error_in_their_own_words() {
    let of = |service: HttpService, status: u16, body: &str| {
        let status = StatusCode::from_u16(status).unwrap();
        let error = service.read_error(status, body.as_bytes());
        error.map(|error| {
            assert_eq!(error.code(), None);
            error.message().map(ToOwned::to_owned)
        })
    };
    let said = |text: &str| Some(Some(text.to_owned()));
    let search = HttpService::search();
    assert_eq!(
        of(search, 429, r#"{"error": "too many", "status": "fail"}"#),
        said("too many")
    );
    assert_eq!(of(search, 200, r#"{"error": "none"}"#), None);
    assert_eq!(of(search, 500, ""), Some(None));
    let views = HttpService::views();
    assert_eq!(
        of(views, 500, r#"{"error":"e","reason":"r"}"#),
        said("e: r")
    );
    assert_eq!(of(views, 500, "<h1>no</h1>\n"), said("<h1>no</h1>"));
    let management = HttpService::management();
    assert_eq!(
        of(management, 404, "Object Not Found"),
        said("Object Not Found")
    );
    assert_eq!(
        of(management, 400, &"x".repeat(5000)),
        said(&"x".repeat(1024))
    );
}

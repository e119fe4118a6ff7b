use proptest::prelude::*;
use serde_json::Value;

use super::*;

const FORM: Form = Form::new("the list");

/// Parses a list of booleans, after a check of its members if it is an object.
fn booleans(text: &str) -> Result<((), Vec<Fault>), Faults> {
    FORM.read(text, |place, json| {
        if json.is_object() {
            let members = Members::of(place, json, &["maxAttempts", "on"])?;
            members.required(place, "on", "true or false", boolean)?;
            return Some(());
        }
        array(place, json, "booleans", boolean).map(|_| ())
    })
}

#[test]
fn a_slip_of_case_is_reported_beside_the_fault_it_makes() {
    let faults = booleans(r#"{"On": true, "max_attempts": 1, "other": 2}"#).unwrap_err();
    let lines = |faults: &[Fault]| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        lines(faults.faults()),
        ["$.on: is missing: true or false is needed (there is \"On\": names must match exactly)"]
    );
    assert_eq!(
        lines(faults.warnings()),
        [
            "$.On: is not known and has no effect: write on",
            "$.max_attempts: is not known and has no effect: write maxAttempts",
            "$.other: is not known and has no effect",
        ]
    );
    assert_eq!(
        faults.to_string(),
        "the list cannot be used: $.on: is missing: true or false is needed \
         (there is \"On\": names must match exactly)"
    );
    let other = booleans(r#"{"Own": true, "o_____n": true}"#).unwrap_err();
    assert_eq!(
        lines(other.faults()),
        ["$.on: is missing: true or false is needed"]
    );
}

#[test]
fn without_room_for_faults_one_refuses_the_document_too() {
    let form = Form {
        most_faults: 0,
        ..FORM
    };
    let read = form.read("{}", |place, _| {
        place.wrong("is wrong");
        Some(())
    });
    let faults = read.unwrap_err();
    assert_eq!(faults.listed(), "$: has 1 more faults than are listed");
}

#[test]
fn control_characters_of_a_servers_names_are_escaped() {
    let form = Form {
        of_server: true,
        ..FORM
    };
    let text = r#"{"a\n\u001b[2Jb": 0}"#;
    let read = form.read(text, |place, json| {
        let members = Members::any(place, json)?;
        let (name, _) = members.iter().next()?;
        place.field(name).refuse::<()>("is wrong")
    });
    let faults = read.unwrap_err();
    assert_eq!(faults.faults()[0].path, r"$.a\n\u{1b}[2Jb");
}

#[test]
fn of_members_of_one_name_the_last_is_got() {
    let read = FORM.read(r#"{"a": 1, "b": 2, "a": 3}"#, |_, json| {
        json.get("a")?.as_number().map(str::to_owned)
    });
    assert_eq!(read.unwrap().0, "3");
}

/// Two bytes per fault: without a limit they took a hundred times the memory of the text.
#[test]
fn only_the_first_faults_are_listed_and_the_others_counted() {
    let text = format!("[{}0]", "0,".repeat(12_344));
    let faults = booleans(&text).unwrap_err();
    assert_eq!(faults.faults().len(), 10_001);
    assert_eq!(faults.faults()[9_999].path, "$[9999]");
    assert_eq!(
        faults.faults()[10_000].to_string(),
        "$: has 2345 more faults than are listed"
    );
}

#[test]
fn only_the_first_warnings_are_listed_too() {
    let form = Form {
        most_warnings: 2,
        ..FORM
    };
    let read = form.read(r#"{"a": 1, "b": 2, "c": 3}"#, |place, json| {
        Members::of(place, json, &[]).map(|_| ())
    });
    let lines: Vec<_> = read.unwrap().1.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines[1..],
        [
            "$.b: is not known and has no effect",
            "$: has 1 more warnings than are listed",
        ]
    );
}

#[test]
fn a_document_is_read_up_to_its_longest() {
    let of = |length: usize| format!("[{}]", " ".repeat(length - 2));
    assert!(booleans(&of(FORM.longest)).is_ok());
    let faults = booleans(&of(FORM.longest + 1)).unwrap_err();
    assert_eq!(
        faults.faults()[0].to_string(),
        "$: must be at most 4194304 bytes long, got 4194305"
    );
}

#[test]
fn a_text_that_is_no_json_is_refused_with_its_byte() {
    let text = r#"{"on": true, // why"#;
    let faults = booleans(text).unwrap_err();
    assert_eq!(
        faults.faults()[0].to_string(),
        "$: is not JSON: a comment is not allowed (byte 13)"
    );
}

/// Where a text goes wrong, and why.
fn refused(text: &str) -> (usize, String) {
    let read = |_: &mut Place<'_>, json: Json<'_>| json.members().and_then(Result::err);
    let refused = match Json::parse(text.as_bytes(), &FORM) {
        Ok(_) => FORM.read(text, read).unwrap().0,
        Err(refused) => refused,
    };
    match refused {
        Unreadable::NotJson { byte, what, .. } => (byte, what.into_owned()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_not_json_is_refused_where_it_goes_wrong() {
    for (text, at, what) in [
        ("", 0, "the text ends where a value should be"),
        ("{", 1, "the text ends inside an object"),
        ("[1,]", 3, "no JSON value starts like this"),
        ("01", 1, "a number has no leading zeros"),
        ("1.", 1, "a digit must follow"),
        (".5", 0, "no JSON value starts like this"),
        ("+1", 0, "no JSON value starts like this"),
        ("{\"a\" 1}", 5, "a colon must follow the name"),
        ("[1 2]", 3, "a comma or the array's end must follow"),
        ("{\"a\":1 2}", 7, "a comma or the object's end must follow"),
        ("\"\u{1}\"", 1, "a control character must be escaped"),
        ("{\"\\ud800\":1}", 8, "half a surrogate pair"),
        ("{\"\\udc00\":1}", 8, "half a surrogate pair"),
        ("{\"\\ud800\\u0041\":1}", 14, "half a surrogate pair"),
        ("\"\\x\"", 3, "no such escape"),
        ("\"\\u12g4\"", 7, "no such escape"),
        ("nul", 3, "the text ends where a value should be"),
        ("1 2", 2, "something follows the value"),
        ("\"a", 2, "the text ends inside a string"),
        ("{} trailing", 3, "something follows the value"),
        ("\u{feff}{}", 0, "a byte order mark is not allowed"),
        ("// a\n{}", 0, "a comment is not allowed"),
        ("{\"a\": /* b */ 1}", 6, "a comment is not allowed"),
        ("{\n\"a\": 1, // b\n}", 10, "a comment is not allowed"),
        ("[1 // a\n]", 3, "a comment is not allowed"),
        ("{} // a", 3, "a comment is not allowed"),
    ] {
        assert_eq!(refused(text), (at, what.to_owned()), "{text:?}");
    }
    let deep = "[".repeat(100_000);
    assert_eq!(refused(&deep), (64, "nested too deep".to_owned()));
}

/// Whether the text has this value on every level.
fn is(json: Json<'_>, value: &Value) -> bool {
    match value {
        Value::Null => json.is_null(),
        Value::Bool(value) => json.as_bool() == Some(*value),
        Value::Number(value) => json.as_number() == Some(&value.to_string()),
        Value::String(value) => json.as_str().as_deref() == Some(value),
        Value::Array(values) => json.items().is_some_and(|items| {
            items.len() == values.len() && items.iter().zip(values).all(|(i, v)| is(*i, v))
        }),
        Value::Object(values) => json.members().is_some_and(|members| {
            let members = members.unwrap();
            members.len() == values.len() && members.iter().all(|(n, json)| is(*json, &values[n]))
        }),
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,9}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let name = "[ab\"\\\\\u{1}é{ ]{0,3}";
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(name, inner, 0..6).prop_map(Value::from_iter),
        ]
    })
}

proptest! {
    #[test]
    fn what_was_written_is_read_on_every_level(value in value()) {
        let text = serde_json::to_string_pretty(&value).unwrap();
        let json = Json::parse(text.as_bytes(), &FORM).unwrap();
        prop_assert!(is(json, &value), "{text}");
        prop_assert_eq!(json.compact(), value.to_string());
    }

    #[test]
    fn no_text_panics(text in ".{0,60}", wild in "[\\[\\]{}\",:\\\\ud0-9eE.+-]{0,60}") {
        for text in [text, wild] {
            let accepted = serde_json::from_str::<Value>(&text).is_ok();
            prop_assert!(!accepted || Json::parse(text.as_bytes(), &FORM).is_ok(), "{text}");
        }
    }
}

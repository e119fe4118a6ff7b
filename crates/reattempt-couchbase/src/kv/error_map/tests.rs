use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn parsed(json: &str) -> ErrorMap {
    ErrorMap::parse(json.as_bytes()).unwrap()
}

fn faults(map: &ErrorMap) -> Vec<String> {
    map.faults().iter().map(ToString::to_string).collect()
}

/// C24
#[test]
fn keys_are_hex_in_any_case_with_any_zeros() {
    let map = parsed(
        r#"{"version": 1, "revision": 3, "errors": {
            "AbC": {"attrs": []}, "00ff": {"attrs": []}, "FFFF": {"attrs": []}, "0000010": {"attrs": []},
            "0x1": {"attrs": []}, "10000": {"attrs": []}, "+2": {"attrs": []}, "": {"attrs": []}, "ABC": {"attrs": []}
        }}"#,
    );
    let known = [0xabc, 0xff, 0xffff, 0x10];
    assert!(known.iter().all(|status| map.get(*status).is_some()));
    assert_eq!((map.len(), map.version(), map.revision()), (4, 1, 3));
    assert_eq!(map.faults().len(), 5);
}

/// C23
#[test]
fn a_malformed_entry_is_skipped_and_reported() {
    let map = parsed(
        r#"{"version": 2, "revision": 1, "errors": {
            "1": {"attrs": ["retry-now"]}, "2": [], "3": {"name": "N", "desc": "D"}, "4": {"attrs": [1]},
            "5": {"attrs": ["retry-now"], "name": 7, "retry": {"strategy": "fibonacci"}}
        }}"#,
    );
    assert_eq!(map.len(), 2);
    assert_eq!(
        faults(&map),
        [
            "$.errors.2: must be an object, got an array; the entry is skipped",
            "$.errors.3.attrs: must be a list of names; the entry is skipped",
            "$.errors.4.attrs: must be a list of names; the entry is skipped",
            "$.errors.5.retry.strategy: must be constant, linear or exponential; the retry specification is not used",
        ]
    );
    let nameless = map.get(5).unwrap();
    assert!(nameless.attributes().retry() && nameless.retry_spec().is_none());
    assert_eq!((nameless.name(), nameless.description()), (None, None));
    let named = parsed(r#"{"errors": {"1": {"attrs": [], "name": "N", "desc": "D"}}}"#);
    let named = named.get(1).unwrap();
    assert_eq!((named.name(), named.description()), (Some("N"), Some("D")));
}

/// C23
#[test]
fn what_is_no_map_is_refused_with_the_place() {
    let refused = |json: &[u8]| ErrorMap::parse(json).unwrap_err().faults()[0].to_string();
    assert_eq!(refused(b"[]"), "$: must be an object, got an array");
    assert_eq!(
        refused(br#"{"version": 2}"#),
        "$.errors: must be an object of statuses"
    );
    assert_eq!(
        refused(br#"{"version": -2, "errors": {}}"#),
        "$.version: must be an integer that is not negative"
    );
    let name = refused(br#"{"errors": {"\ud800": {"attrs": []}}}"#);
    assert!(
        name.starts_with("$.errors: ") && name.ends_with("half a surrogate pair"),
        "{name}"
    );
    assert!(refused(b"{\n\"errors\":").ends_with(": the text ends where a value should be"));
    let mut most = br#"{"errors": {}}"#.to_vec();
    most.resize(MAX_BYTES, b' ');
    assert!(ErrorMap::parse(&most).is_ok());
    let large = vec![b' '; MAX_BYTES + 1];
    assert_eq!(
        refused(&large),
        "$: an error map of 1048577 bytes is refused: at most 1048576 are read"
    );
}

/// C23
#[test]
fn of_a_member_that_is_there_twice_the_last_one_counts() {
    let map = parsed(
        r#"{"version": 1, "revision": 1, "errors": {"1": {"attrs": []}, "1": {
            "attrs": [], "attrs": ["temp"]}}}"#,
    );
    assert_eq!(map.get(1).unwrap().attributes(), Attributes::TEMP);
    assert_eq!(
        faults(&map),
        [
            "$.errors.1: is there twice; the last one counts",
            "$.errors.1.attrs: is there twice; the last one counts",
        ]
    );
}

/// C25
#[test]
fn a_higher_version_is_read_with_what_is_understood_of_it() {
    let map = parsed(
        r#"{"version": 9, "revision": 1, "extra": {}, "errors": {
            "f1": {"attrs": ["of-tomorrow", "rate-limit", "retry-later"], "hint": 1}}}"#,
    );
    let attributes = map.get(0xf1).unwrap().attributes();
    assert_eq!(map.version(), 9);
    assert_eq!(attributes, Attributes::RATE_LIMIT | Attributes::RETRY_LATER);
    let unknown = |path| format!("{path}: is not known and has no effect");
    assert_eq!(faults(&map), ["$.extra", "$.errors.f1.hint"].map(unknown));
}

#[test]
fn a_map_that_does_not_say_its_version_is_used_and_reported() {
    let map = parsed(r#"{"errors": {}}"#);
    assert_eq!(
        (map.version(), map.revision(), map.faults().len()),
        (1, 0, 2)
    );
}

/// C26 C27 C28
#[test]
fn a_retry_specification_saturates_and_takes_zero_for_absent() {
    let map = parsed(
        r#"{"version": 1, "revision": 1, "errors": {"f1": {"attrs": ["auto-retry"], "retry": {
            "strategy": "exponential", "interval": 1000, "after": 5, "ceil": 0, "max-duration": 0}}}}"#,
    );
    let spec = map.get(0xf1).unwrap().retry_spec().unwrap();
    assert_eq!((spec.ceil(), spec.max_duration()), (None, None));
    assert_eq!(spec.delay(0), Duration::from_millis(5));
    assert_eq!(spec.delay(2), Duration::from_secs(1000));
    assert_eq!(spec.delay(u32::MAX), Duration::from_millis(u64::MAX));
}

/// C26: no input overflows.
#[test]
fn a_linear_specification_saturates_too() {
    let spec = spec(&format!(
        r#"{{"strategy": "linear", "interval": {}, "after": {0}}}"#,
        u64::MAX
    ));
    let spec = spec.unwrap();
    for retries in [0, 1, 2, u32::MAX] {
        assert_eq!(spec.delay(retries), Duration::from_millis(u64::MAX));
    }
}

/// The parsed specification, or its fault.
fn spec(json: &str) -> Result<RetrySpec, String> {
    let map = parsed(&format!(
        r#"{{"version": 1, "revision": 1, "errors": {{"1": {{"attrs": ["auto-retry"], "retry": {json}}}}}}}"#
    ));
    let entry = map.get(1).unwrap();
    assert!(entry.attributes().retry(), "in any case");
    entry
        .retry_spec()
        .copied()
        .ok_or_else(|| faults(&map).concat())
}

/// C23 C26: required members must exist, and durations must be numbers of milliseconds; null is
/// equivalent to absent.
#[test]
fn a_specification_that_cannot_be_read_is_not_used_and_reported() {
    let whole =
        r#"{"strategy": "linear", "interval": 1, "after": 2, "ceil": 3, "max-duration": 4}"#;
    let read = spec(whole).unwrap();
    assert_eq!(read.strategy(), SpecStrategy::Linear);
    assert_eq!(
        (read.interval(), read.after()),
        (Duration::from_millis(1), Duration::from_millis(2))
    );
    assert_eq!(
        (read.ceil(), read.max_duration()),
        (
            Some(Duration::from_millis(3)),
            Some(Duration::from_millis(4))
        )
    );
    for (member, value, optional) in [
        ("after", 2, false),
        ("interval", 1, false),
        ("ceil", 3, true),
        ("max-duration", 4, true),
    ] {
        let with = |other: &str| spec(&whole.replace(&format!("\"{member}\": {value}"), other));
        let fault = format!(
            "$.errors.1.retry.{member}: must be a number of milliseconds; the retry specification is not used"
        );
        for other in ["-1", "1.5", "\"2\"", "1e30", "[]"] {
            assert_eq!(
                with(&format!("\"{member}\": {other}")),
                Err(fault.clone()),
                "{other}"
            );
        }
        for absent in [format!("\"{member}\": null"), "\"hint\": 1".to_owned()] {
            let read = with(&absent);
            assert_eq!(read.is_ok(), optional, "{absent}");
            let refused = read.is_err_and(|found| found.ends_with(&fault));
            assert!(optional || refused, "{absent}");
        }
    }
    assert!(
        spec("[]")
            .unwrap_err()
            .contains(".retry: must be an object")
    );
}

#[test]
fn attributes_are_a_set() {
    let both = Attributes::RETRY_NOW | Attributes::TEMP;
    assert!(both.contains(Attributes::TEMP) && both.contains(both));
    assert!(!Attributes::TEMP.contains(both), "all of them");
    assert_eq!(Attributes::named("retry-now"), Some(Attributes::RETRY_NOW));
    assert_eq!(Attributes::named("of-tomorrow"), None);
    assert_eq!(format!("{both:?}"), r#"{"temp", "retry-now"}"#);
}

/// C23: the consequence of each attribute for a client.
#[test]
fn each_attribute_has_its_own_consequence() {
    let of = |words: &str| {
        let map = parsed(&format!(r#"{{"errors": {{"1": {{"attrs": [{words}]}}}}}}"#));
        let found = map.get(1).unwrap().attributes();
        (
            found.retry(),
            found.fetch_config(),
            found.close_connection(),
        )
    };
    let nothing = (false, false, false);
    assert_eq!(of(""), nothing);
    for (word, found) in Attributes::WORDS {
        let retry = ["retry-now", "retry-later", "auto-retry"].contains(word);
        let close = ["conn-state-invalidated", "special-handling"].contains(word);
        let alone = (retry, *word == "fetch-config", close);
        assert_eq!(of(&format!("\"{word}\"")), alone, "{word}");
        assert_eq!(
            of(&format!("\"{word}\", \"{word}\"")),
            alone,
            "{word} twice"
        );
        assert_eq!(*found | *found, *found);
        let with_no_retry = of(&format!("\"{word}\", \"no-retry\""));
        assert_eq!(with_no_retry, (false, alone.1, alone.2), "{word}");
    }
    let all = r#""retry-now", "fetch-config", "conn-state-invalidated", "special-handling""#;
    assert_eq!(of(all), (true, true, true));
}

#[test]
fn a_map_is_empty_without_entries_that_can_be_used() {
    assert!(parsed(r#"{"errors": {}}"#).is_empty());
    let map = parsed(r#"{"version": 1, "revision": 1, "errors": {"zz": {"attrs": []}}}"#);
    assert!(map.is_empty());
    let [fault] = map.faults() else {
        panic!("{:?}", map.faults())
    };
    assert_eq!(fault.path, "$.errors.zz");
    assert!(fault.what.starts_with("the key must be a status"));
    assert!(!parsed(r#"{"errors": {"1": {"attrs": []}}}"#).is_empty());
}

#[test]
fn a_hostile_key_does_not_fill_the_report() {
    let key = "ß".repeat(100_000);
    let map = parsed(&format!(r#"{{"errors": {{"{key}": {{}}}}}}"#));
    assert!(map.faults().iter().all(|fault| fault.path.len() < 200));
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f32>().prop_map(|n| format!("{n:e}")),
        "\"(retry-now|constant|auto-retry|[a-z]{0,4})\"".prop_map(String::from),
    ];
    let key = prop_oneof![
        Just("version".to_owned()),
        Just("errors".to_owned()),
        Just("attrs".to_owned()),
        Just("retry".to_owned()),
        Just("strategy".to_owned()),
        Just("interval".to_owned()),
        "[0-9a-fA-F]{1,5}",
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|v| format!("[{}]", v.join(","))),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(|v| {
                let members: Vec<_> = v.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        let _ = ErrorMap::parse(&bytes);
    }

    #[test]
    fn no_json_panics(errors in json(), version in json()) {
        let text = format!(r#"{{"version": {version}, "errors": {errors}}}"#);
        if let Ok(map) = ErrorMap::parse(text.as_bytes()) {
            for status in 0..=0x100 {
                let spec = map.get(status).and_then(ErrorMapEntry::retry_spec);
                let _ = spec.map(|spec| spec.delay(u32::from(status)));
            }
        }
    }
}

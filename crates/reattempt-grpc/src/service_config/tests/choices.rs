//! A2: choices of a service config.

use reattempt::backoff::Randomness;

use crate::service_config::ServiceConfig;
use crate::service_config::choices::{Choices, Client, NotAscii, choose, txt_value};

fn chosen(list: &str, client: &Client) -> Option<String> {
    choose(list, client).unwrap()
}

fn faults(list: &str) -> Vec<String> {
    match Choices::parse(list) {
        Ok(_) => Vec::new(),
        Err(invalid) => invalid.faults().iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn the_first_choice_that_is_for_the_client_counts() {
    let list = r#"[
        {"clientLanguage": ["go", "RUST"], "clientHostname": ["a"], "percentage": 10, "serviceConfig": {"n": 1}},
        {"clientLanguage": ["rust"], "percentage": 50, "serviceConfig": {"n": 2}},
        {"clientHostname": ["b"], "serviceConfig": {"n": 3}},
        {"clientLanguage": [], "clientHostname": [], "serviceConfig": {"n": 4}},
        {"serviceConfig": {"n": 5}}]"#;
    let of = |client: Client| chosen(list, &client).unwrap();
    assert_eq!(of(Client::new(9).hostname("a")), r#"{"n":1}"#);
    assert_eq!(of(Client::new(10).hostname("a")), r#"{"n":2}"#);
    assert_eq!(of(Client::new(9).hostname("A")), r#"{"n":2}"#, "exactly");
    assert_eq!(of(Client::new(9)), r#"{"n":2}"#, "no name is in no list");
    assert_eq!(of(Client::new(50).hostname("b")), r#"{"n":3}"#);
    assert_eq!(of(Client::new(50)), r#"{"n":4}"#, "empty is for all");
    let java = Client::new(0).hostname("a").language("Java");
    assert_eq!(of(java), r#"{"n":4}"#);
}

#[test]
fn a_percentage_applies_to_that_share_of_the_percentiles() {
    for percentage in [0, 1, 50, 99, 100] {
        let list = format!(r#"[{{"percentage": {percentage}, "serviceConfig": {{}}}}]"#);
        let share = (0..100).filter(|n| chosen(&list, &Client::new(*n)).is_some());
        assert_eq!(share.count(), percentage);
    }
    let drawn = |roll| Client::drawn(&Randomness::Fixed(roll));
    assert_eq!(drawn(0.0), Client::new(0));
    assert_eq!(drawn(0.999_999), Client::new(99));
    assert_eq!(
        Client::new(1000),
        Client::new(99),
        "100 is for all the same"
    );
}

#[test]
fn no_choice_is_made_if_none_applies_to_the_client() {
    assert_eq!(chosen("[]", &Client::new(0)), None);
    let list = r#"[{"clientLanguage": ["c++"], "serviceConfig": {}}]"#;
    assert_eq!(chosen(list, &Client::new(0)), None);
}

#[test]
fn a_choice_of_another_form_makes_the_whole_list_unusable() {
    let second = |members: &str| faults(&format!(r#"[{{"serviceConfig": {{}}}}, {{{members}}}]"#));
    let percentage = "$[1].percentage: must be an integer from 0 to 100, written in digits, got";
    for (members, said) in [
        (
            r#""serviceConfig": {}, "percent": 5"#,
            "$[1].percent: is not known",
        ),
        (
            r#""serviceConfig": {}, "ClientLanguage": []"#,
            "$[1].ClientLanguage: is not known",
        ),
        ("", "$[1].serviceConfig: is missing: an object is needed"),
        (
            r#""serviceConfig": []"#,
            "$[1].serviceConfig: must be an object, got an array",
        ),
        (
            r#""serviceConfig": null"#,
            "$[1].serviceConfig: must be an object, got null",
        ),
        (
            r#""serviceConfig": {}, "serviceConfig": {}"#,
            "$[1].serviceConfig: is there twice",
        ),
        (
            r#""serviceConfig": {}, "clientLanguage": "rust""#,
            "$[1].clientLanguage: must be an array of strings",
        ),
        (
            r#""serviceConfig": {}, "clientLanguage": null"#,
            "$[1].clientLanguage: must be an array of strings",
        ),
        (
            r#""serviceConfig": {}, "clientLanguage": ["rust", 1]"#,
            "$[1].clientLanguage[1]: must be a string, got 1",
        ),
        (
            r#""serviceConfig": {}, "clientHostname": ["a", null]"#,
            "$[1].clientHostname[1]: must be a string, got null",
        ),
    ] {
        let faults = second(members);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].starts_with(said), "{faults:?}");
    }
    for bad in [
        "101",
        "-1",
        "-0",
        "50.0",
        "5e1",
        "0.5",
        "\"50\"",
        "null",
        "4294967296",
    ] {
        let faults = second(&format!(r#""serviceConfig": {{}}, "percentage": {bad}"#));
        assert_eq!(faults, [format!("{percentage} {}", bad)], "{bad}");
    }
    for good in ["0", "7", "10", "99", "100"] {
        assert!(second(&format!(r#""serviceConfig": {{}}, "percentage": {good}"#)).is_empty());
    }
    assert_eq!(
        faults("{}"),
        ["$: must be an array of choices, got an object"]
    );
    assert_eq!(faults("[1]"), ["$[0]: must be an object, got 1"]);
}

#[test]
fn every_fault_of_a_list_is_reported_at_once() {
    let list = r#"[{"percentage": 101, "clientLanguage": 1, "a": 1}, {"serviceConfig": 1}]"#;
    let paths: Vec<_> = faults(list)
        .iter()
        .map(|fault| fault.split(':').next().unwrap().to_owned())
        .collect();
    assert_eq!(
        paths,
        [
            "$[0].percentage",
            "$[0].clientLanguage",
            "$[0].a",
            "$[0].serviceConfig",
            "$[1].serviceConfig"
        ]
    );
}

/// A21: only the chosen service config is parsed, as strictly as any other.
#[test]
fn only_the_chosen_service_config_is_parsed_unchanged() {
    let list = r#"[
        {"percentage": 0, "serviceConfig": {"methodConfig": "junk"}},
        {"serviceConfig": {"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.5466, "tokenRatio": 0.5466},
                           "unknown\n\"é": "\u00e9"}}]"#;
    let config = chosen(list, &Client::new(0)).unwrap();
    assert_eq!(
        config,
        r#"{"retryThrottling":{"maxTokens":10,"tokenRatio":0.5466,"tokenRatio":0.5466},"unknown\n\"é":"\u00e9"}"#
    );
    let invalid = ServiceConfig::parse(&config).unwrap_err();
    assert_eq!(
        invalid.faults()[0].to_string(),
        "$.retryThrottling.tokenRatio: is there twice"
    );
}

#[test]
fn the_strings_of_a_txt_record_are_joined() {
    let of = |strings: &[&str]| txt_value(strings);
    let value = |text: &str| Ok(Some(text.to_owned()));
    assert_eq!(of(&["grpc_config=[]"]), value("[]"));
    assert_eq!(
        of(&["gr", "pc_conf", "ig", "=[", "{", "", "}]"]),
        value("[{}]")
    );
    assert_eq!(of(&[" GRPC_Config\t= [] "]), value(" [] "), "RFC 1464");
    assert_eq!(of(&["grpc_config=a=b"]), value("a=b"));
    for other in [
        "",
        "grpc_config",
        "grpc_configs=[]",
        "v=spf1 -all",
        "=[]",
        "x=\u{e9}",
    ] {
        assert_eq!(of(&[other]), Ok(None), "{other:?}");
    }
    let byte = |value: &[u8]| txt_value([&b"grpc_config="[..], value]);
    let refused = byte(b"[\xff]").unwrap_err();
    assert!(matches!(
        refused,
        NotAscii {
            at: 1,
            byte: 0xff,
            ..
        }
    ));
    assert_eq!(
        refused.to_string(),
        "the TXT record of the service config must be ASCII, got byte 0xff (byte 1 of its value)"
    );
    assert!(byte("[\"é\"]".as_bytes()).is_err());
}

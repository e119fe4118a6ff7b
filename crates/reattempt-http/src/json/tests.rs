use super::*;

/// Parses a list of booleans, after a check of its members if it is an object.
fn booleans(text: &str) -> Result<((), Vec<Fault>), Faults> {
    read("the list", text, |place, json| {
        if let Json::Object(_) = json {
            let members = Members::of(place, json, &["maxAttempts", "on"])?;
            members.required(place, "on", "true or false", boolean)?;
            return Some(());
        }
        array(place, json, "booleans", boolean).map(|_| ())
    })
}

#[test]
fn a_slip_of_case_is_told_beside_the_fault_it_makes() {
    let faults = booleans(r#"{"On": true, "max_attempts": 1, "other": 2}"#).unwrap_err();
    let lines = |faults: &[Fault]| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        lines(faults.faults()),
        ["$.on: is missing: true or false is needed"]
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
        "the list cannot be used: $.on: is missing: true or false is needed"
    );
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
fn a_document_is_read_up_to_its_longest() {
    let of = |length: usize| format!("[{}]", " ".repeat(length - 2));
    assert!(booleans(&of(LONGEST_DOCUMENT)).is_ok());
    let faults = booleans(&of(LONGEST_DOCUMENT + 1)).unwrap_err();
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

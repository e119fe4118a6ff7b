//! Every test named on the conformance pages exists, so that no rule loses its test.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files with this extension below the folder, without build results.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            let name = entry.file_name();
            if name != "target" && !name.to_string_lossy().starts_with('.') {
                files(&path, ending, found);
            }
        } else if path.extension().is_some_and(|own| own == ending) {
            found.push(path);
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("a text")
}

/// The names of all tests: every name after `fn `, and the names of the program's cases in JSON.
fn tests() -> HashSet<String> {
    let mut names = HashSet::new();
    for folder in ["crates", "tests"] {
        for (ending, before) in [("rs", "fn "), ("json", "{\"name\": \"")] {
            let mut sources = Vec::new();
            files(&root().join(folder), ending, &mut sources);
            for rest in sources.iter().map(|source| read(source)) {
                let starts = rest.split(before).skip(1);
                names.extend(starts.map(|rest| {
                    let name = rest.chars();
                    name.take_while(|c| c.is_alphanumeric() || *c == '_')
                        .collect()
                }));
            }
        }
    }
    names
}

/// Backticked names that look like test names.
fn tests_named(page: &str) -> impl Iterator<Item = &str> {
    let quoted = page.split('`').skip(1).step_by(2);
    quoted.filter(|name| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        name.matches('_').count() > 1 && name.chars().all(plain)
    })
}

#[test]
fn every_test_that_a_page_names_exists() {
    let (tests, mut pages) = (tests(), Vec::new());
    files(&root().join("docs/conformance"), "md", &mut pages);
    assert!(pages.len() >= 3, "{pages:?}");
    for page in pages {
        let text = read(&page);
        let lost: Vec<_> = tests_named(&text)
            .filter(|name| !tests.contains(*name))
            .collect();
        assert!(lost.is_empty(), "{}: no test {lost:?}", page.display());
    }
}

/// Checks that each rule has its own row with a test, and returns the rules of a page.
fn rules(page: &str, letter: char) -> usize {
    let page = read(&root().join("docs/conformance").join(page));
    let mut seen = HashSet::new();
    let row = format!("| {letter}");
    for row in page.lines().filter(|line| line.starts_with(&row)) {
        let head = row[2..].split(" | ").next().unwrap_or_default();
        let mut words = head.split(' ');
        let rule = words.next().expect("a rule");
        assert!(rule[1..].parse::<u32>().is_ok(), "one rule a row: {row}");
        assert!(
            !words.any(|word| word.starts_with(letter)),
            "one rule a row: {row}"
        );
        assert!(seen.insert(rule.to_owned()), "{rule} twice");
        assert!(tests_named(row).next().is_some(), "{rule} without a test");
    }
    seen.len()
}

#[test]
fn each_rule_of_a6_has_one_row_with_a_test() {
    assert!(rules("grpc.md", 'R') >= 54);
}

#[test]
fn each_rule_of_outlier_detection_has_one_row_with_a_test() {
    assert_eq!(rules("outlier-detection.md", 'O'), 22);
}

#[test]
fn each_rule_of_couchbase_has_one_row_with_a_test() {
    assert_eq!(rules("couchbase.md", 'C'), 51);
}

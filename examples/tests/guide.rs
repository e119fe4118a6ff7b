//! The guide's code is the example's, which is compiled and run.

const GUIDE: &str = include_str!("../../docs/tonic.md");
const EXAMPLE: &str = include_str!("../examples/tonic_client.rs");

/// Without what moves when code is moved to another depth.
fn unindented(code: &str) -> String {
    let lines = code.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_piece_of_code_in_the_guide_to_tonic_is_in_the_example() {
    let example = unindented(EXAMPLE);
    let pieces = GUIDE.split("```rust\n").skip(1);
    let mut count = 0;
    for piece in pieces {
        let (code, _) = piece.split_once("```").expect("an end of the code");
        assert!(
            example.contains(&unindented(code)),
            "not in the example:\n{code}"
        );
        count += 1;
    }
    assert!(count > 5, "{count} pieces found");
}

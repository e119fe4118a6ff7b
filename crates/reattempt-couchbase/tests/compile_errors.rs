//! What the compiler says about a client that does not fit below a preset: each message names what
//! to change.
//!
//! The texts are of the newest stable compiler, as all of CI. After an update of it, or of a
//! trait's message, run this test with `--all-features` and `TRYBUILD=overwrite`, and read the
//! difference.

#[test]
fn a_client_that_does_not_fit_says_what_to_change() {
    trybuild::TestCases::new().compile_fail("tests/compile_errors/*.rs");
}

//! What the compiler says about a stack that is not a service: each message names what to change.
//!
//! The texts are of the newest stable compiler, as all of CI. After an update of it, or of a
//! trait's message:
//! `TRYBUILD=overwrite cargo test -p reattempt-http --all-features --test compile_errors`, and read
//! the difference.

#[test]
fn a_stack_that_does_not_fit_says_what_to_change() {
    trybuild::TestCases::new().compile_fail("tests/compile_errors/*.rs");
}

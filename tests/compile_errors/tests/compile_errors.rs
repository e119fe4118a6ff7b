//! What the compiler says about a stack that is not a service: each message names what to change.
//!
//! The texts are of the newest stable compiler, as all of CI. After an update of it, or of a
//! trait's message: `TRYBUILD=overwrite cargo test -p reattempt-compile-errors`, and read the
//! difference.

#[test]
fn a_stack_that_does_not_fit_says_what_to_change() {
    let programs = trybuild::TestCases::new();
    programs.compile_fail("tests/http/*.rs");
    programs.compile_fail("tests/couchbase/*.rs");
    programs.compile_fail("tests/mongodb/*.rs");
}

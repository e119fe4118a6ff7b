//! What the compiler says about a client that does not fit below a preset: each message names what
//! to change.
//!
//! The texts are of the newest stable compiler, as all of CI. After an update of it, or of a
//! trait's message, run this test with `TRYBUILD=overwrite`, and read the difference.

#[test]
#[cfg_attr(
    any(
        feature = "hyper",
        feature = "hyper-util",
        feature = "h2",
        feature = "reqwest"
    ),
    ignore = "a message lists the errors that the features read"
)]
fn a_client_that_does_not_fit_says_what_to_change() {
    trybuild::TestCases::new().compile_fail("tests/compile_errors/*.rs");
}

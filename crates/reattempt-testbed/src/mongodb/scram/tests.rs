use super::*;

const CLIENT_NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";

fn stored() -> Stored {
    Stored::derive("pencil", &STANDARD.decode(SALT).unwrap(), 4096).unwrap()
}

#[test]
fn both_sides_speak_the_example_of_rfc_7677() {
    let first = ClientFirst::new("user", CLIENT_NONCE);
    assert_eq!(first.message(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
    let server = ServerExchange::begin(first.message().as_bytes(), SERVER_NONCE, stored()).unwrap();
    assert_eq!(
        server.message(),
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
         s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    );
    let last = first
        .server_first(server.message().as_bytes(), "pencil", None)
        .unwrap();
    assert_eq!(
        last.message(),
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
         p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    );
    let verifier = server.finish(last.message().as_bytes()).unwrap();
    assert_eq!(verifier, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    assert_eq!(last.server_final(verifier.as_bytes()), Ok(()));
    let wrong = last.server_final(b"v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    assert_eq!(wrong, Err(ScramError::Proof));
}

#[test]
fn a_wrong_password_does_not_pass_and_a_kept_one_is_used_again() {
    let first = ClientFirst::new("us,er", "abc");
    assert_eq!(
        ServerExchange::user(first.message().as_bytes()),
        Ok("us,er".to_owned())
    );
    let server = ServerExchange::begin(first.message().as_bytes(), "def", stored()).unwrap();
    let wrong = first
        .clone()
        .server_first(server.message().as_bytes(), "pen", None)
        .unwrap();
    assert_eq!(
        server.finish(wrong.message().as_bytes()),
        Err(ScramError::Proof)
    );
    let right = first
        .clone()
        .server_first(server.message().as_bytes(), "pencil", None)
        .unwrap();
    let kept = Some(right.salted().clone());
    // Of this password only: credentials may have changed since.
    for (password, expected) in [("pencil", right), ("pen", wrong)] {
        let again = first
            .clone()
            .server_first(server.message().as_bytes(), password, kept.clone())
            .unwrap();
        assert_eq!(again.message(), expected.message());
    }
}

#[test]
fn a_server_cannot_steal_the_nonce_or_the_time() {
    let answer = |text: &str| {
        ClientFirst::new("u", "abc")
            .server_first(text.as_bytes(), "p", None)
            .unwrap_err()
    };
    assert_eq!(answer("r=xbcdef,s=AAAA,i=4096"), ScramError::Nonce);
    assert_eq!(answer("r=abc,s=AAAA,i=4096"), ScramError::Nonce);
    assert_eq!(answer("r=abcd,s=AAAA,i=4095"), ScramError::Iterations(4095));
    assert_eq!(
        answer("r=abcd,s=AAAA,i=4000000000"),
        ScramError::Iterations(4_000_000_000)
    );
    assert!(matches!(answer("r=abcd,i=4096"), ScramError::Malformed(_)));
    assert!(matches!(answer("nonsense"), ScramError::Malformed(_)));
    assert!(matches!(
        answer("r=abcd,s=?,i=4096"),
        ScramError::Malformed(_)
    ));
    assert_eq!(
        SaltedPassword::derive("p\u{e9}", b"salt", 4096).unwrap_err(),
        ScramError::Password
    );
}

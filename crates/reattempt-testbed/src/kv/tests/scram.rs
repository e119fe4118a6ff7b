use crate::kv::sasl::Salted;
use crate::kv::sasl::{
    MAX_ITERATIONS, MIN_ITERATIONS, Mechanism, ScramClient, ScramError, ScramServer,
};

fn vector(mechanism: Mechanism, nonce: &str, server_first: &str, proof: &str, verifier: &str) {
    let mut client = ScramClient::new(mechanism, "user", "pencil", nonce).expect("scram");
    assert_eq!(client.first(), format!("n,,n=user,r={nonce}"));
    let last = client.answer(server_first.as_bytes()).expect("answer");
    assert_eq!(last.rsplit_once(",p=").map(|(_, p)| p), Some(proof));
    client
        .verify(format!("v={verifier}").as_bytes())
        .expect("the server's signature is valid");
    assert_eq!(client.verify(b"v=AAAA"), Err(ScramError::WrongProof));
    let refused = ScramError::Refused("unknown-user".to_owned());
    assert_eq!(client.verify(b"e=unknown-user"), Err(refused));
}

/// The example of RFC 5802, section 5.
#[test]
fn sha1_gives_the_proof_of_rfc_5802() {
    vector(
        Mechanism::ScramSha1,
        "fyko+d2lbbFgONRv9qkxdawL",
        "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        "v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        "rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    );
}

/// The example of RFC 7677, section 3.
#[test]
fn sha256_gives_the_proof_of_rfc_7677() {
    vector(
        Mechanism::ScramSha256,
        "rOprNGfwEbeRWgbNEkqO",
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    );
}

#[test]
fn client_and_server_agree_only_on_the_right_password() {
    for mechanism in [
        Mechanism::ScramSha1,
        Mechanism::ScramSha256,
        Mechanism::ScramSha512,
    ] {
        for (name, password, right) in [
            ("a,b=c", "p", true),
            ("a,b=c", "q", false),
            ("someone", "p", false),
        ] {
            let mut client = ScramClient::new(mechanism, name, password, "abc").expect("scram");
            let user = ("a,b=c", "p");
            let mut server =
                ScramServer::new(mechanism, user, b"salt", MIN_ITERATIONS, "def").expect("scram");
            let first = server.first(client.first().as_bytes()).expect("first");
            let last = client.answer(first.as_bytes()).expect("answer");
            match server.finish(last.as_bytes()) {
                Ok(word) => {
                    assert!(right);
                    client.verify(word.as_bytes()).expect("verify");
                }
                Err(error) => {
                    assert!(!right);
                    assert_eq!(error, ScramError::WrongProof);
                }
            }
        }
    }
}

#[test]
fn a_server_cannot_ask_for_endless_work_or_another_nonce() {
    let answer = |first: &str| {
        let mut client = ScramClient::new(Mechanism::ScramSha256, "u", "p", "abc").expect("scram");
        client.answer(first.as_bytes()).expect_err("refused")
    };
    let count = u64::from(MAX_ITERATIONS) + 1;
    assert_eq!(
        answer(&format!("r=abcd,s=AAAA,i={count}")),
        ScramError::Iterations { count }
    );
    for count in [0, 1, 3999] {
        assert_eq!(
            answer(&format!("r=abcd,s=AAAA,i={count}")),
            ScramError::Iterations { count }
        );
    }
    assert_eq!(
        answer("r=abcd,s=AAAA,i=x"),
        ScramError::Malformed { attribute: 'i' }
    );
    assert_eq!(
        answer("r=abcd,s=!,i=1"),
        ScramError::Malformed { attribute: 's' }
    );
    assert_eq!(answer("r=abc,s=AAAA,i=1"), ScramError::WrongNonce);
    assert_eq!(answer("r=xyz,s=AAAA,i=1"), ScramError::WrongNonce);
    assert_eq!(answer(""), ScramError::Malformed { attribute: 'r' });
}

#[test]
fn what_is_kept_of_a_login_is_used_for_the_same_only() {
    let answer = |mechanism, password, first: &str, kept: &mut Option<Salted>| {
        let mut client = ScramClient::new(mechanism, "u", password, "abc").expect("scram");
        client.answer_with(first.as_bytes(), kept).expect("answer")
    };
    let mut kept = None;
    for (mechanism, password, first) in [
        (Mechanism::ScramSha256, "p", "r=abcd,s=AAAA,i=4000"),
        (Mechanism::ScramSha256, "p", "r=abce,s=AAAA,i=4000"),
        (Mechanism::ScramSha256, "q", "r=abcd,s=AAAA,i=4000"),
        (Mechanism::ScramSha256, "q", "r=abcd,s=BBBB,i=4000"),
        (Mechanism::ScramSha256, "q", "r=abcd,s=BBBB,i=4001"),
        (Mechanism::ScramSha512, "q", "r=abcd,s=BBBB,i=4001"),
    ] {
        let expected = answer(mechanism, password, first, &mut None);
        assert_eq!(answer(mechanism, password, first, &mut kept), expected);
    }
}

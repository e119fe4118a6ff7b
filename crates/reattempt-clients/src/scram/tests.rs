use super::*;

const SHA256: Rules = Rules {
    hash: Hash::Sha256,
    min_iterations: 4000,
    ascii_only: false,
};

fn vector(hash: Hash, nonce: &str, server_first: &str, proof: &str, verifier: &str) {
    let rules = Rules { hash, ..SHA256 };
    let mut client = ScramClient::new(rules, "user", "pencil", nonce);
    assert_eq!(client.first(), format!("n,,n=user,r={nonce}"));
    assert_eq!(client.verify(b"v="), Err(ScramError::WrongProof));

    let salt = decoded(server_first, 1, 's').unwrap();
    let stored = Stored::of(&Salted::derive(rules, "pencil", &salt, 4096).unwrap());
    let whole = attribute(server_first, 0, 'r').unwrap();
    let tail = whole.strip_prefix(nonce).unwrap();
    let server = ScramServer::new(client.first().as_bytes(), tail, stored).unwrap();
    assert_eq!(server.first(), server_first);

    let last = client.answer(server_first.as_bytes(), &mut None).unwrap();
    assert_eq!(last, format!("c=biws,r={whole},p={proof}"));
    let verified = server.finish(last.as_bytes()).unwrap();
    assert_eq!(verified, format!("v={verifier}"));
    assert_eq!(client.verify(verified.as_bytes()), Ok(()));
    assert_eq!(client.verify(b"v=AAAA"), Err(ScramError::WrongProof));
    let refused = ScramError::Refused("unknown-user".to_owned());
    assert_eq!(client.verify(b"e=unknown-user"), Err(refused));
}

/// The example of RFC 5802, section 5.
#[test]
fn sha1_gives_the_proof_of_rfc_5802() {
    vector(
        Hash::Sha1,
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
        Hash::Sha256,
        "rOprNGfwEbeRWgbNEkqO",
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    );
}

#[test]
fn client_and_server_agree_only_on_the_right_password() {
    for hash in [Hash::Sha1, Hash::Sha256, Hash::Sha512] {
        let rules = Rules { hash, ..SHA256 };
        let stored = Stored::of(&Salted::derive(rules, "p", b"salt", 4000).unwrap());
        for (password, right) in [("p", true), ("q", false)] {
            let mut client = ScramClient::new(rules, "a,b=c", password, "abc");
            let first = client.first().into_bytes();
            assert_eq!(ScramServer::user(&first).unwrap(), "a,b=c");
            let server = ScramServer::new(&first, "def", stored.clone()).unwrap();
            let last = client.answer(server.first().as_bytes(), &mut None).unwrap();
            match server.finish(last.as_bytes()) {
                Ok(verifier) => {
                    assert!(right);
                    client.verify(verifier.as_bytes()).unwrap();
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
        let mut client = ScramClient::new(SHA256, "u", "p", "abc");
        client.answer(first.as_bytes(), &mut None).unwrap_err()
    };
    let min = SHA256.min_iterations;
    let most = u64::from(MAX_ITERATIONS);
    for count in [0, 1, 3999, most + 1, 4_000_000_000, u64::MAX] {
        assert_eq!(
            answer(&format!("r=abcd,s=AAAA,i={count}")),
            ScramError::Iterations { count, min }
        );
    }
    for (first, name) in [
        ("r=abcd,s=AAAA,i=x", 'i'),
        ("r=abcd,s=!,i=4000", 's'),
        ("r=abcd,i=4000", 's'),
        ("m=x,r=abcd,s=AAAA,i=4000", 'r'),
        ("nonsense", 'r'),
        ("", 'r'),
    ] {
        let error = answer(first);
        assert!(
            matches!(error, ScramError::Malformed { attribute, .. } if attribute == name),
            "{first}: {error:?}"
        );
    }
    assert_eq!(answer("r=abc,s=AAAA,i=4000"), ScramError::WrongNonce);
    assert_eq!(answer("r=xyzabc,s=AAAA,i=4000"), ScramError::WrongNonce);
}

#[test]
fn of_a_servers_text_an_error_has_little_and_escaped() {
    let long = format!("\u{1b}[2J\n{}", "é".repeat(1 << 20));
    let shown = format!(r"\u{{1b}}[2J\n{}", "é".repeat(195));
    let mut client = ScramClient::new(SHA256, "u", "p", "abc");
    let refused = client.verify(format!("e={long}").as_bytes());
    assert_eq!(refused, Err(ScramError::Refused(shown.clone())));
    let first = format!("r=abcd,s=AAAA,i={long}");
    let error = client.answer(first.as_bytes(), &mut None).unwrap_err();
    let problem = format!("attribute i: {shown}");
    let attribute = 'i';
    assert_eq!(error, ScramError::Malformed { attribute, problem });
}

#[test]
fn a_password_that_needs_saslprep_is_refused_if_rules_say_so() {
    let ascii_only = Rules {
        ascii_only: true,
        ..SHA256
    };
    let derive = |rules, password| Salted::derive(rules, password, b"salt", 1).map(drop);
    assert_eq!(derive(ascii_only, "p\u{e9}"), Err(ScramError::Password));
    assert_eq!(derive(ascii_only, "p ~"), Ok(()));
    assert_eq!(derive(SHA256, "p\u{e9}"), Ok(()));
}

#[test]
fn what_is_kept_of_a_login_is_used_for_the_same_only() {
    let answer = |hash, password, first: &str, kept: &mut Option<Salted>| {
        let rules = Rules { hash, ..SHA256 };
        let mut client = ScramClient::new(rules, "u", password, "abc");
        client.answer(first.as_bytes(), kept).unwrap()
    };
    let mut kept = None;
    for (hash, password, first) in [
        (Hash::Sha256, "p", "r=abcd,s=AAAA,i=4000"),
        (Hash::Sha256, "p", "r=abce,s=AAAA,i=4000"),
        (Hash::Sha256, "q", "r=abcd,s=AAAA,i=4000"),
        (Hash::Sha256, "q", "r=abcd,s=BBBB,i=4000"),
        (Hash::Sha256, "q", "r=abcd,s=BBBB,i=4001"),
        (Hash::Sha512, "q", "r=abcd,s=BBBB,i=4001"),
    ] {
        let expected = answer(hash, password, first, &mut None);
        assert_eq!(answer(hash, password, first, &mut kept), expected);
    }
}

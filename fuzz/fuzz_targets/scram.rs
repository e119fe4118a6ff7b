//! SCRAM of both databases: no server messages after the right nonce, one per line, make a client
//! accept the server; no client messages make a server accept the client.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use reattempt_testbed::kv::sasl::{Mechanism, ScramClient, ScramServer};
use reattempt_testbed::mongodb::scram::{ClientFirst, SaltedPassword, ServerExchange, Stored};

const NONCE: &str = "fyko+d2lbbFgONRv9qkxdawL";
const SALT: &[u8] = b"salt";
/// The server chooses the cost of PBKDF2, within bounds: inputs with more rounds than this are
/// skipped.
const ROUNDS: u32 = 5_000;

static KEPT: LazyLock<SaltedPassword> =
    LazyLock::new(|| SaltedPassword::derive("pencil", SALT, 4096).expect("plain ASCII"));
static STORED: LazyLock<Stored> =
    LazyLock::new(|| Stored::derive("pencil", SALT, 4096).expect("plain ASCII"));

/// True if some part that a client could read as a number of rounds within the bounds is large.
fn is_slow(message: &[u8]) -> bool {
    let rounds = |part: &[u8]| {
        let digits = part.strip_prefix(b"i=")?;
        std::str::from_utf8(digits).ok()?.parse::<u32>().ok()
    };
    let mut parts = message.split(|byte| *byte == b',');
    parts.any(|part| rounds(part).is_some_and(|rounds| rounds > ROUNDS && rounds <= 100_000))
}

fuzz_target!(|data: &[u8]| {
    let mut lines = data.splitn(3, |byte| *byte == b'\n');
    let (Some(first), last) = (lines.next(), lines.next().unwrap_or_default()) else {
        return;
    };
    let whole = lines.next().is_some();
    // Most inputs would fail at the nonce: it is inserted, unless the input has a third line.
    let server_first = if whole {
        first.to_vec()
    } else {
        [b"r=", NONCE.as_bytes(), first].concat()
    };
    if is_slow(&server_first) {
        return;
    }
    for mechanism in Mechanism::BY_STRENGTH {
        let Ok(mut client) = ScramClient::new(mechanism, "us=er,", "pencil", NONCE) else {
            assert_eq!(mechanism, Mechanism::Plain);
            continue;
        };
        let _ = client.first();
        let answered = client.answer(&server_first);
        if let Ok(answer) = &answered {
            assert!(answer.starts_with(&format!("c=biws,r={NONCE}")));
        }
        assert!(client.verify(last).is_err(), "a server logged itself in");
        let Ok(mut server) = ScramServer::new(mechanism, ("u", "pencil"), SALT, 1, "tail") else {
            continue;
        };
        let _ = server.first(first);
        assert!(server.finish(last).is_err(), "a client logged itself in");
    }

    let client = ClientFirst::new("us=er,", NONCE);
    let _ = client.message();
    if let Ok(client) = client.server_first(&server_first, "pencil", Some(KEPT.clone())) {
        assert!(client.message().starts_with(&format!("c=biws,r={NONCE}")));
        assert!(
            client.server_final(last).is_err(),
            "a server logged itself in"
        );
    }
    let _ = ServerExchange::user(first);
    if let Ok(server) = ServerExchange::begin(first, "tail", STORED.clone()) {
        assert!(server.finish(last).is_err(), "a client logged itself in");
    }
});

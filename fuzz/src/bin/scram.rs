//! SCRAM of both databases: no server messages after the right nonce, one per line, make a client
//! accept the server; no client messages make a server accept the client.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use reattempt_clients::kv::sasl::Mechanism;
use reattempt_clients::mongodb::scram::RULES;
use reattempt_clients::scram::{Rules, Salted, ScramClient, ScramServer, Stored};

const NONCE: &str = "fyko+d2lbbFgONRv9qkxdawL";
const SALT: &[u8] = b"salt";
/// The server chooses the cost of PBKDF2, within bounds: inputs with more rounds than this are
/// skipped.
const ROUNDS: u32 = 5_000;

static USERS: LazyLock<Vec<(Rules, Stored, Salted)>> = LazyLock::new(|| {
    let kv = Mechanism::BY_STRENGTH
        .into_iter()
        .filter_map(Mechanism::scram);
    kv.chain([RULES])
        .map(|rules| {
            let kept = Salted::derive(rules, "pencil", SALT, 4096).expect("plain ASCII");
            (rules, Stored::of(&kept), kept)
        })
        .collect()
});

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
    for (rules, stored, kept) in &*USERS {
        let mut client = ScramClient::new(*rules, "us=er,", "pencil", NONCE);
        let _ = client.first();
        if let Ok(answer) = client.answer(&server_first, &mut Some(kept.clone())) {
            assert!(answer.starts_with(&format!("c=biws,r={NONCE}")));
        }
        assert!(client.verify(last).is_err(), "a server logged itself in");
        let _ = ScramServer::user(first);
        if let Ok(server) = ScramServer::new(first, "tail", stored.clone()) {
            let _ = server.first();
            assert!(server.finish(last).is_err(), "a client logged itself in");
        }
    }
});

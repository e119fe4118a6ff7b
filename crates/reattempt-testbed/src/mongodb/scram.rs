//! SCRAM-SHA-256 (RFC 5802, RFC 7677), both sides, without channel binding.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

#[cfg(test)]
mod tests;

/// The fewest rounds a client takes (RFC 7677, section 4).
pub const MIN_ITERATIONS: u32 = 4096;

/// The most rounds a client takes, so that a server cannot keep it computing: 100,000.
pub const MAX_ITERATIONS: u32 = 100_000;

/// Why an exchange failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScramError {
    /// A message without the form of RFC 5802.
    #[error("SCRAM message: {0}")]
    Malformed(String),
    /// The server's nonce does not begin with the client's.
    #[error("SCRAM nonce of the server does not continue the nonce of the client")]
    Nonce,
    /// Rounds below or above the bounds.
    #[error("SCRAM iterations {0}: must be between {MIN_ITERATIONS} and {MAX_ITERATIONS}")]
    Iterations(u32),
    /// The proof did not hold: wrong password, or a server that does not know it.
    #[error("SCRAM proof does not hold")]
    Proof,
    /// A password that would need SASLprep.
    #[error("SCRAM password: only printable ASCII, other passwords need SASLprep")]
    Password,
}

fn malformed(what: impl Into<String>) -> ScramError {
    ScramError::Malformed(what.into())
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of every length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

fn hash(data: &[u8]) -> [u8; 32] {
    Sha256::digest(data).into()
}

fn xor(a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
    std::array::from_fn(|i| a[i] ^ b[i])
}

fn attributes(message: &[u8]) -> Result<Vec<(char, &str)>, ScramError> {
    let text = std::str::from_utf8(message).map_err(|_| malformed("not UTF-8"))?;
    text.split(',')
        .map(|part| {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| malformed(format!("{part:?} is no attribute")))?;
            let mut letters = name.chars();
            match (letters.next(), letters.next()) {
                (Some(letter), None) => Ok((letter, value)),
                _ => Err(malformed(format!("{name:?} is no attribute name"))),
            }
        })
        .collect()
}

fn attribute<'a>(
    found: &[(char, &'a str)],
    index: usize,
    name: char,
) -> Result<&'a str, ScramError> {
    match found.get(index) {
        Some((letter, value)) if *letter == name => Ok(value),
        _ => Err(malformed(format!(
            "attribute {name} is missing at place {index}"
        ))),
    }
}

fn decode(value: &str, name: char) -> Result<Vec<u8>, ScramError> {
    STANDARD
        .decode(value)
        .map_err(|error| malformed(format!("attribute {name}: {error}")))
}

/// A password after PBKDF2: slow to make, so worth keeping.
#[derive(Clone, PartialEq, Eq)]
pub struct SaltedPassword {
    password: String,
    bytes: [u8; 32],
    salt: Vec<u8>,
    iterations: u32,
}

impl std::fmt::Debug for SaltedPassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SaltedPassword")
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

impl SaltedPassword {
    /// Derives it; takes as long as `iterations` say.
    ///
    /// # Errors
    ///
    /// [`ScramError::Password`] for anything but printable ASCII, which SASLprep would change.
    pub fn derive(password: &str, salt: &[u8], iterations: u32) -> Result<Self, ScramError> {
        if !password.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
            return Err(ScramError::Password);
        }
        let mut bytes = [0; 32];
        pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), salt, iterations, &mut bytes);
        Ok(Self {
            password: password.to_owned(),
            bytes,
            salt: salt.to_vec(),
            iterations,
        })
    }

    fn client_key(&self) -> [u8; 32] {
        hmac(&self.bytes, &[b"Client Key"])
    }

    fn server_key(&self) -> [u8; 32] {
        hmac(&self.bytes, &[b"Server Key"])
    }
}

/// Without users, keys and proofs: a password can be guessed by a proof.
macro_rules! debug_without_fields {
    ($($name:ident),*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}

debug_without_fields!(ClientFirst, ClientFinal, Stored, ServerExchange);

/// The client's side, before the server spoke.
#[derive(Clone)]
pub struct ClientFirst {
    nonce: String,
    bare: String,
}

impl ClientFirst {
    /// Begins for `user` with a nonce of printable ASCII without commas.
    #[must_use]
    pub fn new(user: &str, nonce: &str) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Self {
            nonce: nonce.to_owned(),
            bare: format!("n={user},r={nonce}"),
        }
    }

    /// What to send in `saslStart`.
    #[must_use]
    pub fn message(&self) -> String {
        format!("n,,{}", self.bare)
    }

    /// Answers the server's first message; takes as long as the server's rounds say. `kept` may
    /// hold what an earlier exchange derived; it is used when password, salt and rounds are the
    /// same.
    pub fn server_first(
        self,
        server_first: &[u8],
        password: &str,
        kept: Option<SaltedPassword>,
    ) -> Result<ClientFinal, ScramError> {
        let found = attributes(server_first)?;
        let nonce = attribute(&found, 0, 'r')?;
        let salt = decode(attribute(&found, 1, 's')?, 's')?;
        let iterations = attribute(&found, 2, 'i')?;
        let iterations: u32 = iterations
            .parse()
            .map_err(|_| malformed(format!("attribute i: {iterations:?}")))?;
        if nonce.len() <= self.nonce.len() || !nonce.starts_with(&self.nonce) {
            return Err(ScramError::Nonce);
        }
        if !(MIN_ITERATIONS..=MAX_ITERATIONS).contains(&iterations) {
            return Err(ScramError::Iterations(iterations));
        }
        let same = |kept: &SaltedPassword| {
            kept.password == password && kept.salt == salt && kept.iterations == iterations
        };
        let salted = match kept {
            Some(kept) if same(&kept) => kept,
            _ => SaltedPassword::derive(password, &salt, iterations)?,
        };
        let without_proof = format!("c=biws,r={nonce}");
        let server_first = String::from_utf8_lossy(server_first);
        let auth_message = format!("{},{server_first},{without_proof}", self.bare);
        let client_key = salted.client_key();
        let signature = hmac(&hash(&client_key), &[auth_message.as_bytes()]);
        let proof = STANDARD.encode(xor(client_key, signature));
        Ok(ClientFinal {
            message: format!("{without_proof},p={proof}"),
            auth_message,
            salted,
        })
    }
}

/// The client's side after it gave its proof.
#[derive(Clone)]
pub struct ClientFinal {
    message: String,
    auth_message: String,
    salted: SaltedPassword,
}

impl ClientFinal {
    /// What to send in `saslContinue`.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The derived password, to keep for the next exchange.
    #[must_use]
    pub fn salted(&self) -> &SaltedPassword {
        &self.salted
    }

    /// Checks that the server knows the password too.
    pub fn server_final(&self, server_final: &[u8]) -> Result<(), ScramError> {
        let found = attributes(server_final)?;
        let given = decode(attribute(&found, 0, 'v')?, 'v')?;
        let expected = hmac(&self.salted.server_key(), &[self.auth_message.as_bytes()]);
        if given == expected {
            Ok(())
        } else {
            Err(ScramError::Proof)
        }
    }
}

/// What a server keeps of a user.
#[derive(Clone)]
pub struct Stored {
    salt: Vec<u8>,
    iterations: u32,
    stored_key: [u8; 32],
    server_key: [u8; 32],
}

impl Stored {
    /// Derives the keys of a password.
    pub fn derive(password: &str, salt: &[u8], iterations: u32) -> Result<Self, ScramError> {
        let salted = SaltedPassword::derive(password, salt, iterations)?;
        Ok(Self {
            salt: salt.to_vec(),
            iterations,
            stored_key: hash(&salted.client_key()),
            server_key: salted.server_key(),
        })
    }
}

/// The server's side, between `saslStart` and `saslContinue`.
#[derive(Clone)]
pub struct ServerExchange {
    message: String,
    nonce: String,
    auth_start: String,
    stored: Stored,
}

impl ServerExchange {
    /// The user that a client's first message names.
    pub fn user(client_first: &[u8]) -> Result<String, ScramError> {
        let found = attributes(Self::bare(client_first)?.as_bytes())?;
        Ok(attribute(&found, 0, 'n')?
            .replace("=2C", ",")
            .replace("=3D", "="))
    }

    fn bare(client_first: &[u8]) -> Result<&str, ScramError> {
        std::str::from_utf8(client_first)
            .ok()
            .and_then(|text| text.strip_prefix("n,,"))
            .ok_or_else(|| malformed("the first message must begin with n,,"))
    }

    /// Answers a client's first message, adding `nonce_tail` to its nonce.
    pub fn begin(
        client_first: &[u8],
        nonce_tail: &str,
        stored: Stored,
    ) -> Result<Self, ScramError> {
        let bare = Self::bare(client_first)?;
        let found = attributes(bare.as_bytes())?;
        let nonce = format!("{}{nonce_tail}", attribute(&found, 1, 'r')?);
        let salt = STANDARD.encode(&stored.salt);
        let message = format!("r={nonce},s={salt},i={}", stored.iterations);
        let auth_start = format!("{bare},{message}");
        Ok(Self {
            message,
            nonce,
            auth_start,
            stored,
        })
    }

    /// What to answer `saslStart` with.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Checks the client's proof; the server's own proof is the answer.
    pub fn finish(&self, client_final: &[u8]) -> Result<String, ScramError> {
        let found = attributes(client_final)?;
        if attribute(&found, 0, 'c')? != "biws" {
            return Err(malformed("attribute c: no channel is bound here"));
        }
        if attribute(&found, 1, 'r')? != self.nonce {
            return Err(ScramError::Nonce);
        }
        let proof: [u8; 32] = decode(attribute(&found, 2, 'p')?, 'p')?
            .try_into()
            .map_err(|_| malformed("attribute p: must be 32 bytes"))?;
        let auth_message = format!("{},c=biws,r={}", self.auth_start, self.nonce);
        let signature = hmac(&self.stored.stored_key, &[auth_message.as_bytes()]);
        if hash(&xor(proof, signature)) != self.stored.stored_key {
            return Err(ScramError::Proof);
        }
        let verifier = hmac(&self.stored.server_key, &[auth_message.as_bytes()]);
        Ok(format!("v={}", STANDARD.encode(verifier)))
    }
}

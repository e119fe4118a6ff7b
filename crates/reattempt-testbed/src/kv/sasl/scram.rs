//! SCRAM without channel binding (RFC 5802, RFC 7677), for SHA-1, SHA-256 and SHA-512.
//!
//! Names and passwords are used as they are (no SASLprep), as Couchbase's own clients do.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, Mac as _};
use sha1::{Digest as _, Sha1};
use sha2::{Sha256, Sha512};

use super::Mechanism;

/// Fewest iterations a client takes: ns_server's default. With fewer a listener guesses the
/// password faster.
pub const MIN_ITERATIONS: u32 = 4000;

/// Most iterations a client does for a server that asks for them; more would only burn its time.
pub const MAX_ITERATIONS: u32 = 100_000;

/// Why an exchange of SCRAM messages failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScramError {
    /// A message does not have the parts it must have.
    #[error("the SCRAM message lacks a usable `{attribute}=`")]
    Malformed {
        /// The attribute that is missing or cannot be used.
        attribute: char,
    },
    /// The nonce is not the one of this exchange.
    #[error("the SCRAM nonce is not the one of this exchange")]
    WrongNonce,
    /// The server asks for too few iterations or too many.
    #[error("{count} SCRAM iterations are not between {MIN_ITERATIONS} and {MAX_ITERATIONS}")]
    Iterations {
        /// What the server asked for.
        count: u64,
    },
    /// The other side does not know the password.
    #[error("the SCRAM proof is wrong")]
    WrongProof,
    /// The server says it failed.
    #[error("the server refused: {0}")]
    Refused(String),
    /// PLAIN has no SCRAM exchange.
    #[error("the mechanism is not SCRAM")]
    NotScram,
}

fn hash(mechanism: Mechanism, data: &[u8]) -> Vec<u8> {
    match mechanism {
        Mechanism::ScramSha512 => Sha512::digest(data).to_vec(),
        Mechanism::ScramSha256 => Sha256::digest(data).to_vec(),
        Mechanism::ScramSha1 | Mechanism::Plain => Sha1::digest(data).to_vec(),
    }
}

fn hmac(mechanism: Mechanism, key: &[u8], data: &[u8]) -> Vec<u8> {
    macro_rules! with {
        ($hash:ty) => {{
            let mut mac =
                Hmac::<$hash>::new_from_slice(key).expect("HMAC takes keys of any length");
            mac.update(data);
            mac.finalize().into_bytes().to_vec()
        }};
    }
    match mechanism {
        Mechanism::ScramSha512 => with!(Sha512),
        Mechanism::ScramSha256 => with!(Sha256),
        Mechanism::ScramSha1 | Mechanism::Plain => with!(Sha1),
    }
}

fn salted(mechanism: Mechanism, password: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
    let password = password.as_bytes();
    match mechanism {
        Mechanism::ScramSha512 => {
            pbkdf2::pbkdf2_hmac_array::<Sha512, 64>(password, salt, iterations).to_vec()
        }
        Mechanism::ScramSha256 => {
            pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password, salt, iterations).to_vec()
        }
        Mechanism::ScramSha1 | Mechanism::Plain => {
            pbkdf2::pbkdf2_hmac_array::<Sha1, 20>(password, salt, iterations).to_vec()
        }
    }
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

fn attribute(message: &str, name: char) -> Result<&str, ScramError> {
    message
        .split(',')
        .find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
        .ok_or(ScramError::Malformed { attribute: name })
}

fn decoded(message: &str, name: char) -> Result<Vec<u8>, ScramError> {
    BASE64
        .decode(attribute(message, name)?)
        .map_err(|_| ScramError::Malformed { attribute: name })
}

fn text(message: &[u8]) -> Result<&str, ScramError> {
    std::str::from_utf8(message).map_err(|_| ScramError::Malformed { attribute: 'r' })
}

/// A password after its rounds: slow to derive, so worth keeping for the next exchange.
pub(in crate::kv) struct Salted {
    of: (Mechanism, String, Vec<u8>, u32),
    bytes: Vec<u8>,
}

/// The client's side of one exchange.
pub struct ScramClient {
    mechanism: Mechanism,
    password: String,
    nonce: String,
    first_bare: String,
    server_signature: Vec<u8>,
}

impl fmt::Debug for ScramClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the password.
        f.debug_struct("ScramClient")
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}

impl ScramClient {
    /// An exchange with a nonce of the caller's choice (printable, without comma, never used
    /// before).
    pub fn new(
        mechanism: Mechanism,
        username: &str,
        password: &str,
        nonce: &str,
    ) -> Result<Self, ScramError> {
        if mechanism == Mechanism::Plain {
            return Err(ScramError::NotScram);
        }
        let name = username.replace('=', "=3D").replace(',', "=2C");
        Ok(Self {
            mechanism,
            password: password.to_owned(),
            nonce: nonce.to_owned(),
            first_bare: format!("n={name},r={nonce}"),
            server_signature: Vec::new(),
        })
    }

    /// The first message to the server.
    pub fn first(&self) -> String {
        format!("n,,{}", self.first_bare)
    }

    /// The final message, made from the server's first; takes as long as the server's rounds say.
    pub fn answer(&mut self, server_first: &[u8]) -> Result<String, ScramError> {
        self.answer_with(server_first, &mut None)
    }

    /// As [`answer`](Self::answer), without the rounds if `kept` has them of another exchange; what
    /// was used is kept in it.
    pub(in crate::kv) fn answer_with(
        &mut self,
        server_first: &[u8],
        kept: &mut Option<Salted>,
    ) -> Result<String, ScramError> {
        let server_first = text(server_first)?;
        let nonce = attribute(server_first, 'r')?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(ScramError::WrongNonce);
        }
        let salt = decoded(server_first, 's')?;
        let count: u64 = attribute(server_first, 'i')?
            .parse()
            .map_err(|_| ScramError::Malformed { attribute: 'i' })?;
        let iterations = u32::try_from(count)
            .ok()
            .filter(|count| (MIN_ITERATIONS..=MAX_ITERATIONS).contains(count))
            .ok_or(ScramError::Iterations { count })?;
        let of = (self.mechanism, self.password.clone(), salt, iterations);
        let salted = match kept.take() {
            Some(kept) if kept.of == of => kept,
            _ => Salted {
                bytes: salted(self.mechanism, &self.password, &of.2, iterations),
                of,
            },
        };
        let salted = &kept.insert(salted).bytes;
        let client_key = hmac(self.mechanism, salted, b"Client Key");
        let stored_key = hash(self.mechanism, &client_key);
        let server_key = hmac(self.mechanism, salted, b"Server Key");
        let without_proof = format!("c=biws,r={nonce}");
        let auth = format!("{},{server_first},{without_proof}", self.first_bare);
        let signature = hmac(self.mechanism, &stored_key, auth.as_bytes());
        self.server_signature = hmac(self.mechanism, &server_key, auth.as_bytes());
        Ok(format!(
            "{without_proof},p={}",
            BASE64.encode(xor(&client_key, &signature))
        ))
    }

    /// Checks that the server knows the password too.
    pub fn verify(&self, server_final: &[u8]) -> Result<(), ScramError> {
        let server_final = text(server_final)?;
        if let Ok(error) = attribute(server_final, 'e') {
            return Err(ScramError::Refused(error.to_owned()));
        }
        let signature = decoded(server_final, 'v')?;
        if self.server_signature.is_empty() || signature != self.server_signature {
            return Err(ScramError::WrongProof);
        }
        Ok(())
    }
}

/// The server's side of one exchange, for one known user.
pub struct ScramServer {
    mechanism: Mechanism,
    username: String,
    password: String,
    salt: Vec<u8>,
    iterations: u32,
    nonce: String,
    so_far: String,
    known_user: bool,
}

impl fmt::Debug for ScramServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the user and the password.
        f.debug_struct("ScramServer")
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}

impl ScramServer {
    /// An exchange that lets one user in; `nonce` is the server's part of it.
    pub fn new(
        mechanism: Mechanism,
        (username, password): (&str, &str),
        salt: &[u8],
        iterations: u32,
        nonce: &str,
    ) -> Result<Self, ScramError> {
        if mechanism == Mechanism::Plain {
            return Err(ScramError::NotScram);
        }
        Ok(Self {
            mechanism,
            username: username.to_owned(),
            password: password.to_owned(),
            salt: salt.to_vec(),
            iterations: iterations.max(1),
            nonce: nonce.to_owned(),
            so_far: String::new(),
            known_user: false,
        })
    }

    /// The server's first message, made from the client's first.
    pub fn first(&mut self, client_first: &[u8]) -> Result<String, ScramError> {
        let client_first = text(client_first)?;
        let bare = client_first
            .strip_prefix("n,,")
            .or_else(|| client_first.strip_prefix("y,,"))
            .ok_or(ScramError::Malformed { attribute: 'n' })?;
        let name = attribute(bare, 'n')?
            .replace("=2C", ",")
            .replace("=3D", "=");
        // An unknown name goes on to the end, so that the answer does not tell who exists.
        self.known_user = name == self.username;
        self.nonce = format!("{}{}", attribute(bare, 'r')?, self.nonce);
        let first = format!(
            "r={},s={},i={}",
            self.nonce,
            BASE64.encode(&self.salt),
            self.iterations
        );
        self.so_far = format!("{bare},{first}");
        Ok(first)
    }

    /// The server's final message, when the client's proof is right.
    pub fn finish(&mut self, client_final: &[u8]) -> Result<String, ScramError> {
        let client_final = text(client_final)?;
        if attribute(client_final, 'r')? != self.nonce {
            return Err(ScramError::WrongNonce);
        }
        let proof = decoded(client_final, 'p')?;
        let (without_proof, _) = client_final
            .rsplit_once(",p=")
            .ok_or(ScramError::Malformed { attribute: 'p' })?;
        let salted = salted(self.mechanism, &self.password, &self.salt, self.iterations);
        let stored_key = hash(
            self.mechanism,
            &hmac(self.mechanism, &salted, b"Client Key"),
        );
        let auth = format!("{},{without_proof}", self.so_far);
        let signature = hmac(self.mechanism, &stored_key, auth.as_bytes());
        let client_key = xor(&proof, &signature);
        if !self.known_user
            || proof.len() != signature.len()
            || hash(self.mechanism, &client_key) != stored_key
        {
            return Err(ScramError::WrongProof);
        }
        let server_key = hmac(self.mechanism, &salted, b"Server Key");
        Ok(format!(
            "v={}",
            BASE64.encode(hmac(self.mechanism, &server_key, auth.as_bytes()))
        ))
    }
}

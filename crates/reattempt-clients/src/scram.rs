//! SCRAM without channel binding (RFC 5802, RFC 7677), both sides.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, Mac as _};
use sha1::{Digest as _, Sha1};
use sha2::{Sha256, Sha512};

#[cfg(test)]
mod tests;

/// Most iterations a client does for a server that asks for them; more would only burn its time.
pub const MAX_ITERATIONS: u32 = 100_000;

/// Most characters of the other side's text in an error.
const MOST_SHOWN: usize = 200;

/// The hash of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// What differs between databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The hash.
    pub hash: Hash,
    /// Fewest iterations a client takes. With fewer a listener guesses the password faster.
    pub min_iterations: u32,
    /// Whether passwords that SASLprep could change, all but printable ASCII, are refused. If not,
    /// they are used as they are.
    pub ascii_only: bool,
}

/// Why an exchange of SCRAM messages failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScramError {
    /// A message does not have the parts it must have.
    #[error("the SCRAM message lacks a usable `{attribute}=`")]
    Malformed {
        /// The attribute that is missing or cannot be used.
        attribute: char,
        /// What is wrong with it.
        problem: String,
    },
    /// The nonce is not the one of this exchange.
    #[error("the SCRAM nonce is not the one of this exchange")]
    WrongNonce,
    /// The server asks for too few iterations or too many.
    #[error("{count} SCRAM iterations are not between {min} and {MAX_ITERATIONS}")]
    Iterations {
        /// What the server asked for.
        count: u64,
        /// The fewest of [`Rules`].
        min: u32,
    },
    /// The other side does not know the password.
    #[error("the SCRAM proof is wrong")]
    WrongProof,
    /// The server says it failed. Its first 200 characters, control characters escaped.
    #[error("the server refused: {0}")]
    Refused(String),
    /// A password that would need SASLprep.
    #[error("SCRAM password: only printable ASCII, other passwords need SASLprep")]
    Password,
}

macro_rules! with_hash {
    ($hash:expr, $name:ident => $work:expr) => {
        match $hash {
            Hash::Sha1 => {
                type $name = Sha1;
                $work
            }
            Hash::Sha256 => {
                type $name = Sha256;
                $work
            }
            Hash::Sha512 => {
                type $name = Sha512;
                $work
            }
        }
    };
}

impl Hash {
    fn digest(self, data: &[u8]) -> Vec<u8> {
        with_hash!(self, H => H::digest(data).to_vec())
    }

    fn hmac(self, key: &[u8], data: &[u8]) -> Vec<u8> {
        with_hash!(self, H => {
            let mut mac = Hmac::<H>::new_from_slice(key).expect("HMAC takes keys of any length");
            mac.update(data);
            mac.finalize().into_bytes().to_vec()
        })
    }

    fn pbkdf2(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        with_hash!(self, H => {
            let mut bytes = vec![0; H::output_size()];
            pbkdf2::pbkdf2_hmac::<H>(password, salt, iterations, &mut bytes);
            bytes
        })
    }
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

fn malformed(attribute: char, problem: impl Into<String>) -> ScramError {
    ScramError::Malformed {
        attribute,
        problem: problem.into(),
    }
}

/// The value at a place of a message, where the attribute of this name must be.
fn attribute(message: &str, place: usize, name: char) -> Result<&str, ScramError> {
    let part = message.split(',').nth(place);
    part.and_then(|part| part.strip_prefix(name)?.strip_prefix('='))
        .ok_or_else(|| {
            malformed(
                name,
                format!("attribute {name} is missing at place {place}"),
            )
        })
}

fn decoded(message: &str, place: usize, name: char) -> Result<Vec<u8>, ScramError> {
    BASE64
        .decode(attribute(message, place, name)?)
        .map_err(|error| malformed(name, format!("attribute {name}: {error}")))
}

/// The other side's text, for an error that may stand in a log.
fn printable(text: &str) -> String {
    let mut printable = String::new();
    for char in text.chars().take(MOST_SHOWN) {
        if char.is_control() {
            printable.extend(char.escape_default());
        } else {
            printable.push(char);
        }
    }
    printable
}

fn text(message: &[u8]) -> Result<&str, ScramError> {
    std::str::from_utf8(message).map_err(|_| malformed('r', "not UTF-8"))
}

/// Without users, keys and proofs: a password can be guessed by a proof.
macro_rules! debug_without_fields {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}

debug_without_fields!(Salted, ScramClient, Stored, ScramServer);

/// A password after its rounds: slow to derive, so worth keeping for the next exchange.
#[derive(Clone)]
pub struct Salted {
    of: (Rules, String, Vec<u8>, u32),
    bytes: Vec<u8>,
}

impl Salted {
    /// Derives it; takes as long as `iterations` say.
    ///
    /// # Errors
    ///
    /// [`ScramError::Password`] for a password that the rules refuse.
    pub fn derive(
        rules: Rules,
        password: &str,
        salt: &[u8],
        iterations: u32,
    ) -> Result<Self, ScramError> {
        if rules.ascii_only && !password.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
            return Err(ScramError::Password);
        }
        Ok(Self {
            of: (rules, password.to_owned(), salt.to_vec(), iterations),
            bytes: rules.hash.pbkdf2(password.as_bytes(), salt, iterations),
        })
    }

    fn key(&self, name: &str) -> Vec<u8> {
        self.of.0.hash.hmac(&self.bytes, name.as_bytes())
    }
}

/// The client's side of one exchange.
pub struct ScramClient {
    rules: Rules,
    password: String,
    nonce: String,
    first_bare: String,
    server_signature: Option<Vec<u8>>,
}

impl ScramClient {
    /// An exchange with a nonce of the caller's choice (printable, without comma, never used
    /// before).
    #[must_use]
    pub fn new(rules: Rules, username: &str, password: &str, nonce: &str) -> Self {
        let name = username.replace('=', "=3D").replace(',', "=2C");
        Self {
            rules,
            password: password.to_owned(),
            nonce: nonce.to_owned(),
            first_bare: format!("n={name},r={nonce}"),
            server_signature: None,
        }
    }

    /// The first message to the server.
    #[must_use]
    pub fn first(&self) -> String {
        format!("n,,{}", self.first_bare)
    }

    /// The final message, made from the server's first. Takes as long as the server's rounds say,
    /// unless `kept` has them of another exchange; what was used is kept in it.
    pub fn answer(
        &mut self,
        server_first: &[u8],
        kept: &mut Option<Salted>,
    ) -> Result<String, ScramError> {
        let Rules {
            hash,
            min_iterations: min,
            ..
        } = self.rules;
        let server_first = text(server_first)?;
        let nonce = attribute(server_first, 0, 'r')?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(ScramError::WrongNonce);
        }
        let salt = decoded(server_first, 1, 's')?;
        let count = attribute(server_first, 2, 'i')?;
        let count: u64 = count
            .parse()
            .map_err(|_| malformed('i', format!("attribute i: {}", printable(count))))?;
        let iterations = u32::try_from(count)
            .ok()
            .filter(|count| (min..=MAX_ITERATIONS).contains(count))
            .ok_or(ScramError::Iterations { count, min })?;
        let of = (self.rules, self.password.clone(), salt, iterations);
        let salted = match kept.take().filter(|kept| kept.of == of) {
            Some(kept) => kept,
            None => Salted::derive(self.rules, &self.password, &of.2, iterations)?,
        };
        let salted = kept.insert(salted);
        let client_key = salted.key("Client Key");
        let without_proof = format!("c=biws,r={nonce}");
        let auth = format!("{},{server_first},{without_proof}", self.first_bare);
        let signature = hash.hmac(&hash.digest(&client_key), auth.as_bytes());
        self.server_signature = Some(hash.hmac(&salted.key("Server Key"), auth.as_bytes()));
        Ok(format!(
            "{without_proof},p={}",
            BASE64.encode(xor(&client_key, &signature))
        ))
    }

    /// Checks that the server knows the password too.
    pub fn verify(&self, server_final: &[u8]) -> Result<(), ScramError> {
        let server_final = text(server_final)?;
        if let Ok(error) = attribute(server_final, 0, 'e') {
            return Err(ScramError::Refused(printable(error)));
        }
        let signature = decoded(server_final, 0, 'v')?;
        if self.server_signature != Some(signature) {
            return Err(ScramError::WrongProof);
        }
        Ok(())
    }
}

/// What a server keeps of a user.
#[derive(Clone)]
pub struct Stored {
    hash: Hash,
    salt: Vec<u8>,
    iterations: u32,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl Stored {
    /// The keys of a password.
    #[must_use]
    pub fn of(salted: &Salted) -> Self {
        let (Rules { hash, .. }, _, salt, iterations) = &salted.of;
        Self {
            hash: *hash,
            salt: salt.clone(),
            iterations: *iterations,
            stored_key: hash.digest(&salted.key("Client Key")),
            server_key: salted.key("Server Key"),
        }
    }
}

/// The server's side of one exchange.
pub struct ScramServer {
    stored: Stored,
    header: &'static str,
    nonce: String,
    bare: String,
}

impl ScramServer {
    /// The user that a client's first message names.
    pub fn user(client_first: &[u8]) -> Result<String, ScramError> {
        let (_, bare) = Self::parts(client_first)?;
        Ok(attribute(bare, 0, 'n')?
            .replace("=2C", ",")
            .replace("=3D", "="))
    }

    /// The header, which says that no channel is bound, and what follows it.
    fn parts(client_first: &[u8]) -> Result<(&'static str, &str), ScramError> {
        let first = text(client_first)?;
        ["n,,", "y,,"]
            .into_iter()
            .find_map(|header| Some((header, first.strip_prefix(header)?)))
            .ok_or_else(|| malformed('n', "the first message must begin with n,,"))
    }

    /// Begins with a client's first message, adding `nonce_tail` to its nonce.
    pub fn new(client_first: &[u8], nonce_tail: &str, stored: Stored) -> Result<Self, ScramError> {
        let (header, bare) = Self::parts(client_first)?;
        Ok(Self {
            stored,
            header,
            nonce: format!("{}{nonce_tail}", attribute(bare, 1, 'r')?),
            bare: bare.to_owned(),
        })
    }

    /// The server's first message.
    #[must_use]
    pub fn first(&self) -> String {
        let salt = BASE64.encode(&self.stored.salt);
        format!("r={},s={salt},i={}", self.nonce, self.stored.iterations)
    }

    /// The server's final message, when the client's proof is right.
    pub fn finish(&self, client_final: &[u8]) -> Result<String, ScramError> {
        let client_final = text(client_final)?;
        let header = BASE64.encode(self.header);
        if attribute(client_final, 0, 'c')? != header {
            return Err(malformed('c', "attribute c: no channel is bound here"));
        }
        if attribute(client_final, 1, 'r')? != self.nonce {
            return Err(ScramError::WrongNonce);
        }
        let proof = decoded(client_final, 2, 'p')?;
        let Stored {
            hash,
            stored_key,
            server_key,
            ..
        } = &self.stored;
        let auth = format!("{},{},c={header},r={}", self.bare, self.first(), self.nonce);
        let signature = hash.hmac(stored_key, auth.as_bytes());
        if proof.len() != signature.len() || hash.digest(&xor(&proof, &signature)) != *stored_key {
            return Err(ScramError::WrongProof);
        }
        Ok(format!(
            "v={}",
            BASE64.encode(hash.hmac(server_key, auth.as_bytes()))
        ))
    }
}

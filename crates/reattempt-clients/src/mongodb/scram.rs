//! SCRAM-SHA-256 as MongoDB does it.

use crate::scram::{Hash, MAX_ITERATIONS, Rules, ScramError};

/// The fewest rounds are those of RFC 7677, section 4.
pub const RULES: Rules = Rules {
    hash: Hash::Sha256,
    min_iterations: 4096,
    ascii_only: true,
};

/// The message of a failed login.
#[must_use]
pub fn message(error: &ScramError) -> String {
    match error {
        ScramError::Malformed { problem, .. } => format!("SCRAM message: {problem}"),
        ScramError::WrongNonce => {
            "SCRAM nonce of the server does not continue the nonce of the client".to_owned()
        }
        ScramError::Iterations { count, min } => {
            format!("SCRAM iterations {count}: must be between {min} and {MAX_ITERATIONS}")
        }
        ScramError::WrongProof => "SCRAM proof does not hold".to_owned(),
        ScramError::Refused(_) | ScramError::Password => error.to_string(),
    }
}

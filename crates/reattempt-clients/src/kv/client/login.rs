//! The login during bootstrap: PLAIN, or the two steps of SCRAM.

use bytes::Bytes;
use reattempt_couchbase::kv::{Opcode, Status};

use crate::kv::frame::Frame;
use crate::kv::sasl::{Mechanism, plain_message};
use crate::scram::{ScramClient, ScramError};

use super::bootstrap::Setup;
use super::error::ClientError;

impl Setup<'_> {
    pub(super) fn may_be_plain(&self) -> bool {
        let here = || self.stream.peer_addr().map(|peer| peer.ip().is_loopback());
        let allowed = self.options.plain_on_loopback && !self.options.was_offered_scram();
        allowed && here().unwrap_or(false)
    }

    /// Authenticates to the node; with SCRAM the node is authenticated too.
    pub(super) async fn login(
        &mut self,
        mechanism: Mechanism,
        username: &str,
        password: &str,
    ) -> Result<(), ClientError> {
        let name = Bytes::from_static(mechanism.name().as_bytes());
        let Some(rules) = mechanism.scram() else {
            let message = plain_message(username, password).into();
            let answer = self.exchange(Opcode::SASL_AUTH, name, message).await?;
            return self.expect(Status::SUCCESS, &answer);
        };
        let nonce = format!(
            "{:016x}{:016x}",
            rand::random::<u64>(),
            rand::random::<u64>()
        );
        let mut scram = ScramClient::new(rules, username, password, &nonce);
        let first = scram.first().into();
        let answer = self
            .exchange(Opcode::SASL_AUTH, name.clone(), first)
            .await?;
        self.expect(Status::AUTH_CONTINUE, &answer)?;
        // Thousands of rounds, or as many as the node wants up to the bound.
        let answered = self.options.salted.run(move |kept| {
            let last = scram.answer(&answer.value, kept)?;
            Ok((scram, last))
        });
        let (scram, last) = answered
            .await
            .map_err(|error: ScramError| self.auth(error))?;
        let answer = self.exchange(Opcode::SASL_STEP, name, last.into()).await?;
        self.expect(Status::SUCCESS, &answer)?;
        scram
            .verify(&answer.value)
            .map_err(|error| self.auth(error))
    }

    /// Only a few statuses are final: those about the name and the password, and those of a node
    /// that has no such login. A success before the last step is one of them: the node did not
    /// prove that it knows the password.
    fn expect(&self, expected: Status, answer: &Frame) -> Result<(), ClientError> {
        match answer.status() {
            status if status == expected => Ok(()),
            Status::SUCCESS
            | Status::AUTH_CONTINUE
            | Status::AUTH_ERROR
            | Status::EACCESS
            | Status::EINVAL
            | Status::UNKNOWN_COMMAND
            | Status::NOT_SUPPORTED => Err(self.auth(format!(
                "status {:#04x} to {}",
                answer.specific, answer.opcode
            ))),
            _ => Err(self.refused(answer)),
        }
    }

    pub(super) fn auth(&self, problem: impl ToString) -> ClientError {
        ClientError::Auth {
            address: self.address.clone(),
            problem: problem.to_string().into(),
        }
    }
}

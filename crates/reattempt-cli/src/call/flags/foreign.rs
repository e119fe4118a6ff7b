//! Flags that mean nothing to the protocol of the call.

use super::Arguments;
use super::target::Protocol::{self, Grpc, Http, Kv, Mongodb};
use crate::call::document::Fault;

/// The flags of some protocols only, whether each is set, and its protocols.
type Flags = [(&'static str, bool, &'static [Protocol]); 23];

impl Arguments {
    /// Refuses a flag that the call would ignore: its user expects it to do something.
    pub(super) fn check_flags(&self, protocol: Protocol) -> Result<(), Fault> {
        for (flag, is_set, of) in self.of_some_protocols() {
            if is_set && !of.contains(&protocol) {
                let of: Vec<_> = of.iter().map(|protocol| protocol.name()).collect();
                let (of, is) = (of.join(" and "), protocol.name());
                let what = format!("is a flag of {of}, and this is a call of {is}");
                return Err(Fault::new(flag, what));
            }
        }
        if protocol == Http && self.http.service.is_none() {
            for (flag, is_set) in [
                ("--strategy", self.strategy.is_some()),
                ("--current-server-codes", self.current_server_codes),
            ] {
                if is_set {
                    return Err(Fault::new(flag, "needs --service in a call of http"));
                }
            }
        }
        Ok(())
    }

    fn of_some_protocols(&self) -> Flags {
        let Self {
            grpc,
            http,
            kv,
            mongodb,
            ..
        } = self;
        [
            ("--method", self.method.is_some(), &[Grpc, Http]),
            ("--payload", !self.payload.is_empty(), &[Grpc, Http, Kv]),
            ("--header", !self.header.is_empty(), &[Grpc, Http]),
            ("--config", self.config.is_some(), &[Grpc, Http]),
            ("--idempotent", self.idempotent, &[Http, Kv]),
            ("--op", self.op.is_some(), &[Kv, Mongodb]),
            ("--strategy", self.strategy.is_some(), &[Http, Kv]),
            (
                "--current-server-codes",
                self.current_server_codes,
                &[Http, Kv],
            ),
            ("--kind", grpc.kind.is_some(), &[Grpc]),
            ("--wait-for-ready", grpc.wait_for_ready, &[Grpc]),
            ("--path", http.path.is_some(), &[Http]),
            ("--http-version", http.http_version.is_some(), &[Http]),
            ("--service", http.service.is_some(), &[Http]),
            ("--readonly", http.readonly, &[Http]),
            ("--key", kv.key.is_some(), &[Kv]),
            ("--bucket", kv.bucket.is_some(), &[Kv]),
            ("--username", kv.username.is_some(), &[Kv]),
            ("--password", kv.password.is_some(), &[Kv]),
            ("--memcached", kv.memcached, &[Kv]),
            ("--database", mongodb.database.is_some(), &[Mongodb]),
            ("--collection", mongodb.collection.is_some(), &[Mongodb]),
            ("--options", mongodb.options.is_some(), &[Mongodb]),
            (
                "--retryable-reads",
                mongodb.retryable_reads.is_some(),
                &[Mongodb],
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        call: Arguments,
    }

    /// A flag that is left out here is ignored where it means nothing.
    #[test]
    fn every_flag_is_of_all_protocols_or_of_some() {
        let of_all = [
            "target", "json", "protocol", "timeout", "repeat", "parallel", "rate", "duration",
            "seed", "give-up", "ca", "insecure",
        ];
        let of_all = of_all.map(|name| format!("--{name}"));
        let arguments = Program::parse_from(["call", "h:1"]).call;
        let of_some = arguments.of_some_protocols();
        let of_some = of_some.iter().map(|(flag, ..)| (*flag).to_owned());
        let known: BTreeSet<_> = of_all.into_iter().chain(of_some).collect();
        let command = Program::command();
        let flags = command.get_arguments().filter_map(|flag| flag.get_long());
        let flags: BTreeSet<_> = flags.map(|name| format!("--{name}")).collect();
        assert_eq!(known, flags);
    }
}

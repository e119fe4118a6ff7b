//! A meter that panics.

use super::*;

#[derive(Debug)]
struct Panics;

impl GrpcMeter for Panics {
    fn add(&self, _: Instrument, _: u64, _: &Labels<'_>) {}

    fn record(&self, _: Instrument, _: f64, _: &Labels<'_>) {
        panic!("the meter");
    }
}

/// The second panic, in the drop of the call, would abort the process.
#[tokio::test(start_paused = true)]
async fn a_meter_that_panics_ends_only_its_call() {
    let stats = GrpcStats::new(Panics, TARGET);
    let measured = Measured {
        stats,
        memory: Memory::default(),
    };
    let server = Server::new([Status(Code::Ok)]);
    let config = many_retries(3);
    let call = tokio::spawn(async move { measured.call(&config, &server).await });
    assert!(call.await.unwrap_err().is_panic());
}

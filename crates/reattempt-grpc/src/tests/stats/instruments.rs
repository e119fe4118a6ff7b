//! Names, units and buckets of instruments, and pairs of meters.

use super::*;
use crate::stats::InstrumentKind;

/// R72: as specified by A66 and A96.
#[test]
fn instruments_have_the_specified_names_units_and_buckets() {
    let all = Instrument::ALL.iter();
    let table: Vec<_> = all
        .map(|i| (i.name(), i.unit(), i.boundaries().len()))
        .collect();
    assert_eq!(
        table,
        [
            ("grpc.client.attempt.started", "{attempt}", 0),
            ("grpc.client.attempt.duration", "s", 41),
            (
                "grpc.client.attempt.sent_total_compressed_message_size",
                "By",
                14
            ),
            (
                "grpc.client.attempt.rcvd_total_compressed_message_size",
                "By",
                14
            ),
            ("grpc.client.call.duration", "s", 41),
            ("grpc.client.call.retries", "{retry}", 5),
            (
                "grpc.client.call.transparent_retries",
                "{transparent_retry}",
                6
            ),
            ("grpc.client.call.hedges", "{hedge}", 5),
            ("grpc.client.call.retry_delay", "s", 41),
        ]
    );
    for instrument in Instrument::ALL {
        let boundaries = instrument.boundaries();
        assert!(boundaries.windows(2).all(|pair| pair[0] < pair[1]));
        let counts_up = instrument.kind() == InstrumentKind::Counter;
        assert_eq!(boundaries.is_empty(), counts_up);
        assert!(!instrument.description().is_empty());
    }
    let ends = |i: Instrument| {
        (
            i.boundaries().first().copied(),
            i.boundaries().last().copied(),
        )
    };
    assert_eq!(ends(Instrument::CallDuration), (Some(0.0), Some(100.0)));
    let four_gib = f64::from(u32::MAX) + 1.0;
    assert_eq!(ends(Instrument::AttemptSent), (Some(0.0), Some(four_gib)));
    let ten = ends(Instrument::CallTransparentRetries);
    assert_eq!(ten, (Some(1.0), Some(10.0)));
}

#[tokio::test(start_paused = true)]
async fn a_pair_of_meters_feeds_both_and_no_meter_feeds_none() {
    let (one, two) = (Memory::default(), Memory::default());
    let pair = (Arc::new(one.clone()), (two.clone(), ()));
    let measured = Measured {
        stats: GrpcStats::new(pair, TARGET),
        memory: one,
    };
    let server = Server::new([Status(Code::Ok)]);
    measured.call(&many_retries(2), &server).await;
    let recorded = measured.memory.0.lock().unwrap();
    assert_eq!(recorded.len(), 5);
    assert_eq!(*recorded, *two.0.lock().unwrap());
}

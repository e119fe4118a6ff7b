use bytes::Buf as _;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::yield_now;

use reattempt_couchbase::kv::Opcode;

use super::*;
use crate::kv::client::bootstrap::Agreed;
use crate::kv::client::bootstrap::{READ_BUFFER, Setup};
use crate::kv::client::error::ClientError;
use crate::kv::client::options::ClientOptions;
use crate::kv::client::request::KvRequest;
use crate::kv::client::state::Outcome;
use crate::kv::frame::Frame;

/// A socket, and its peer.
async fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connected = TcpStream::connect(address).await.unwrap();
    (connected, listener.accept().await.unwrap().0)
}

/// They share the buffer, which is then replaced and not reused.
#[tokio::test]
async fn values_that_are_alive_make_later_reads_no_smaller() {
    let (stream, _peer) = sockets().await;
    let options = ClientOptions::memcached();
    let mut input = Setup::new("h:1".into(), stream, &options).input;
    let answer = |length| Frame {
        value: vec![b'v'; length].into(),
        ..Frame::new(Magic::Response, Opcode::GET, 1)
    };
    let mut burst = BytesMut::new();
    for _ in 0..1_000 {
        answer(76).encode(&mut burst).unwrap();
    }
    let small = burst.len();
    answer(1024 * 1024).encode(&mut burst).unwrap();
    let (mut wire, mut alive, mut reads) = (&burst[..], Vec::new(), 0);
    while wire.read_buf(&mut input).await.unwrap() > 0 {
        reads += 1;
        while let Some(frame) = Frame::decode(&mut input, options.max_body).unwrap() {
            alive.push(frame.value);
        }
    }
    assert_eq!((alive.len(), alive[1_000].len()), (1_001, 1024 * 1024));
    // The long one doubles the buffer a few times.
    let most = 2 * small / READ_BUFFER + 10;
    assert!(reads <= most, "{reads} reads, at most {most}");
}

#[test]
fn a_small_value_keeps_no_large_buffer_in_memory() {
    let shared = Shared::new("h:1".into(), 1, Agreed::default(), None);
    let mut input = BytesMut::with_capacity(READ_BUFFER);
    let mut sent = Vec::new();
    let mut receive = |input: &mut BytesMut, lengths: &[usize]| -> Vec<bytes::Bytes> {
        let mut outcomes = Vec::new();
        for length in lengths {
            let (opaque, outcome) = shared.enqueue(&KvRequest::get("k")).unwrap();
            let answer = Frame {
                extras: vec![0; 4].into(),
                value: vec![b'v'; *length].into(),
                ..Frame::new(Magic::Response, Opcode::GET, opaque)
            };
            answer.encode(input).unwrap();
            outcomes.push(outcome);
        }
        let mut output = BytesMut::new();
        shared.drain(&mut output, usize::MAX, |opaque, _| sent.push(opaque));
        shared.mark_sent(sent.drain(..));
        // The start of the next response.
        input.extend_from_slice(&[0x81, Opcode::GET.0]);
        frames(&shared, input, 2 * 1024 * 1024).unwrap();
        let rest = input.split();
        assert_eq!(&rest[..], [0x81, Opcode::GET.0]);
        let value = |mut outcome: oneshot::Receiver<Outcome>| outcome.try_recv().unwrap().unwrap();
        outcomes
            .into_iter()
            .map(|o| value(o).into_value())
            .collect()
    };
    let values = receive(&mut input, &[1024 * 1024, 100]);
    assert!(
        values[1].is_unique(),
        "it shares the buffer of the long one"
    );
    assert!(input.capacity() <= READ_BUFFER, "{}", input.capacity());
    let values = receive(&mut input, &[100, 100]);
    assert!(
        !values[0].is_unique(),
        "nothing is copied in the usual case"
    );
    assert_eq!(values.iter().map(bytes::Bytes::len).sum::<usize>(), 200);
}

/// Many callers may keep one.
#[test]
fn an_empty_value_keeps_no_buffer_in_memory() {
    let mut input = BytesMut::with_capacity(READ_BUFFER);
    let answer = Frame {
        extras: vec![0; 4].into(),
        ..Frame::new(Magic::Response, Opcode::GET, 1)
    };
    answer.encode(&mut input).unwrap();
    let answer = ReceivedFrame::decode(&mut input, 1024).unwrap().unwrap();
    let value = answer.body.into_value();
    assert!(input.try_reclaim(READ_BUFFER), "{value:?} keeps it");
}

/// A connection would keep the memory of its longest request to its end.
#[test]
fn a_long_request_leaves_no_large_write_buffer() {
    let shared = Shared::new("h:1".into(), 1, Agreed::default(), None);
    let mut output = Output::default();
    for (length, kept) in [(100, true), (4 << 20, false), (100, true)] {
        let request = KvRequest::set("k", vec![0; length], 0, 0);
        let _asked = shared.enqueue(&request).unwrap();
        output.fill(&shared, |_, _| {});
        let filled = output.bytes.len();
        assert!(filled > length);
        output.bytes.advance(filled - 1);
        output.written();
        assert_eq!(output.bytes.len(), 1, "this one is still to be written");
        output.bytes.advance(1);
        output.written();
        // What was written is room again only now.
        output.bytes.reserve(1);
        let room = output.bytes.capacity();
        assert_eq!(room >= 100, kept, "{room} bytes after {length}");
        assert!(room < 2 * SMALL, "{room} bytes after {length}");
    }
}

/// A runtime may end before it first polls the task.
#[tokio::test]
async fn a_task_that_never_ran_closes_its_connection_too() {
    let (stream, _peer) = sockets().await;
    let shared = Arc::new(Shared::new("h:1".into(), 1, Agreed::default(), None));
    let (_, mut outcome) = shared.enqueue(&KvRequest::get("k")).unwrap();
    drop(run(shared.clone(), stream, BytesMut::new(), 1024, LIMIT));
    let error = outcome.try_recv().expect("an end").expect_err("not sent");
    assert!(matches!(error, ClientError::NotSent { .. }), "{error}");
    assert!(shared.enqueue(&KvRequest::get("k")).is_err());
}

const LIMIT: Duration = Duration::from_secs(15);

/// A connection with a peer that answers when the test does.
struct Driven {
    shared: Arc<Shared>,
    peer: TcpStream,
}

impl Driven {
    async fn start() -> Self {
        let (stream, peer) = sockets().await;
        let shared = Arc::new(Shared::new("h:1".into(), 1, Agreed::default(), None));
        let input = BytesMut::new();
        tokio::spawn(run(shared.clone(), stream, input, 1024, LIMIT));
        Self { shared, peer }
    }

    fn ask(&self) -> (u32, oneshot::Receiver<Outcome>) {
        self.shared.enqueue(&KvRequest::get("k")).unwrap()
    }

    /// Callers that give up sooner than the limit, one after another, until the connection is
    /// closed.
    async fn until_closed(&self) -> ClientError {
        let began = Instant::now();
        loop {
            let (opaque, outcome) = self.ask();
            match tokio::time::timeout(Duration::from_secs(4), outcome).await {
                Ok(outcome) => return outcome.unwrap().unwrap_err(),
                Err(_) => self.shared.forget(opaque),
            }
            assert!(began.elapsed() < 3 * LIMIT, "it is not noticed");
        }
    }

    /// Yields and does not wait: the clock would advance while the sockets are busy.
    async fn answer(&mut self, (opaque, mut outcome): (u32, oneshot::Receiver<Outcome>)) {
        while self.shared.in_flight() == 0 {
            yield_now().await;
        }
        let mut bytes = BytesMut::new();
        let frame = Frame::new(Magic::Response, Opcode::GET, opaque);
        frame.encode(&mut bytes).unwrap();
        self.peer.write_all(&bytes).await.unwrap();
        while self.shared.outstanding() > 0 {
            yield_now().await;
        }
        assert!(outcome.try_recv().unwrap().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_peer_went_silent_is_closed() {
    let mut driven = Driven::start().await;
    let asked = driven.ask();
    driven.answer(asked).await;
    let began = Instant::now();
    let error = driven.until_closed().await;
    let ClientError::ClosedInFlight { reason, .. } = &error else {
        panic!("{error}");
    };
    assert!(
        matches!(reason, CloseReason::Silent { limit: LIMIT }),
        "{reason}"
    );
    assert!(driven.shared.is_closed());
    let took = began.elapsed();
    assert!(LIMIT <= took && took <= 2 * LIMIT, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_answers_late_or_has_nothing_to_answer_is_kept() {
    let mut driven = Driven::start().await;
    for _ in 0..5 {
        let asked = driven.ask();
        sleep(LIMIT * 2 / 3).await;
        driven.answer(asked).await;
    }
    sleep(100 * LIMIT).await;
    assert!(!driven.shared.is_closed());
    let asked = driven.ask();
    driven.answer(asked).await;
}

/// The peer is alive, and its buffers are full.
#[tokio::test(start_paused = true)]
async fn half_a_request_that_its_caller_dropped_is_silence_too() {
    let mut driven = Driven::start().await;
    let asked = driven.ask();
    driven.answer(asked).await;
    let large = KvRequest::set("k", vec![0; 64 * 1024 * 1024], 0, 0);
    let (opaque, _outcome) = driven.shared.enqueue(&large).unwrap();
    for _ in 0..10_000 {
        yield_now().await;
    }
    assert_eq!(driven.shared.in_flight(), 1, "a part of it was written");
    driven.shared.forget(opaque);
    sleep(LIMIT * 3 / 2).await;
    driven.until_closed().await;
}

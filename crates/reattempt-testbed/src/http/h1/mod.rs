//! One HTTP/1.1 connection, written by hand for full control of the bytes on the wire.

mod input;

use std::io::{self, Write};
use std::sync::Arc;

use bytes::BytesMut;
use http::{Method, StatusCode, Version, header};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::Instant;

use super::desk::Desk;
use super::ending::{Ending, end};
use super::script::Next;
use super::seen::{Cancelled, SeenRequest};
use super::step::{End, Kind, Step};
use crate::pause::pause;
use input::{Framing, Head, Input, InputError};
pub(crate) use input::{parse_chunk, parse_head};

/// Serves one connection to its end. `read` holds bytes that were already read from it.
pub(crate) async fn serve(
    socket: TcpStream,
    number: u64,
    desk: Arc<Desk<SeenRequest, Step>>,
    read: BytesMut,
) {
    let (read_half, write_half) = socket.into_split();
    let mut input = Input::new(read_half, read);
    let mut output = Output { half: write_half };
    let ending = loop {
        let head = match input.head().await {
            Ok(head) => head,
            Err(error) => break output.refuse(error).await,
        };
        let next = desk.next();
        let keep_alive = keeps_alive(&head);
        let (head_only, framing) = (head.method == Method::HEAD, head.framing);
        let expects_continue = head.headers.contains_key(header::EXPECT);
        let request = desk.log.push(|request| seen(request, number, head));
        let skip_body = matches!(&next, Next::Step(step) if step.at_once);
        let mut body = BytesMut::new();
        let mut outcome = Ok(());
        if !skip_body {
            if expects_continue && framing != Framing::Length(0) {
                output.proceed().await;
            }
            outcome = input.body(framing, desk.options.body, &mut body).await;
        }
        let body_complete = outcome.is_ok() && (!skip_body || framing == Framing::Length(0));
        desk.log.with(request, |seen| {
            seen.body = body.freeze();
            seen.body_complete = body_complete;
            if outcome == Err(InputError::Closed) {
                seen.cancelled = Some(Cancelled::closed());
            }
        });
        if let Err(error) = outcome {
            break output.refuse(error).await;
        }
        let step = desk.step(next, request);
        let done = tokio::select! {
            biased;
            done = output.perform(&step, head_only) => done,
            () = input.closed() => Err(io::ErrorKind::ConnectionReset.into()),
        };
        match done {
            Ok(Some(ending)) => break ending,
            Ok(None) if keep_alive && body_complete => {}
            Ok(None) => break Ending::Close,
            Err(_) => {
                desk.log
                    .with(request, |seen| seen.cancelled = Some(Cancelled::closed()));
                break Ending::Gone;
            }
        }
    };
    end(ending, output.half, input.drain()).await;
}

fn seen(number: usize, connection: u64, head: Head) -> SeenRequest {
    SeenRequest {
        number,
        connection,
        stream: 0,
        version: head.version,
        method: head.method,
        path: head.path,
        headers: head.headers,
        body: bytes::Bytes::new(),
        body_complete: false,
        arrival: Instant::now(),
        cancelled: None,
    }
}

fn keeps_alive(head: &Head) -> bool {
    head.version == Version::HTTP_11
        && !head
            .headers
            .get(header::CONNECTION)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"))
}

struct Output {
    half: OwnedWriteHalf,
}

impl Output {
    /// Responds with what was wrong with the request, if the client is still connected.
    async fn refuse(&mut self, error: InputError) -> Ending {
        let status = match error {
            InputError::Closed => return Ending::Gone,
            InputError::Malformed => 400,
            InputError::TooLarge => 413,
        };
        // A client that has disconnected gets no response.
        let step = Step::status(status).header("connection", "close");
        let _ = self.half.write_all(&head(&step, 0)).await;
        Ending::Close
    }

    async fn proceed(&mut self) {
        // A write error is ignored: reading the body then reports the broken connection.
        let _ = self.half.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
    }

    /// Returns `None` when the response is complete, an error when the client broke the connection.
    async fn perform(&mut self, step: &Step, head_only: bool) -> io::Result<Option<Ending>> {
        pause(step.before_head).await;
        match step.kind {
            Kind::Answer => {}
            Kind::Hang => std::future::pending().await,
            Kind::Close | Kind::RefuseStream | Kind::GoAway => {
                return Ok(Some(Ending::Close));
            }
            Kind::Reset(_) => return Ok(Some(Ending::Abort)),
            Kind::HalfFrame => {
                let head = head(step, step.content().1);
                self.half.write_all(&head[..head.len() / 2]).await?;
                return Ok(Some(Ending::Close));
            }
        }
        let (content, length) = step.content();
        let head = head(step, length);
        let bodiless = head_only || matches!(step.status, 100..=199 | 204 | 304);
        if bodiless {
            self.half.write_all(&head).await?;
        } else if step.split.is_some() {
            self.half.write_all(&head).await?;
            pause(step.before_body).await;
            self.pieces(step).await?;
        } else if step.before_body.is_zero() {
            // One write, so that head and body of a small response share a packet.
            self.half
                .write_all(&[&head[..], &content[..]].concat())
                .await?;
        } else {
            self.half.write_all(&head).await?;
            pause(step.before_body).await;
            self.half.write_all(&content).await?;
        }
        match step.end {
            End::Hang => std::future::pending().await,
            End::Reset(_) => Ok(Some(Ending::Abort)),
            End::Close => Ok(Some(Ending::Close)),
            End::Whole | End::Trailers | End::TrailersOnly => {
                Ok(closes(step).then_some(Ending::Close))
            }
        }
    }

    async fn pieces(&mut self, step: &Step) -> io::Result<()> {
        for (at, piece) in step.pieces().iter().enumerate() {
            if at > 0 {
                pause(step.apart).await;
            }
            if step.is_chunked() {
                let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
                self.half.write_all(&chunk).await?;
            } else {
                self.half.write_all(piece).await?;
            }
        }
        if step.is_chunked() {
            self.half.write_all(b"0\r\n\r\n").await?;
        }
        Ok(())
    }
}

fn closes(step: &Step) -> bool {
    let close = |value: &[u8]| value.eq_ignore_ascii_case(b"close");
    step.headers
        .iter()
        .any(|(name, value)| name == "connection" && close(value))
}

fn head(step: &Step, length: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(128);
    let reason = StatusCode::from_u16(step.status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or_default();
    // Writing to memory cannot fail.
    let _ = write!(head, "HTTP/1.1 {} {reason}\r\n", step.status);
    for (name, value) in &step.headers {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    }
    if !step.frames_itself() && !matches!(step.status, 100..=199 | 204 | 304) {
        if step.is_chunked() {
            head.extend_from_slice(b"transfer-encoding: chunked\r\n");
        } else {
            let _ = write!(head, "content-length: {length}\r\n");
        }
    }
    head.extend_from_slice(b"\r\n");
    head
}

//! The kind `grpc`: a scripted gRPC server.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::rc::Rc;

use reattempt_testbed::grpc::{self, Cancelled, ErrorCode, SeenCall, Server, Step};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::http::{act, header_lists, headers, millis, overview, script};
use super::names;
use crate::expand::Names;
use crate::members::{Members, Result};

pub(crate) struct Grpc {
    address: SocketAddr,
    steps: Value,
    /// Absent before it is started.
    server: RefCell<Option<Rc<grpc::Server>>>,
}

impl Grpc {
    /// With the option `later` nothing listens at the address until the action `start`.
    pub(super) async fn start(mut steps: Value) -> Result<Self> {
        let later = steps.as_object_mut().and_then(|own| own.remove("later"));
        let mut server = None;
        let address = if later == Some(Value::Bool(true)) {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
            free.and_then(|free| free.local_addr())
                .map_err(|error| error.to_string())?
        } else {
            let started = listen(steps.clone(), (Ipv4Addr::LOCALHOST, 0).into()).await?;
            server.insert(started).addr()
        };
        Ok(Self {
            address,
            steps,
            server: RefCell::new(server),
        })
    }

    pub(super) fn names(&self) -> Names {
        names(self.address.to_string(), self.address)
    }

    /// What the server saw since its last start.
    pub(super) fn seen(&self) -> Value {
        let Some(server) = &*self.server.borrow() else {
            return json!({"count": 0});
        };
        let calls = server.seen();
        let seen = calls.iter().map(|call| seen(call, &calls[0]));
        overview(server, seen.collect())
    }

    /// `start` (again from the first step), and what all scripted servers can do.
    pub(super) async fn act(&self, action: &mut Members) -> Result<()> {
        if action.flag("start")? {
            let started = listen(self.steps.clone(), self.address).await?;
            *self.server.borrow_mut() = Some(started);
        }
        let server = self.server.borrow().clone();
        match server {
            Some(server) => act(&server, action).await,
            None => Ok(()),
        }
    }
}

async fn listen(steps: Value, address: SocketAddr) -> Result<Rc<grpc::Server>> {
    let (options, script) = script(steps, "trailers_only", step)?;
    let server = Server::start_with(options.at(address), script).await;
    server.map(Rc::new).map_err(|error| error.to_string())
}

fn step(words: &mut Members) -> Result<Step> {
    let mut step = if let Some(message) = words.take::<String>("ok")? {
        Step::ok(message)
    } else if let Some(messages) = words.take::<Vec<String>>("messages")? {
        Step::messages(messages)
    } else if let Some(code) = words.take::<i32>("trailers_only")? {
        Step::trailers_only(code, words.take::<String>("message")?.unwrap_or_default())
    } else if let Some(code) = words.take::<i32>("headers_then_status")? {
        Step::headers_then_status(code)
    } else if let Some(status) = words.take("http_status")? {
        Step::http_status(status)
    } else if let Some(code) = words.take::<u32>("reset")? {
        Step::reset(code)
    } else {
        let word = words.word(&[
            ("echo", Step::echo as fn() -> Step),
            ("hang", Step::hang),
            ("close", Step::close),
            ("refuse_stream", Step::refuse_stream),
            ("go_away", Step::go_away),
            ("half_frame", Step::half_frame),
        ]);
        word?.ok_or("a step without what it answers")?()
    };
    if let Some(code) = words.take::<i32>("status")? {
        step = step.status(code, words.take::<String>("message")?.unwrap_or_default());
    }
    if let Some(pushback) = words.take::<String>("pushback")? {
        step = step.pushback(pushback);
    }
    if let Some(bytes) = words.take::<String>("data")? {
        step = step.data(bytes);
    }
    for (name, value) in headers(words, "trailers")? {
        step = step.trailer(name, value);
    }
    for (name, value) in headers(words, "initial")? {
        step = step.initial(name, value);
    }
    for (name, delay) in [
        ("after_ms", Step::after as fn(Step, _) -> Step),
        ("between_ms", Step::between),
        ("end_after_ms", Step::end_after),
    ] {
        if let Some(time) = millis(words, name)? {
            step = delay(step, time);
        }
    }
    if let Some(code) = words.take::<u32>("end_reset")? {
        step = step.end_reset(code);
    }
    if let Some(count) = words.take("after_messages")? {
        step = step.after_messages(count);
    }
    for (name, end) in [
        ("end_close", Step::end_close as fn(Step) -> Step),
        ("end_hang", Step::end_hang),
        ("end_without_status", Step::end_without_status),
        ("goodbye", Step::goodbye),
        ("leave_open", Step::leave_open),
        ("at_once", Step::at_once),
    ] {
        if words.flag(name)? {
            step = end(step);
        }
    }
    Ok(step)
}

fn seen(call: &SeenCall, first: &SeenCall) -> Value {
    let since_first = |at: Instant| (at - first.arrival).as_secs_f64() * 1000.0;
    let messages = call
        .messages
        .iter()
        .map(|message| String::from_utf8_lossy(message));
    let reset = |cancelled: Cancelled| cancelled.code.map_or("closed", ErrorCode::name);
    json!({
        "path": call.path,
        "metadata": header_lists(&call.metadata),
        "messages": messages.collect::<Vec<_>>(),
        "previous_attempts": call.previous_attempts(),
        "timeout_ms": call.header("grpc-timeout").map(timeout),
        "connection": call.connection,
        "half_closed": call.half_closed,
        "cancelled": call.cancelled.map(reset),
        "cancelled_ms": call.cancelled.map(|cancelled| since_first(cancelled.at)),
        "at_ms": since_first(call.arrival),
    })
}

/// A valid `grpc-timeout` in milliseconds; any other stays text.
fn timeout(header: &str) -> Value {
    let millis = || {
        let (digits, unit) = header.split_at_checked(header.len().checked_sub(1)?)?;
        let in_millis = match unit {
            "n" => 1e-6,
            "u" => 1e-3,
            "m" => 1.0,
            "S" => 1e3,
            "M" => 6e4,
            "H" => 3.6e6,
            _ => return None,
        };
        let plain = digits.len() <= 8 && digits.bytes().all(|digit| digit.is_ascii_digit());
        let amount: u32 = digits.parse().ok().filter(|amount| plain && *amount > 0)?;
        Some(f64::from(amount) * in_millis)
    };
    millis().map_or(header.into(), Value::from)
}

//! Clients that request the figures: many at once, on one thread, and none delays another.
//!
//! Anyone who reaches the port may connect. So each client has a bounded time for its request and answer. The number of
//! clients is bounded too: the newest replaces the oldest. If descriptors run out, the oldest is dropped as well, and
//! accepting pauses for a moment.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How long a client has, from its connection to the last byte of its answer. An answer is a few kilobytes, which a
/// metrics reader takes within milliseconds, or a second over a bad network.
const PATIENCE: Duration = Duration::from_secs(2);
/// A few metrics readers and `uvatrain top`s each send a request per second. The run's own descriptors are few in
/// comparison, and the usual limit is 1024.
const MOST_CLIENTS: usize = 32;
/// Larger than any request of a metrics reader.
const MOST_REQUEST: usize = 8 << 10;
/// The pause after a failed accept: the system would report the waiting client again at once.
const BACK_OFF: Duration = Duration::from_millis(100);

/// A connected client.
struct Client {
    stream: TcpStream,
    until: Instant,
    request: Vec<u8>,
    /// The rest of the client's answer, once the request is complete.
    answer: Option<Vec<u8>>,
}

/// The remaining work for a client.
#[derive(PartialEq, Eq)]
enum Left {
    Something,
    Nothing,
}

/// Answers every connection for the lifetime of the process. `answer` makes the answer to a request.
///
/// # Errors
/// If the system can no longer wait for connections.
pub fn serve(socket: &TcpListener, answer: impl Fn(&[u8]) -> Vec<u8>) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let mut clients: VecDeque<Client> = VecDeque::new();
    // Until then no connection is accepted.
    let mut closed: Option<Instant> = None;
    loop {
        let now = Instant::now();
        clients.retain(|client| client.until > now);
        closed = closed.filter(|until| *until > now);
        let events = wait(socket, &clients, closed, now)?;
        let mut events = events.into_iter();
        let somebody_waits = events.next().unwrap_or(false);
        clients.retain_mut(|client| {
            !events.next().unwrap_or(false) || matches!(client.go_on(&answer), Ok(Left::Something))
        });
        if somebody_waits && !accept(socket, &mut clients, &answer) {
            closed = Some(Instant::now() + BACK_OFF);
        }
    }
}

/// Waits for an event; returns whether a connection waits to be accepted, and which clients are ready.
fn wait(
    socket: &TcpListener,
    clients: &VecDeque<Client>,
    closed: Option<Instant>,
    now: Instant,
) -> io::Result<Vec<bool>> {
    let accepts = if closed.is_none() { PollFlags::IN } else { PollFlags::empty() };
    let mut fds = vec![PollFd::new(socket, accepts)];
    fds.extend(clients.iter().map(|client| {
        PollFd::new(&client.stream, if client.answer.is_some() { PollFlags::OUT } else { PollFlags::IN })
    }));
    let next = clients.iter().map(|client| client.until).chain(closed).min();
    let timeout = next.map(|next| {
        let left = next.saturating_duration_since(now);
        Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
    });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
    ready[0] &= closed.is_none();
    Ok(ready)
}

/// Accepts all waiting clients. Returns false if accepting failed and would fail again at once.
fn accept(socket: &TcpListener, clients: &mut VecDeque<Client>, answer: &impl Fn(&[u8]) -> Vec<u8>) -> bool {
    loop {
        match socket.accept() {
            Ok((stream, _)) => {
                let until = Instant::now() + PATIENCE;
                let mut client = Client { stream, until, request: Vec::new(), answer: None };
                // Most have sent their request by now and are served here. A client whose socket cannot be made
                // non-blocking is dropped.
                let without_waiting = client.stream.set_nonblocking(true);
                if without_waiting.is_ok() && matches!(client.go_on(answer), Ok(Left::Something)) {
                    if clients.len() == MOST_CLIENTS {
                        clients.pop_front();
                    }
                    clients.push_back(client);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
            // Most likely no descriptor is left.
            Err(_) if clients.pop_front().is_some() => {}
            Err(_) => return false,
        }
    }
}

impl Client {
    /// Reads and writes as much as possible without blocking.
    fn go_on(&mut self, answer: &impl Fn(&[u8]) -> Vec<u8>) -> io::Result<Left> {
        loop {
            let done = match &mut self.answer {
                None => {
                    read_some(&mut self.stream, &mut self.request, answer).map(|whole| self.answer = whole)
                }
                Some(rest) if rest.is_empty() => return Ok(Left::Nothing),
                Some(rest) => self.stream.write(rest).map(|count| drop(rest.drain(..count))),
            };
            match done {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Left::Something),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Continues to read a request; returns its answer once it is complete.
fn read_some(
    stream: &mut TcpStream,
    request: &mut Vec<u8>,
    answer: &impl Fn(&[u8]) -> Vec<u8>,
) -> io::Result<Option<Vec<u8>>> {
    let mut chunk = [0; 1024];
    let count = stream.read(&mut chunk)?;
    request.extend_from_slice(&chunk[..count]);
    let whole =
        count == 0 || request.len() >= MOST_REQUEST || request.windows(4).any(|end| end == b"\r\n\r\n");
    Ok(whole.then(|| answer(request)))
}

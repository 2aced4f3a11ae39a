//! A run's figures over HTTP: one request, one answer, and the possible failures.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use super::scrape::Scrape;
use crate::exit;
use crate::ui::listen;

/// The time limit for an answer. A run needs at most a few milliseconds for one.
const PATIENCE: Duration = Duration::from_secs(3);
/// Size limit of an answer, more than that of a run with the most samplers.
const MOST: usize = 4 << 20;

/// The address of a run's figures.
pub struct RunAddress {
    address: SocketAddr,
}

/// Why a request to a run failed.
#[derive(Debug)]
pub enum RequestFailure {
    /// The connection was refused: no run listens there, or it has ended.
    Refused,
    /// The answer does not come from a run.
    Other(String),
    /// The answer is missing or incomplete.
    Broken(String),
    /// The terminal cannot be used. The run is not the cause.
    Terminal(String),
}

impl fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("no process listens on this address"),
            Self::Other(what) | Self::Broken(what) | Self::Terminal(what) => f.write_str(what),
        }
    }
}

impl From<io::Error> for RequestFailure {
    fn from(error: io::Error) -> Self {
        Self::Terminal(format!("terminal: {error}"))
    }
}

impl RunAddress {
    /// Parses an address: a port, a host and a port, or the line that the run printed.
    ///
    /// # Errors
    /// Bad usage; the message explains the form of an address.
    pub fn new(text: &str) -> Result<Self, exit::CommandError> {
        let bare = text.strip_prefix("http://").unwrap_or(text);
        let bare = bare.strip_suffix("/metrics").unwrap_or(bare).trim_end_matches('/');
        match listen::address(bare) {
            Ok(address) => Ok(Self { address }),
            Err(_) if Path::new(text).exists() => Err(exit::usage(format!(
                "{text} is a file, but `uvatrain top` requires the address of a run: start the run with --metrics-listen 9184, then `uvatrain top 9184`"
            ))),
            Err(refusal) => Err(exit::usage(refusal)),
        }
    }

    /// The address, for messages.
    pub fn shown(&self) -> String {
        self.address.to_string()
    }

    /// Requests the current figures.
    ///
    /// # Errors
    /// Why no figures are available.
    pub fn ask(&self) -> Result<Scrape, RequestFailure> {
        let broken = |error: io::Error| {
            RequestFailure::Broken(match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    format!("no answer within {} s", PATIENCE.as_secs())
                }
                _ => error.to_string(),
            })
        };
        let until = Instant::now() + PATIENCE;
        let mut stream =
            TcpStream::connect_timeout(&self.address, PATIENCE).map_err(|error| match error.kind() {
                io::ErrorKind::ConnectionRefused => RequestFailure::Refused,
                _ => broken(error),
            })?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(broken)?;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).map_err(broken)?;
        let mut answer = Vec::new();
        let mut chunk = [0; 16 << 10];
        loop {
            // The limit covers the whole answer, however slowly it arrives.
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(broken(io::ErrorKind::TimedOut.into()));
            }
            stream.set_read_timeout(Some(left)).map_err(broken)?;
            match stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => answer.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(error)),
            }
            if answer.len() > MOST {
                return Err(RequestFailure::Other(format!("the answer has more than {MOST} bytes")));
            }
        }
        of_answer(&answer)
    }
}

/// The figures in an answer.
fn of_answer(answer: &[u8]) -> Result<Scrape, RequestFailure> {
    if answer.is_empty() {
        return Err(RequestFailure::Broken("the server closed the connection without an answer".to_owned()));
    }
    let text = String::from_utf8_lossy(answer);
    let shown = |text: &str| text.chars().take(40).collect::<String>().escape_debug().to_string();
    let Some((head, body)) = text.split_once("\r\n\r\n").filter(|(head, _)| head.starts_with("HTTP/1."))
    else {
        return Err(RequestFailure::Other(format!("the answer is \"{}\"", shown(&text))));
    };
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(RequestFailure::Other(format!("the answer is \"{}\"", shown(status))));
    }
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    if let Some(length) = length.and_then(|(_, value)| value.trim().parse::<usize>().ok())
        && body.len() < length
    {
        return Err(RequestFailure::Broken(format!(
            "the server closed the connection after {} of {length} bytes",
            body.len()
        )));
    }
    let figures = Scrape::parse(body)
        .map_err(|line| RequestFailure::Other(format!("invalid metrics line \"{}\"", shown(&line))))?;
    // A run reports its counters from its start.
    if figures.value("uvatrain_batches_total", &[]).is_none() {
        return Err(RequestFailure::Other("the metrics are those of another program".to_owned()));
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_as_the_run_prints_it() {
        for text in
            ["9184", ":9184", "127.0.0.1:9184", "http://127.0.0.1:9184/metrics", "http://127.0.0.1:9184/"]
        {
            assert_eq!(
                RunAddress::new(text).unwrap_or_else(|e| panic!("{text}: {e}")).shown(),
                "127.0.0.1:9184"
            );
        }
        assert!(RunAddress::new("nowhere").is_err());
    }

    #[test]
    fn what_a_run_omits_is_distinguished_from_what_is_cut_off() {
        let answer = |text: &str| of_answer(text.as_bytes()).map(|_| ());
        let ok = "HTTP/1.1 200 OK\r\nContent-Length: 25\r\n\r\nuvatrain_batches_total 7\n";
        assert!(answer(ok).is_ok());
        assert!(matches!(answer(&ok[..ok.len() - 3]), Err(RequestFailure::Broken(_))));
        assert!(matches!(answer(""), Err(RequestFailure::Broken(_))));
        for other in [
            "SSH-2.0-OpenSSH_9.6\r\n",
            "HTTP/1.1 404 Not Found\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n<html></html>",
            "HTTP/1.1 200 OK\r\n\r\nnode_load1 0.5\n",
        ] {
            assert!(matches!(answer(other), Err(RequestFailure::Other(_))), "{other}");
        }
    }
}

//! `--metrics-listen`: serves the figures of a running run over HTTP, in Prometheus format.
//!
//! One thread answers all requests ([`clients`]) and never delays the run. It shows the state after the last event and
//! the roles' current state.

mod clients;
mod figures;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use uva_runtime::RuntimeError;
use uva_runtime::machine;
use uva_runtime::telemetry::gauges::Gauges;
use uva_runtime::telemetry::metrics::{Event, RunProgress};

use self::figures::ServedFigures;

/// Parses `PORT`, `:PORT` and `HOST:PORT`. Without a host, only this machine can connect.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let refuse = || format!("'{text}' is not an address: expected a port, such as 9184, or HOST:PORT");
    if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.to_socket_addrs().ok().and_then(|mut found| found.next()).ok_or_else(refuse)
}

/// The open port.
pub struct Listener {
    figures: Arc<Mutex<ServedFigures>>,
    /// The address that it listens on, with the system's choice if port 0 was requested.
    pub address: SocketAddr,
}

impl Listener {
    /// Starts to listen, for the lifetime of the process.
    ///
    /// # Errors
    /// [`RuntimeError::Input`] naming the address, if it is unavailable.
    pub fn start(address: SocketAddr) -> Result<Self, RuntimeError> {
        let failed =
            |error: std::io::Error| RuntimeError::input(format!("--metrics-listen {address}: {error}"));
        let socket = TcpListener::bind(address).map_err(failed)?;
        let bound = socket.local_addr().map_err(failed)?;
        let figures = Arc::new(Mutex::new(ServedFigures::default()));
        let shown = Arc::clone(&figures);
        thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || {
                if let Err(error) = clients::serve(&socket, |request| answer(request, &shown)) {
                    tracing::warn!("--metrics-listen {bound}: metrics are no longer served: {error}");
                }
            })
            .map_err(|error| machine::not_started("the thread of --metrics-listen", &error))?;
        Ok(Self { figures, address: bound })
    }

    /// Adds an event of the run.
    pub fn event(&self, event: &Event) {
        self.figures().take(event);
    }

    /// Updates the progress of the run.
    pub fn progress(&self, progress: &RunProgress) {
        self.figures().progress = Some(*progress);
    }

    /// Marks the roles as started: their states are readable from now on.
    pub fn begun(&self, gauges: &Gauges) {
        self.figures().gauges = Some(gauges.clone());
    }

    fn figures(&self) -> MutexGuard<'_, ServedFigures> {
        // No code panics while the lock is held.
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer to a request, head and body.
fn answer(request: &[u8], figures: &Mutex<ServedFigures>) -> Vec<u8> {
    let line = request.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, body) = match (method, path.split('?').next()) {
        ("GET" | "HEAD", Some("/metrics" | "/")) => {
            ("200 OK", figures.lock().unwrap_or_else(PoisonError::into_inner).text())
        }
        ("GET" | "HEAD", _) => ("404 Not Found", "the figures are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "GET /metrics\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    if method == "HEAD" { head.into_bytes() } else { (head + &body).into_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_this_machines_only() {
        assert_eq!(address("9184").unwrap(), "127.0.0.1:9184".parse().unwrap());
        assert_eq!(address(":0").unwrap(), "127.0.0.1:0".parse().unwrap());
        assert_eq!(address("0.0.0.0:80").unwrap(), "0.0.0.0:80".parse().unwrap());
        assert_eq!(address("[::1]:80").unwrap(), "[::1]:80".parse().unwrap());
        for wrong in ["", "port", "1.2.3.4", "70000", "host:", ":-1"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}

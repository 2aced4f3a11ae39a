//! `--metrics-listen`: the figures of a run under way over HTTP, as Prometheus reads them.
//!
//! One thread answers one request after the other, and never holds the run up: it shows what the last event left.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use uva_runtime::RuntimeError;
use uva_runtime::metrics::{BatchEvent, CacheCounts, EpochEvent, Event};

/// How long a client may take to say what it wants. Meanwhile others wait.
const PATIENCE: Duration = Duration::from_secs(2);
/// More than any request of a metrics reader has.
const MOST_REQUEST: usize = 8 << 10;

/// Parses `PORT`, `:PORT` and `HOST:PORT`; without a host only this machine can ask.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let refuse = || format!("'{text}' is no address; write a port, as 9184, or HOST:PORT");
    if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.to_socket_addrs().ok().and_then(|mut found| found.next()).ok_or_else(refuse)
}

/// The open port.
pub struct Listener {
    figures: Arc<Mutex<Figures>>,
    /// Where it listens: the port that the system chose, where 0 was asked for.
    pub address: SocketAddr,
}

impl Listener {
    /// Listens from now on, for as long as the process lives.
    ///
    /// # Errors
    /// [`RuntimeError::Input`] naming the address, when it cannot be had.
    pub fn start(address: SocketAddr) -> Result<Self, RuntimeError> {
        let failed =
            |error: std::io::Error| RuntimeError::Input(format!("--metrics-listen {address}: {error}"));
        let socket = TcpListener::bind(address).map_err(failed)?;
        let bound = socket.local_addr().map_err(failed)?;
        let figures = Arc::new(Mutex::new(Figures::default()));
        let shown = Arc::clone(&figures);
        thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || {
                for client in socket.incoming().flatten() {
                    // A client that went away is no concern of the run's.
                    let _ = answer(client, &shown);
                }
            })
            .map_err(failed)?;
        Ok(Self { figures, address: bound })
    }

    /// Takes in an event of the run.
    pub fn event(&self, event: &Event) {
        // Nothing panics while it is locked.
        let mut figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        figures.take(event);
    }
}

fn answer(mut client: TcpStream, figures: &Mutex<Figures>) -> std::io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut chunk = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MOST_REQUEST {
        match client.read(&mut chunk)? {
            0 => break,
            count => request.extend_from_slice(&chunk[..count]),
        }
    }
    let line =
        String::from_utf8_lossy(request.split(|&byte| byte == b'\r').next().unwrap_or_default()).into_owned();
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
    client.write_all(head.as_bytes())?;
    if method == "HEAD" { Ok(()) } else { client.write_all(body.as_bytes()) }
}

/// What is shown.
#[derive(Default)]
struct Figures {
    /// Version and dataset, once the run has begun.
    info: Option<(String, String)>,
    batches: u64,
    seeds: u64,
    input_nodes: u64,
    edges: u64,
    /// Seconds of sampling, gathering and training.
    stages: [f64; 3],
    last: Option<BatchEvent>,
    epochs: u64,
    last_epoch: Option<EpochEvent>,
    cache: Option<CacheCounts>,
}

impl Figures {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Start(start) => {
                let name = start.dataset["name"].as_str().unwrap_or_default().to_owned();
                self.info = Some((start.version.clone(), name));
            }
            Event::Batch(batch) => {
                self.batches += 1;
                self.seeds += batch.seeds as u64;
                self.input_nodes += batch.input_nodes as u64;
                self.edges += batch.edges.iter().sum::<usize>() as u64;
                for (sum, took) in
                    self.stages.iter_mut().zip([batch.sample_us, batch.gather_us, batch.train_us])
                {
                    *sum += took as f64 / 1e6;
                }
                if let Some(counts) = batch.cache {
                    *self.cache.get_or_insert_default() += counts;
                }
                self.last = Some(batch.clone());
            }
            Event::Epoch(epoch) => {
                self.epochs += 1;
                self.last_epoch = Some(epoch.clone());
            }
            Event::End(_) => {}
        }
    }

    /// In Prometheus' text format.
    fn text(&self) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, samples: &[(&str, f64)]| {
            if samples.is_empty() {
                return;
            }
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# HELP uvatrain_{name} {help}\n# TYPE uvatrain_{name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(text, "uvatrain_{name}{labels} {value}");
            }
        };
        if let Some((version, dataset)) = &self.info {
            let labels = format!("{{version=\"{}\",dataset=\"{}\"}}", label(version), label(dataset));
            family("info", "gauge", "What runs, on what.", &[(&labels, 1.0)]);
        }
        family("batches_total", "counter", "Training batches used.", &[("", self.batches as f64)]);
        family("seeds_total", "counter", "Seeds of training batches.", &[("", self.seeds as f64)]);
        family("input_nodes_total", "counter", "Feature rows gathered.", &[("", self.input_nodes as f64)]);
        family("edges_total", "counter", "Edges sampled, of all layers.", &[("", self.edges as f64)]);
        let [sample, gather, train] = self.stages;
        let stages =
            [("{stage=\"sample\"}", sample), ("{stage=\"gather\"}", gather), ("{stage=\"train\"}", train)];
        family(
            "stage_seconds_total",
            "counter",
            "Seconds that each stage worked on training batches.",
            &stages,
        );
        if let Some(batch) = &self.last {
            let queue = [("", f64::from(batch.queue))];
            family("ready_batches", "gauge", "Batches that waited for the consumer.", &queue);
            let loss: Vec<_> = batch.loss.map(|loss| ("", f64::from(loss))).into_iter().collect();
            family("batch_loss", "gauge", "Loss of the last batch.", &loss);
        }
        family("epochs_total", "counter", "Epochs ended.", &[("", self.epochs as f64)]);
        if let Some(epoch) = &self.last_epoch {
            family("epoch_loss", "gauge", "Mean loss of the last epoch.", &[("", epoch.train_loss)]);
            let mut valid = Vec::new();
            valid.extend(epoch.valid_accuracy.map(|value| ("{metric=\"accuracy\"}", value)));
            valid.extend(epoch.valid_roc_auc.map(|value| ("{metric=\"roc_auc\"}", value)));
            family("validation", "gauge", "Validation of the last epoch.", &valid);
        }
        if let Some(cache) = &self.cache {
            let reads =
                [("{cache=\"lists\"}", cache.list_reads as f64), ("{cache=\"rows\"}", cache.rows as f64)];
            family("cache_reads_total", "counter", "What was asked of the caches.", &reads);
            let hits =
                [("{cache=\"lists\"}", cache.list_hits as f64), ("{cache=\"rows\"}", cache.row_hits as f64)];
            family("cache_hits_total", "counter", "What they had.", &hits);
        }
        text
    }
}

/// A label's value, in the format's own escapes.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
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

    #[test]
    fn names_in_labels_are_escaped() {
        let figures = Figures { info: Some(("1".into(), "a\"b\\c\nd".into())), ..Figures::default() };
        assert!(figures.text().contains(r#"dataset="a\"b\\c\nd"} 1"#), "{}", figures.text());
    }
}

//! A run as a timeline: `--trace`, in the format of Chrome's tracer, which ui.perfetto.dev and chrome://tracing open.
//!
//! Each sampler or worker, the producer and the consumer have separate tracks. A bar shows a role's work on a batch;
//! arrows connect the bars of a batch. The trace is derived only from the metrics' lines
//! ([`crate::telemetry::metrics`]), so a run reports everything once.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use uva_mem::files::{ExistingContent, open_output};

use crate::RuntimeError;
use crate::options::Prepare;
use crate::telemetry::metrics::{BatchEvent, Event};

/// Tracks, as the format's process numbers; they are displayed in another order.
const CONSUMER: u32 = 1;
const PRODUCER: u32 = 2;
const FIRST_SAMPLER: u32 = 3;

/// The trace file. It can be opened while the run continues, and after it was killed: viewers do not need the closing
/// bracket.
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    file: BufWriter<File>,
    /// Tracks that already have a name.
    named: BTreeSet<u32>,
    /// Number of batches so far, which numbers a batch's arrows.
    batches: u64,
    /// Whether workers prepare whole batches: a worker's track then has its gathers, too.
    workers: bool,
    /// The time at which the last batch was done, used for events without their own time.
    last_us: u64,
}

impl TraceFile {
    /// Creates the file, readable by the user only, and overwrites an earlier one.
    ///
    /// # Errors
    /// [`RuntimeError::Input`] naming the file.
    pub fn create(path: &Path) -> Result<Self, RuntimeError> {
        let file = open_output(path, 0o600, ExistingContent::Truncated)
            .map_err(|error| RuntimeError::input(error.to_string()).with_path_option("trace", path))?;
        let mut trace = Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
            named: BTreeSet::new(),
            batches: 0,
            workers: false,
            last_us: 0,
        };
        trace.put("[\n")?;
        Ok(trace)
    }

    /// Records an event of the run.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] naming the file, for example if the disk is full.
    pub fn write(&mut self, event: &Event) -> Result<(), RuntimeError> {
        match event {
            Event::Start(start) => {
                self.workers = start.in_force["prepare"] == Prepare::Whole.name();
                Ok(())
            }
            Event::InForce(_) => Ok(()),
            Event::Batch(batch) => self.batch(batch),
            Event::Epoch(epoch) => self.line(&json!({
                "name": format!("epoch {} ends", u64::from(epoch.epoch) + 1), "ph": "i", "s": "g", "pid": CONSUMER, "tid": CONSUMER,
                "ts": self.last_us,
            })),
            Event::End(_) => {
                // The last line has no comma after it.
                self.put(&format!("{}\n]\n", json!({ "name": "end", "ph": "i", "s": "g", "pid": CONSUMER,
                    "tid": CONSUMER, "ts": self.last_us })))?;
                self.flush()
            }
        }
    }

    fn batch(&mut self, batch: &BatchEvent) -> Result<(), RuntimeError> {
        let sampler = FIRST_SAMPLER + batch.sampler;
        let producer = if self.workers { sampler } else { PRODUCER };
        let stages = [
            (sampler, batch.sample_at_us, batch.sample_us, "s", sampled(batch)),
            (producer, batch.gather_at_us, batch.gather_us, "t", gathered(batch)),
            (CONSUMER, batch.train_at_us, batch.train_us, "f", trained(batch)),
        ];
        let name = format!("batch {}.{}", u64::from(batch.epoch) + 1, u64::from(batch.batch) + 1);
        self.batches += 1;
        for (track, at, took, arrow, details) in stages {
            self.name(track)?;
            self.line(&json!({
                "name": name, "ph": "X", "pid": track, "tid": track, "ts": at, "dur": took, "args": details,
            }))?;
            // An arrow binds to the bar that encloses it.
            let mut arrow = json!({
                "name": "batch", "cat": "batch", "ph": arrow, "id": self.batches, "pid": track, "tid": track, "ts": at,
            });
            if arrow["ph"] == "f" {
                arrow["bp"] = json!("e");
            }
            self.line(&arrow)?;
        }
        // The same track shows them for any role that hands over.
        let counted = if self.workers { CONSUMER } else { PRODUCER };
        self.line(&json!({
            "name": "batches ready for the consumer", "ph": "C", "pid": counted, "ts": batch.gather_at_us,
            "args": { "batches": batch.queue },
        }))?;
        self.last_us = batch.train_at_us + batch.train_us;
        self.flush()
    }

    /// Names a track before its first bar.
    fn name(&mut self, track: u32) -> Result<(), RuntimeError> {
        if !self.named.insert(track) {
            return Ok(());
        }
        let (name, work, place) = match track {
            CONSUMER => ("consumer".to_owned(), "uses batches", u32::MAX / 2),
            PRODUCER => ("producer".to_owned(), "gathers rows", u32::MAX / 4),
            worker if self.workers => {
                (format!("worker {}", worker - FIRST_SAMPLER), "samples, then gathers rows", worker)
            }
            sampler => (format!("sampler {}", sampler - FIRST_SAMPLER), "samples", sampler),
        };
        for (what, argument) in [
            ("process_name", json!({ "name": name })),
            ("process_sort_index", json!({ "sort_index": place })),
            // Perfetto shows the bars under the thread's name, within the process's.
            ("thread_name", json!({ "name": work })),
        ] {
            self.line(&json!({ "name": what, "ph": "M", "pid": track, "tid": track, "args": argument }))?;
        }
        Ok(())
    }

    fn line(&mut self, event: &Value) -> Result<(), RuntimeError> {
        self.put(&format!("{event},\n"))
    }

    fn put(&mut self, text: &str) -> Result<(), RuntimeError> {
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|error| self.failed(&error))
    }

    /// Writes the batch as a whole, for viewers that open the file during the run.
    fn flush(&mut self) -> Result<(), RuntimeError> {
        let flushed = self.file.flush();
        flushed.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &std::io::Error) -> RuntimeError {
        RuntimeError::failed(format!("the trace cannot be written: {error}")).in_file(&self.path)
    }
}

// The details of a batch that a bar shows on a click.

fn sampled(batch: &BatchEvent) -> Value {
    json!({ "seeds": batch.seeds, "nodes": batch.input_nodes, "edges": batch.edges, "hash": batch.hash })
}

fn gathered(batch: &BatchEvent) -> Value {
    json!({ "rows": batch.input_nodes, "threads": batch.pace, "cache": batch.cache })
}

fn trained(batch: &BatchEvent) -> Value {
    json!({ "loss": batch.loss, "seeds": batch.seeds })
}

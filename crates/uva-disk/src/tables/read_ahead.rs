//! Read-ahead of rows on a separate thread, concurrently with the caller.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::error::DiskError;
use crate::tables::row_file::{DiskReads, RowFile};

/// The number of rows of one job. Dropping the reader waits for the job in flight.
const JOB_ROWS: usize = 8192;

/// A row to read, and its buffer, which the reader owns until it returns the result.
#[derive(Debug)]
pub struct AheadRow {
    /// An identifier chosen by the caller.
    pub tag: u32,
    /// The index of the row.
    pub row: u64,
    /// The buffer, of the size of a row.
    pub bytes: Box<[u8]>,
}

/// The result of a read-ahead job.
#[derive(Debug)]
pub struct AheadResult {
    /// The rows. After an error their bytes are undefined.
    pub rows: Vec<AheadRow>,
    /// The reads done, or the error.
    pub read: Result<DiskReads, DiskError>,
}

/// A thread that reads rows of a file into buffers of its caller.
///
/// Dropping it waits for reads in flight; queued jobs are discarded.
pub struct AheadReader {
    /// `None` only during drop, which ends the thread.
    jobs: Option<Sender<Vec<AheadRow>>>,
    answers: Receiver<AheadResult>,
    /// The number of jobs without a result.
    outstanding: usize,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl AheadReader {
    /// Starts a thread that reads from this file.
    ///
    /// # Errors
    /// The reason why the thread cannot be started.
    pub fn new(file: RowFile) -> Result<Self, String> {
        let (jobs, waiting) = channel();
        let (answer, answers) = channel();
        let stopped = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stopped);
        let thread = thread::Builder::new()
            .name("read-ahead".to_owned())
            .spawn(move || work(file, &waiting, &answer, &seen))
            .map_err(|error| error.to_string())?;
        Ok(Self { jobs: Some(jobs), answers, outstanding: 0, stopped, thread: Some(thread) })
    }

    /// Queues these rows after those of earlier calls: in the order of the file, each page once. They are returned in
    /// one or several results.
    pub fn read(&mut self, mut rows: Vec<AheadRow>) {
        rows.sort_unstable_by_key(|wanted| wanted.row);
        while !rows.is_empty() {
            let rest = rows.split_off(rows.len().min(JOB_ROWS));
            let jobs = self.jobs.as_ref().expect("it is there until the value is dropped");
            assert!(jobs.send(rows).is_ok(), "the thread works until the value is dropped");
            self.outstanding += 1;
            rows = rest;
        }
    }

    /// The next result, if available.
    pub fn answered(&mut self) -> Option<AheadResult> {
        let answer = self.answers.try_recv().ok()?;
        self.outstanding -= 1;
        Some(answer)
    }

    /// Waits for the next result; `None` if no job is in flight.
    pub fn wait(&mut self) -> Option<AheadResult> {
        if self.outstanding == 0 {
            return None;
        }
        self.outstanding -= 1;
        Some(self.answers.recv().expect("the thread answers each job"))
    }
}

/// Executes queued jobs until the queue is closed.
fn work(
    mut file: RowFile,
    jobs: &Receiver<Vec<AheadRow>>,
    answer: &Sender<AheadResult>,
    stopped: &AtomicBool,
) {
    for mut rows in jobs {
        // Acquire; partner: the release store in `drop`. It orders no other data.
        if stopped.load(Ordering::Acquire) {
            return;
        }
        let wanted: Vec<u64> = rows.iter().map(|wanted| wanted.row).collect();
        let read = file.read(wanted.into_iter().enumerate(), |place, bytes| {
            rows[place].bytes.copy_from_slice(bytes);
        });
        if answer.send(AheadResult { rows, read }).is_err() {
            return;
        }
    }
}

impl Drop for AheadReader {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed already.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for AheadReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AheadReader({} jobs under way)", self.outstanding)
    }
}

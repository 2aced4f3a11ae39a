//! Reads of rows that go on while the caller does something else: by a thread of their own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::error::DiskError;
use crate::tables::row_file::{DiskReads, RowFile};

/// Rows of one job. Whoever drops the value waits for the job that is under way.
const JOB_ROWS: usize = 8192;

/// A row to be read, and the memory for it, which the reader has until it answers.
#[derive(Debug)]
pub struct AheadRow {
    /// What the caller knows it by.
    pub tag: u32,
    /// Which row.
    pub row: u64,
    /// As long as a row.
    pub bytes: Box<[u8]>,
}

/// Rows that were read, or not.
#[derive(Debug)]
pub struct AheadResult {
    /// The rows. After an error their bytes are any.
    pub rows: Vec<AheadRow>,
    /// What they took.
    pub read: Result<DiskReads, DiskError>,
}

/// A thread that reads rows of a file into memory that it is given.
///
/// Dropping it waits until nothing is under way any more; what was not begun is not read.
pub struct AheadReader {
    /// `None` only while the value is dropped: the thread ends when it is.
    jobs: Option<Sender<Vec<AheadRow>>>,
    answers: Receiver<AheadResult>,
    /// Jobs without an answer.
    outstanding: usize,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl AheadReader {
    /// Reads from this file.
    ///
    /// # Errors
    /// Why the system starts no thread.
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

    /// Has these rows read, after those that it was given before: in the order of the file, each page once. They come back
    /// in one or several answers.
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

    /// The next answer, if one is there.
    pub fn answered(&mut self) -> Option<AheadResult> {
        let answer = self.answers.try_recv().ok()?;
        self.outstanding -= 1;
        Some(answer)
    }

    /// Waits for the next answer; `None` where nothing is under way.
    pub fn wait(&mut self) -> Option<AheadResult> {
        if self.outstanding == 0 {
            return None;
        }
        self.outstanding -= 1;
        Some(self.answers.recv().expect("the thread answers each job"))
    }
}

/// Reads what comes, until nothing comes any more.
fn work(
    mut file: RowFile,
    jobs: &Receiver<Vec<AheadRow>>,
    answer: &Sender<AheadResult>,
    stopped: &AtomicBool,
) {
    for mut rows in jobs {
        // Acquire; partner: the release store in `drop`. It orders nothing else.
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
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for AheadReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AheadReader({} jobs under way)", self.outstanding)
    }
}

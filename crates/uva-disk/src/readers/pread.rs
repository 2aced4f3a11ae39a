//! Reads by several threads.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use uva_mem::ZeroedPages;

use crate::error::DiskError;
use crate::extent::Extent;
use crate::files::open_file::OpenFiles;
use crate::files::progress::{ExtentProgress, ReadFailure, ReadRequest, ReadStep};
use crate::kind::ReaderKind;
use crate::readers::reader::RangeReader;

/// The number of threads, each with one read in flight.
const THREADS: usize = 16;

/// The number of buffers: while a thread's last read is copied, it reads into another buffer.
const BUFFERS: usize = 2 * THREADS;

/// A read that is queued for a thread, or finished.
struct Job {
    index: usize,
    extent: Extent,
    buffer: ZeroedPages,
    result: Result<(), ReadFailure>,
}

/// Threads that read, and the calling thread, which receives their results.
pub(crate) struct Pread {
    files: OpenFiles,
    /// `None` only during drop, which ends the threads.
    jobs: Option<Sender<Job>>,
    done: Receiver<Job>,
    free: Vec<ZeroedPages>,
    /// The number of queued reads without a result.
    outstanding: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Pread {
    /// Creates a reader for extents of at most `longest` bytes.
    ///
    /// # Errors
    /// The reason why the system does not support it.
    pub fn new(files: OpenFiles, longest: usize) -> Result<Self, String> {
        let (jobs, waiting) = channel();
        let (finished, done) = channel();
        let free = (0..BUFFERS)
            .map(|_| ZeroedPages::new(longest))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| format!("there is no memory for its buffers: {error}"))?;
        let mut reader = Self { files, jobs: Some(jobs), done, free, outstanding: 0, threads: Vec::new() };
        let waiting = Arc::new(Mutex::new(waiting));
        for thread in 0..THREADS {
            let (files, waiting, finished) =
                (reader.files.clone(), Arc::clone(&waiting), Sender::clone(&finished));
            let spawned = thread::Builder::new()
                .name(format!("read-{thread}"))
                .spawn(move || work(&files, &waiting, &finished));
            match spawned {
                Ok(handle) => reader.threads.push(handle),
                Err(error) => return Err(format!("its threads cannot be started: {error} (ulimit -u)")),
            }
        }
        Ok(reader)
    }

    /// Queues a read for the threads.
    fn hand_out(&mut self, index: usize, extent: Extent, buffer: ZeroedPages) {
        // Checked here, since a panic in a thread would go unnoticed.
        assert!(extent.length <= buffer.bytes().len(), "the extent is longer than the reader was made for");
        let jobs = self.jobs.as_ref().expect("it is there until the value is dropped");
        let handed = jobs.send(Job { index, extent, buffer, result: Ok(()) });
        assert!(handed.is_ok(), "threads receive until the value is dropped");
        self.outstanding += 1;
    }

    /// Waits for the result of a queued read.
    fn take_back(&mut self) -> Job {
        let job = self.done.recv().expect("threads work until the value is dropped");
        self.outstanding -= 1;
        job
    }
}

/// Executes queued reads until the queue is closed.
fn work(files: &OpenFiles, waiting: &Mutex<Receiver<Job>>, finished: &Sender<Job>) {
    loop {
        // The lock is held while this thread waits for work, and the others wait for the lock.
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(mut job) = job else { return };
        job.result = read(files, job.extent, job.buffer.bytes_mut());
        if finished.send(job).is_err() {
            return;
        }
    }
}

fn read(files: &OpenFiles, extent: Extent, buffer: &mut [u8]) -> Result<(), ReadFailure> {
    let file = &files[extent.file];
    let mut progress = ExtentProgress::new(extent, files.alignment());
    loop {
        let ReadRequest { offset, from, length } = progress.request();
        let into = &mut buffer[from..from + length];
        let answer = rustix::io::pread(&*file.file, &mut *into, offset);
        if progress.take(file.seam.pass(offset, answer, into))? == ReadStep::Done {
            return Ok(());
        }
    }
}

impl RangeReader for Pread {
    fn kind(&self) -> ReaderKind {
        ReaderKind::Pread
    }

    fn how(&self) -> String {
        format!("{}, {THREADS} threads", self.files.way())
    }

    fn alignment(&self) -> usize {
        self.files.alignment()
    }

    fn read(&mut self, extents: &[Extent], deliver: &mut dyn FnMut(usize, &[u8])) -> Result<(), DiskError> {
        // A panic during delivery leaves reads outstanding.
        while self.outstanding > 0 {
            let job = self.take_back();
            self.free.push(job.buffer);
        }
        // A panic during delivery loses its buffer. Without buffers, no read would be possible.
        if self.free.is_empty() {
            let reason = "an earlier read has failed".to_owned();
            return Err(self.files.failed(ReadFailure { file: 0, offset: 0, length: 0, reason }));
        }
        let mut waiting = extents.iter().enumerate();
        let mut failed = None;
        loop {
            while failed.is_none()
                && !self.free.is_empty()
                && let Some((index, &extent)) = waiting.next()
            {
                let buffer = self.free.pop().expect("one is free");
                self.hand_out(index, extent, buffer);
            }
            if self.outstanding == 0 {
                break;
            }
            let job = self.take_back();
            match job.result {
                Ok(()) => deliver(job.index, &job.buffer.bytes()[..job.extent.needed]),
                Err(failure) => {
                    failed.get_or_insert(failure);
                }
            }
            self.free.push(job.buffer);
        }
        failed.map_or(Ok(()), |failure| Err(self.files.failed(failure)))
    }
}

impl Drop for Pread {
    fn drop(&mut self) {
        drop(self.jobs.take());
        for thread in self.threads.drain(..) {
            // A panic of a thread has been printed already.
            let _ = thread.join();
        }
    }
}

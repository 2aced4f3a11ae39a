//! Reads by io_uring.

use std::mem;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use uva_mem::ZeroedPages;

use crate::error::DiskError;
use crate::extent::Extent;
use crate::files::open_file::OpenFiles;
use crate::files::progress::{ExtentProgress, ReadFailure, ReadRequest, ReadStep, text};
use crate::kind::ReaderKind;
use crate::readers::reader::RangeReader;

/// The maximum number of reads in flight.
const DEPTH: usize = 64;

/// The number of completions per wait. The other reads keep the device busy in the meantime.
const GROUP: usize = DEPTH / 4;

/// The pause of a call for which the kernel had too few resources, and the number of retries.
const REST: Duration = Duration::from_micros(100);
const MOST_RESTS: u32 = 100_000;

/// A reader that keeps many reads in flight from one thread.
///
/// Every buffer is either free, or belongs to one read in the queue or in the kernel. Only a completion frees it. A
/// call returns, and the buffers are unmapped, when no read is outstanding.
pub(crate) struct Uring {
    files: OpenFiles,
    /// `None` only during drop.
    ring: Option<IoUring>,
    /// The buffers, each in its own pages.
    buffers: Vec<ZeroedPages>,
    /// Whether the kernel keeps the buffers mapped.
    registered: bool,
    free: Vec<usize>,
    /// The number of reads in the queue or in the kernel.
    outstanding: usize,
    /// For each buffer, the index of the extent being read into it, and its progress.
    under_way: Vec<Option<(usize, ExtentProgress)>>,
    /// Buffer and result of each completion of a group.
    completed: Vec<(usize, i32)>,
}

impl Uring {
    /// Creates a reader for extents of at most `longest` bytes.
    ///
    /// # Errors
    /// The reason why the system does not support it, and the remedy.
    pub fn new(files: OpenFiles, longest: usize) -> Result<Self, String> {
        if let Some(reason) = files.cached() {
            return Err(format!("it needs O_DIRECT: {reason}"));
        }
        let ring = IoUring::new(DEPTH as u32).map_err(|error| refusal(&error))?;
        let descriptors: Vec<_> = files.iter().map(|file| file.file.as_raw_fd()).collect();
        ring.submitter().register_files(&descriptors).map_err(|error| refusal(&error))?;
        let mut buffers = (0..DEPTH)
            .map(|_| ZeroedPages::new(longest))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| format!("there is no memory for its buffers: {error}"))?;
        let vectors: Vec<libc::iovec> = buffers
            .iter_mut()
            .map(|buffer| libc::iovec { iov_base: buffer.bytes_mut().as_mut_ptr().cast(), iov_len: longest })
            .collect();
        // A limit on locked memory may forbid it. Reads then take a little longer.
        // SAFETY: each vector is the memory of a buffer, which stays mapped for longer than the ring is open: `Drop` closes
        // the ring first.
        let registered = unsafe { ring.submitter().register_buffers(&vectors) }.is_ok();
        Ok(Self {
            files,
            ring: Some(ring),
            buffers,
            registered,
            free: (0..DEPTH).collect(),
            outstanding: 0,
            under_way: vec![None; DEPTH],
            completed: Vec::with_capacity(DEPTH),
        })
    }

    fn ring(&mut self) -> &mut IoUring {
        self.ring.as_mut().expect("it is there until the value is dropped")
    }

    /// Queues the next read for this buffer.
    fn queue(&mut self, buffer: usize, progress: &ExtentProgress) {
        let ReadRequest { offset, from, length } = progress.request();
        let memory = &mut self.buffers[buffer].bytes_mut()[from..from + length];
        let (pointer, length) = (memory.as_mut_ptr(), memory.len() as u32);
        let file = types::Fixed(progress.file() as u32);
        let read = if self.registered {
            opcode::ReadFixed::new(file, pointer, length, buffer as u16).offset(offset).build()
        } else {
            opcode::Read::new(file, pointer, length).offset(offset).build()
        };
        let read = read.user_data(buffer as u64);
        // SAFETY: the read goes into a buffer that no other code uses until its completion was handled, and that stays
        // mapped until then: `Drop` waits for the reads in flight.
        let queued = unsafe { self.ring().submission().push(&read) };
        queued.expect("the queue has an entry for each buffer");
        self.outstanding += 1;
    }

    /// Submits queued reads to the kernel, and waits for this many completions unless a signal arrives first. The
    /// completions are stored in `completed`.
    fn enter(&mut self, wanted: usize) -> Result<(), ReadFailure> {
        self.completed.clear();
        for _ in 0..MOST_RESTS {
            let entered = self.ring().submit_and_wait(wanted);
            let Self { ring, completed, .. } = self;
            let ring = ring.as_mut().expect("as above");
            let before = completed.len();
            completed.extend(ring.completion().map(|entry| (entry.user_data() as usize, entry.result())));
            self.outstanding -= completed.len() - before;
            match entered.map_err(|error| Errno::from_io_error(&error)) {
                Ok(_) | Err(Some(Errno::INTR)) => return Ok(()),
                Err(Some(Errno::AGAIN | Errno::BUSY)) if !self.completed.is_empty() => return Ok(()),
                Err(Some(Errno::AGAIN | Errno::BUSY)) => thread::sleep(REST),
                Err(error) => {
                    let why = error.map_or_else(|| "an unknown error".to_owned(), text);
                    return Err(no_call(&why));
                }
            }
        }
        Err(no_call("the kernel has no room, however often it is asked"))
    }
}

/// The failure of a call for all reads together.
fn no_call(why: &str) -> ReadFailure {
    ReadFailure { file: 0, offset: 0, length: 0, reason: format!("io_uring_enter: {why}") }
}

/// Why the system has no io_uring for this process; `None` if it has.
#[must_use]
pub fn io_uring_refusal() -> Option<String> {
    IoUring::new(1).err().map(|error| refusal(&error))
}

/// The reason why there is no ring, and the remedy.
fn refusal(error: &std::io::Error) -> String {
    let why = match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => {
            "a seccomp filter forbids it, as Docker's default one does, or the setting kernel.io_uring_disabled"
        }
        Some(Errno::NOSYS) => "the kernel has none, or a seccomp filter hides it",
        Some(Errno::NOMEM) => "there is no memory that may be locked for it (ulimit -l)",
        Some(Errno::MFILE | Errno::NFILE) => "too many files are open (ulimit -n)",
        _ => "the kernel does not do what is asked of it",
    };
    format!("io_uring is refused: {error}: {why}")
}

impl RangeReader for Uring {
    fn kind(&self) -> ReaderKind {
        ReaderKind::Uring
    }

    fn how(&self) -> String {
        let buffers = if self.registered { "" } else { ", buffers not registered (ulimit -l)" };
        format!("{}, {DEPTH} reads at a time{buffers}", self.files.way())
    }

    fn alignment(&self) -> usize {
        self.files.alignment()
    }

    fn read(&mut self, extents: &[Extent], deliver: &mut dyn FnMut(usize, &[u8])) -> Result<(), DiskError> {
        // A failed call or a panic during delivery keeps the buffers of completed reads.
        if self.outstanding > 0 || self.free.len() != DEPTH {
            return Err(self.files.failed(no_call("an earlier read has failed")));
        }
        let mut waiting = extents.iter().enumerate();
        let mut failed = None;
        loop {
            while failed.is_none()
                && !self.free.is_empty()
                && let Some((index, &extent)) = waiting.next()
            {
                let buffer = self.free.pop().expect("one is free");
                let progress = ExtentProgress::new(extent, self.files.alignment());
                self.queue(buffer, &progress);
                self.under_way[buffer] = Some((index, progress));
            }
            if self.outstanding == 0 {
                break;
            }
            self.enter(GROUP.min(self.outstanding)).map_err(|failure| self.files.failed(failure))?;
            for at in 0..self.completed.len() {
                let (buffer, answer) = self.completed[at];
                let (index, mut progress) =
                    self.under_way[buffer].take().expect("a read for each completion");
                let ReadRequest { offset, from, length } = progress.request();
                let answer = usize::try_from(answer).map_err(|_| Errno::from_raw_os_error(-answer));
                let into = &mut self.buffers[buffer].bytes_mut()[from..from + length];
                let answer = self.files[progress.file()].seam.pass(offset, answer, into);
                match progress.take(answer) {
                    // Other reads are still queued; after a failure no read is retried.
                    Ok(ReadStep::Again) if failed.is_none() => {
                        self.queue(buffer, &progress);
                        self.under_way[buffer] = Some((index, progress));
                        continue;
                    }
                    Ok(ReadStep::Again) => {}
                    Ok(ReadStep::Done) => deliver(index, &self.buffers[buffer].bytes()[..progress.needed()]),
                    Err(failure) => {
                        failed.get_or_insert(failure);
                    }
                }
                self.free.push(buffer);
            }
        }
        failed.map_or(Ok(()), |failure| Err(self.files.failed(failure)))
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // A panic during delivery or a failed call leaves reads in flight.
        while self.outstanding > 0 {
            if self.enter(self.outstanding).is_err() {
                // The kernel may still write to the buffers, so they are leaked.
                mem::forget(mem::take(&mut self.buffers));
                mem::forget(self.ring.take());
                return;
            }
        }
        // The ring is dropped before the buffers.
        drop(self.ring.take());
    }
}

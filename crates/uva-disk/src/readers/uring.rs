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

/// Reads under way at most.
const DEPTH: usize = 64;

/// Completions that are waited for together. The other reads keep the device busy meanwhile.
const GROUP: usize = DEPTH / 4;

/// How long a call rests that the kernel had no room for, and how often.
const REST: Duration = Duration::from_micros(100);
const MOST_RESTS: u32 = 100_000;

/// One thread that keeps many reads under way.
///
/// Every buffer is either free, or belongs to one read that is in the queue or in the kernel. Only a completion hands it
/// back. A call returns, and the buffers are unmapped, when no read is outstanding.
pub(crate) struct Uring {
    files: OpenFiles,
    /// `None` only while the value is dropped.
    ring: Option<IoUring>,
    /// Each in pages of its own.
    buffers: Vec<ZeroedPages>,
    /// Whether the kernel keeps the buffers mapped.
    registered: bool,
    free: Vec<usize>,
    /// Reads in the queue or in the kernel.
    outstanding: usize,
    /// Of each buffer: the index of the extent that it is read into for, and how far that is.
    under_way: Vec<Option<(usize, ExtentProgress)>>,
    /// Buffer and answer of each completion of a group.
    completed: Vec<(usize, i32)>,
}

impl Uring {
    /// For extents of at most `longest` bytes.
    ///
    /// # Errors
    /// Why the system refuses it, and what to do.
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
        // SAFETY: the read goes into a buffer that nobody else uses until its completion was taken, and that stays mapped
        // until then: `Drop` waits for the reads that are under way.
        let queued = unsafe { self.ring().submission().push(&read) };
        queued.expect("the queue has an entry for each buffer");
        self.outstanding += 1;
    }

    /// Hands what is queued to the kernel, and waits for this many completions unless a signal comes first. They are in
    /// `completed` then.
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

/// A call that failed for all reads together.
fn no_call(why: &str) -> ReadFailure {
    ReadFailure { file: 0, offset: 0, length: 0, reason: format!("io_uring_enter: {why}") }
}

/// Why the system has no io_uring for this process; `None` where it has.
#[must_use]
pub fn io_uring_refusal() -> Option<String> {
    IoUring::new(1).err().map(|error| refusal(&error))
}

/// Why there is no ring, and what to do.
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
        // A call that failed, or a delivery that panicked, keeps the buffers of what it had completed.
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
                    // Others still wait for their turn: after a failure no read is begun anew.
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
        // A delivery that panicked, or a call that failed, leaves reads under way.
        while self.outstanding > 0 {
            if self.enter(self.outstanding).is_err() {
                // The kernel may still write to the buffers: they are given up.
                mem::forget(mem::take(&mut self.buffers));
                mem::forget(self.ring.take());
                return;
            }
        }
        // Before the buffers.
        drop(self.ring.take());
    }
}

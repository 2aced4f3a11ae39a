//! Reads of rows from files into slots on a device by cuFile, bypassing host memory.

use std::io::{Error, ErrorKind};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use uva_cuda::cufile::{Cufile, CufileBuffer, CufileFile, ReadFault};
use uva_cuda::memory::{IpcKind, SharedBuffer};
use uva_cuda::{Context, CudaStream};
use uva_disk::{DiskError, DiskReads, RetryCounts, TableShape, WatchedFiles};

use crate::error::GatherError;

/// The number of threads, each with one read in flight.
const THREADS: usize = 16;

/// The maximum size of a read in bytes. Several such reads are in flight at the same time.
const LONGEST: u64 = 1 << 20;

/// Bytes of each file that a trial reads.
const TRIED: usize = 4096;

/// A range of a file, and its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    file: usize,
    offset: u64,
    bytes: usize,
    /// The first byte in the memory of all slots.
    at: usize,
}

/// The work shared by all threads.
struct Work {
    pieces: Vec<Piece>,
    /// The next piece. Relaxed: the pieces were sent through a channel.
    next: AtomicUsize,
    /// Set by the thread whose read failed, and checked by the others before their next read. It only avoids reads: the
    /// failure itself is sent through a channel.
    has_failed: AtomicBool,
}

/// A failed piece, with the offset and the reason.
struct PieceFailure {
    piece: Piece,
    done: usize,
    reason: String,
}

/// The files and the memory, as registered with the driver.
struct Ends {
    files: Vec<CufileFile>,
    buffer: CufileBuffer,
    context: Arc<Context>,
}

/// A reader for runs of rows of several tables, each in its own file, into slots on a device.
pub struct DirectRuns {
    shapes: Vec<TableShape>,
    watched: WatchedFiles,
    ends: Arc<Ends>,
    compatibility: Option<String>,
    /// `None` only during drop, which ends the threads.
    work: Option<Sender<Arc<Work>>>,
    done: Receiver<Result<(), PieceFailure>>,
    threads: Vec<JoinHandle<()>>,
}

impl DirectRuns {
    /// Creates a reader of these files, which are open with `O_DIRECT`, with tables of these shapes, into this memory.
    ///
    /// # Errors
    /// The reason why cuFile does not support it.
    pub fn new(
        context: &Arc<Context>,
        watched: WatchedFiles,
        shapes: Vec<TableShape>,
        memory: Arc<SharedBuffer>,
    ) -> Result<Self, String> {
        if let Some(reason) = watched.cached() {
            return Err(format!("it needs O_DIRECT: {reason}"));
        }
        let driver = Cufile::open(context)?;
        let known = |(path, file): (&Path, &Arc<std::fs::File>)| {
            CufileFile::new(&driver, Arc::clone(file)).map_err(|why| format!("{}: {why}", path.display()))
        };
        let files = watched.paths().zip(watched.files()).map(known).collect::<Result<_, _>>()?;
        let buffer = CufileBuffer::new(&driver, memory);
        let ends = Arc::new(Ends { files, buffer, context: Arc::clone(context) });
        let (work, waiting) = channel::<Arc<Work>>();
        let (finished, done) = channel();
        let compatibility = driver.compatibility().map(str::to_owned);
        let (work, threads) = (Some(work), Vec::new());
        let mut runs = Self { shapes, watched, ends, compatibility, work, done, threads };
        let waiting = Arc::new(Mutex::new(waiting));
        for thread in 0..THREADS {
            let (ends, waiting, finished) =
                (Arc::clone(&runs.ends), Arc::clone(&waiting), Sender::clone(&finished));
            let spawned = thread::Builder::new()
                .name(format!("direct-{thread}"))
                .spawn(move || ends.work(&waiting, &finished));
            match spawned {
                Ok(handle) => runs.threads.push(handle),
                Err(error) => return Err(format!("its threads cannot be started: {error} (ulimit -u)")),
            }
        }
        Ok(runs)
    }

    /// Whether the reader's destination is this memory.
    pub(super) fn is_into(&self, memory: &Arc<SharedBuffer>) -> bool {
        Arc::ptr_eq(self.ends.buffer.memory(), memory)
    }

    /// Why reads pass through host memory; `None` if they do not, as reported by cuFile.
    pub fn compatibility(&self) -> Option<&str> {
        self.compatibility.as_deref()
    }

    /// Why the slots are not registered with cuFile, which then copies through its own buffers; `None` if they are.
    pub fn unregistered(&self) -> Option<&str> {
        self.ends.buffer.unregistered()
    }

    /// A description of the reader.
    #[must_use]
    pub fn how(compatibility: Option<&str>) -> String {
        let way = compatibility.map_or_else(
            || "from the disk into the GPU's memory".to_owned(),
            |why| format!("compatibility mode, through host memory: {why}"),
        );
        format!("{way}, {THREADS} threads")
    }

    /// Reads the rows of these runs of every table into the slot that begins at byte `slot` of the memory. The rows of
    /// each table are written to its range of the slot, in the order of the runs, when this returns. The bytes counted
    /// as read are those requested from cuFile.
    ///
    /// # Errors
    /// [`GatherError::OutputLength`] for a range that is not as long as the rows; [`GatherError::Disk`] if a read
    /// failed or a file changed; the content of the ranges is then undefined.
    ///
    /// # Panics
    /// If a row or a range is out of bounds.
    ///
    /// # Safety
    /// Neither the host nor work on the device may use these ranges of the slot during the call.
    pub(super) unsafe fn read(
        &mut self,
        runs: &[Range<usize>],
        slot: usize,
        ranges: &[Range<usize>],
    ) -> Result<DiskReads, GatherError> {
        let pieces = pieces(&self.shapes, runs, slot, ranges)?;
        let bytes = pieces.iter().map(|piece| piece.bytes as u64).sum();
        let reads = pieces.len() as u64;
        // SAFETY: the pieces are within the ranges, which are covered by the caller's promise.
        unsafe { self.bring(pieces) }?;
        Ok(DiskReads { bytes_asked: bytes, bytes_read: bytes, reads })
    }

    /// Reads these pieces, by all threads.
    ///
    /// # Safety
    /// As [`read`](Self::read), for the destinations of the pieces.
    unsafe fn bring(&mut self, pieces: Vec<Piece>) -> Result<(), DiskError> {
        let end = pieces.iter().map(|piece| piece.at + piece.bytes).max().unwrap_or(0);
        // Checked here, since a panic in a thread would go unnoticed.
        let memory = self.ends.buffer.memory().bytes();
        assert!(end <= memory, "bytes up to {end} of {memory}");
        let helpers = pieces.len().min(THREADS);
        let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = Arc::new(Work { pieces, next, has_failed });
        let sender = self.work.as_ref().expect("it is there until the value is dropped");
        for _ in 0..helpers {
            assert!(sender.send(Arc::clone(&work)).is_ok(), "threads receive until the value is dropped");
        }
        // Waits for all threads, even after a failure, so that the slot is no longer written.
        let answers = self.done.iter().take(helpers).collect::<Vec<_>>();
        // A change explains a failed read better than the read's own error.
        self.watched.check()?;
        match answers.into_iter().find_map(Result::err) {
            None => Ok(()),
            Some(PieceFailure { piece: Piece { file, offset, bytes, .. }, done, reason }) => {
                Err(self.watched.failed(file, offset + done as u64, bytes - done, reason))
            }
        }
    }
}

impl Ends {
    /// Executes queued work until the queue is closed.
    fn work(&self, waiting: &Mutex<Receiver<Arc<Work>>>, finished: &Sender<Result<(), PieceFailure>>) {
        // cuFile reads in the context that is current on its caller's thread.
        let bound = self.context.bind().map_err(|error| error.to_string());
        loop {
            // The lock is held while this thread waits for work, and the others wait for the lock.
            let work = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(work) = work else { return };
            if finished.send(self.share(&work, bound.as_ref().err())).is_err() {
                return;
            }
        }
    }

    /// Reads pieces until none is left.
    fn share(&self, work: &Work, unbound: Option<&String>) -> Result<(), PieceFailure> {
        while !work.has_failed.load(Ordering::Relaxed) {
            let Some(piece) = work.pieces.get(work.next.fetch_add(1, Ordering::Relaxed)) else { break };
            let read = match unbound {
                None => self.read(*piece),
                Some(reason) => Err(PieceFailure { piece: *piece, done: 0, reason: reason.clone() }),
            };
            if let Err(failure) = read {
                work.has_failed.store(true, Ordering::Relaxed);
                return Err(failure);
            }
        }
        Ok(())
    }

    fn read(&self, piece: Piece) -> Result<(), PieceFailure> {
        let (mut done, mut tries) = (0, RetryCounts::default());
        while done < piece.bytes {
            let failed = |reason: String| Err(PieceFailure { piece, done, reason });
            let (offset, rest) = (piece.offset + done as u64, piece.bytes - done);
            // SAFETY: a part of the piece, whose destination is exclusive by the promise of `bring`. No two pieces
            // overlap.
            let read = unsafe { self.files[piece.file].read(offset, rest, &self.buffer, piece.at + done) };
            match read {
                Ok(0) => return failed("the file ends there".to_owned()),
                Ok(read) => {
                    done += read;
                    tries.brought();
                }
                Err(fault) => match passing(&fault) {
                    Some(kind) if tries.again(Some(kind)) => {}
                    Some(_) => return failed(format!("{fault}, however often it is read")),
                    None => return failed(fault.to_string()),
                },
            }
        }
        Ok(())
    }
}

/// The kind of a transient fault, after which the same read may succeed: it was interrupted, or the kernel had too few
/// resources.
fn passing(fault: &ReadFault) -> Option<ErrorKind> {
    let ReadFault::System(errno) = fault else { return None };
    let kind = Error::from_raw_os_error(*errno).kind();
    matches!(kind, ErrorKind::Interrupted | ErrorKind::WouldBlock).then_some(kind)
}

impl Drop for DirectRuns {
    fn drop(&mut self) {
        drop(self.work.take());
        for thread in self.threads.drain(..) {
            // A panic of a thread has been printed already.
            let _ = thread.join();
        }
    }
}

/// The reads for runs of rows of every table, in the order of the files: each run at once, or in parts that end at
/// multiples of [`LONGEST`].
fn pieces(
    shapes: &[TableShape],
    runs: &[Range<usize>],
    slot: usize,
    ranges: &[Range<usize>],
) -> Result<Vec<Piece>, GatherError> {
    let rows: usize = runs.iter().map(ExactSizeIterator::len).sum();
    let mut before = 0;
    let mut sorted: Vec<(Range<usize>, usize)> = Vec::with_capacity(runs.len());
    for run in runs {
        sorted.push((run.clone(), before));
        before += run.len();
    }
    sorted.sort_unstable_by_key(|(run, _)| run.start);
    let mut pieces = Vec::with_capacity(shapes.len() * runs.len());
    for (file, (shape, range)) in shapes.iter().zip(ranges).enumerate() {
        let (row_bytes, length) = (shape.row_bytes, range.len());
        if rows.checked_mul(row_bytes) != Some(length) {
            return Err(GatherError::OutputLength { ids: rows, row_bytes, length });
        }
        for (run, before) in &sorted {
            assert!(run.end <= shape.rows, "rows {run:?} of {} rows", shape.rows);
            let mut offset = shape.offset + (run.start * row_bytes) as u64;
            let end = offset + (run.len() * row_bytes) as u64;
            let mut at = slot + range.start + before * row_bytes;
            while offset < end {
                let bytes = (end.min(offset - offset % LONGEST + LONGEST) - offset) as usize;
                pieces.push(Piece { file, offset, bytes, at });
                (offset, at) = (offset + bytes as u64, at + bytes);
            }
        }
    }
    Ok(pieces)
}

/// Reads the beginning of each of these files into memory of the device, and compares it with what the system reads.
/// Returns why cuFile uses host memory; `None` if it does not.
///
/// # Errors
/// The reason why cuFile does not read them.
pub fn try_direct_reads(context: &Arc<Context>, paths: &[&Path]) -> Result<Option<String>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let shape = TableShape { offset: 0, rows: 0, row_bytes: 1 };
    let tables: Vec<_> = paths.iter().map(|path| (*path, shape)).collect();
    let watched = WatchedFiles::open(&tables).map_err(|error| text(&error))?;
    let mut expected = Vec::with_capacity(paths.len());
    for path in paths {
        expected.push(beginning(path).map_err(|error| format!("{}: {error}", path.display()))?);
    }
    let what = "a first read by cuFile";
    let bytes = TRIED * paths.len();
    let memory = SharedBuffer::create_for_storage(context, bytes, IpcKind::Auto, what);
    let memory = Arc::new(memory.map_err(|error| text(&error))?);
    let shapes = vec![shape; paths.len()];
    let mut runs = DirectRuns::new(context, watched, shapes, Arc::clone(&memory))?;
    let piece =
        |(file, bytes): (usize, &Vec<u8>)| Piece { file, offset: 0, bytes: bytes.len(), at: file * TRIED };
    let pieces: Vec<Piece> = expected.iter().enumerate().map(piece).collect();
    // SAFETY: the memory is owned by this function, and no work is enqueued on it.
    unsafe { runs.bring(pieces) }.map_err(|error| text(&error))?;
    let stream = CudaStream::new(context).map_err(|error| text(&error))?;
    let mut found: Vec<Vec<u8>> = expected.iter().map(|bytes| vec![0; bytes.len()]).collect();
    let mut parts: Vec<(Range<usize>, &mut [u8])> = found
        .iter_mut()
        .enumerate()
        .map(|(file, bytes)| (file * TRIED..file * TRIED + bytes.len(), bytes.as_mut_slice()))
        .collect();
    memory.read_back(&stream, &mut parts).map_err(|error| text(&error))?;
    match found.iter().zip(&expected).position(|(found, expected)| found != expected) {
        None => Ok(runs.compatibility().map(str::to_owned)),
        Some(file) => Err(format!("{}: it reads other bytes than the system", paths[file].display())),
    }
}

/// The first bytes of a file, at most [`TRIED`].
fn beginning(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    uva_mem::files::open_regular(path)?.take(TRIED as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_of_every_table_is_copied_to_its_place_in_file_order() {
        let shape = |row_bytes| TableShape { offset: 4096, rows: 100, row_bytes };
        let piece = |file, offset, bytes, at| Piece { file, offset, bytes, at };
        let found = pieces(&[shape(10), shape(4)], &[50..53, 2..3], 1000, &[64..104, 128..144]).unwrap();
        let expected = [
            piece(0, 4116, 10, 1000 + 64 + 30),
            piece(0, 4596, 30, 1000 + 64),
            piece(1, 4104, 4, 1000 + 128 + 12),
            piece(1, 4296, 12, 1000 + 128),
        ];
        assert_eq!(found, expected);
        assert_eq!(pieces(&[shape(10)], &[], 0, std::slice::from_ref(&(64..64))), Ok(Vec::new()));
        let refused = pieces(&[shape(10)], &[2..3, 5..6], 0, std::slice::from_ref(&(64..83)));
        assert_eq!(refused, Err(GatherError::OutputLength { ids: 2, row_bytes: 10, length: 19 }));
    }

    #[test]
    fn long_runs_are_read_in_parts_that_end_on_whole_mebibytes() {
        let shape = TableShape { offset: 4096, rows: 3000, row_bytes: 1000 };
        let found =
            pieces(&[shape], std::slice::from_ref(&(100..2600)), 0, std::slice::from_ref(&(0..2_500_000)));
        let found = found.unwrap();
        let ends: Vec<u64> = found.iter().map(|piece| piece.offset + piece.bytes as u64).collect();
        assert_eq!(ends, [1 << 20, 2 << 20, 4096 + 2_600_000]);
        let mut next = 0;
        for piece in found {
            assert_eq!((piece.at, piece.offset), (next, 4096 + 100_000 + next as u64));
            next += piece.bytes;
        }
    }

    #[test]
    fn only_what_may_be_otherwise_the_next_time_is_read_again() {
        // EINTR, EAGAIN; EIO, EINVAL.
        assert_eq!(
            [4, 11, 5, 22].map(|errno| passing(&ReadFault::System(errno)).is_some()),
            [true, true, false, false]
        );
    }
}

//! Reads of a mapped file.

use rustix::io::Errno;
use uva_mem::{MappedFile, ZeroedPages};

use crate::error::DiskError;
use crate::extent::Extent;
use crate::files::open_file::OpenFiles;
use crate::files::progress::{ExtentProgress, ReadFailure, ReadRequest, ReadStep, text};
use crate::files::seam::ReadResult;
use crate::kind::ReaderKind;
use crate::readers::reader::RangeReader;

/// Mapped files, whose pages the kernel copies.
///
/// A program that reads a page directly gets SIGBUS if the file was truncated or the device fails. The kernel returns
/// an error instead.
pub(crate) struct MappedReader {
    files: OpenFiles,
    /// The mapping of each file.
    maps: Vec<MappedFile>,
    buffer: ZeroedPages,
}

impl MappedReader {
    /// Creates a reader for extents of at most `longest` bytes.
    ///
    /// # Errors
    /// The reason why the system does not support it.
    pub fn new(files: OpenFiles, longest: usize) -> Result<Self, String> {
        let mut maps = Vec::with_capacity(files.len());
        for file in files.iter() {
            let map = MappedFile::of(&file.file, &file.path)
                .map_err(|error| format!("it cannot be mapped: {error} (ulimit -v)"))?;
            map.expect_single_pages();
            map.expect_random_reads();
            maps.push(map);
        }
        let buffer = ZeroedPages::new(longest)
            .map_err(|error| format!("there is no memory for its buffer: {error}"))?;
        Ok(Self { files, maps, buffer })
    }
}

/// Copies bytes of the mapping from `offset` on, up to its end.
fn copy(map: &MappedFile, offset: u64, into: &mut [u8]) -> ReadResult {
    let rest = (map.bytes().len() as u64).saturating_sub(offset);
    let length = into.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
    if length == 0 {
        return Ok(0);
    }
    let from = map.bytes().as_ptr().wrapping_add(offset as usize);
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: length };
    let remote = libc::iovec { iov_base: from.cast_mut().cast(), iov_len: length };
    // SAFETY: the kernel writes `length` bytes of `into`, which holds at least as many and which no other code uses
    // during the call. It reads the mapping like another process's memory: pages that cannot be read are an error.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    match usize::try_from(copied) {
        Ok(copied) => Ok(copied),
        Err(_) => match Errno::from_io_error(&std::io::Error::last_os_error()) {
            // The error that a read of the file would have.
            None | Some(Errno::FAULT) => Err(Errno::IO),
            Some(error) => Err(error),
        },
    }
}

/// The reason why the kernel does not copy, and the remedy.
fn refusal(file: usize, error: Errno) -> ReadFailure {
    let reason = format!("process_vm_readv is refused: {}: a seccomp filter may forbid it", text(error));
    ReadFailure { file, offset: 0, length: 0, reason }
}

impl RangeReader for MappedReader {
    fn kind(&self) -> ReaderKind {
        ReaderKind::Mmap
    }

    fn how(&self) -> String {
        "through the page cache, one read at a time".to_owned()
    }

    fn alignment(&self) -> usize {
        self.files.alignment()
    }

    fn read(&mut self, extents: &[Extent], deliver: &mut dyn FnMut(usize, &[u8])) -> Result<(), DiskError> {
        let Self { files, maps, buffer } = self;
        let alignment = files.alignment();
        for (index, &extent) in extents.iter().enumerate() {
            let mut progress = ExtentProgress::new(extent, alignment);
            loop {
                let ReadRequest { offset, from, length } = progress.request();
                let into = &mut buffer.bytes_mut()[from..from + length];
                let answer = copy(&maps[extent.file], offset, into);
                if let Err(error @ (Errno::PERM | Errno::NOSYS)) = answer {
                    return Err(files.failed(refusal(extent.file, error)));
                }
                let answer = files[extent.file].seam.pass(offset, answer, into);
                if progress.take(answer).map_err(|failure| files.failed(failure))? == ReadStep::Done {
                    break;
                }
            }
            deliver(index, &buffer.bytes()[..extent.needed]);
        }
        Ok(())
    }
}

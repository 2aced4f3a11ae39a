//! The pages that the system keeps a mapped file on.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use rustix::fs::{Advice, fadvise};

use crate::files::open_regular;
use crate::mapping::file_state::FileState;
use crate::mapping::mapped_file::MappedFile;
use crate::memory::huge_share::huge_share;

/// The size of a huge page.
const HUGE_PAGE: usize = 2 << 20;
const BASE_PAGE: usize = 4 << 10;

/// How often [`MappedFile::read_again`] drops pages. A page may stay because another processor holds a reference to it
/// for a moment, or because it was dirty.
const DROPS: usize = 2;

/// The part of a file that is in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileInMemory {
    /// The fraction of its pages that are in the page cache.
    pub share: f64,
    /// The fraction of these that are on 2 MiB pages; `None` if no page is in memory or the kernel does not report it.
    pub huge_share: Option<f64>,
}

/// The pages that [`MappedFile::in_memory`] maps before the kernel reports their sizes, evenly spaced.
const MAPPED_PAGES: usize = 4096;

impl MappedFile {
    /// The part of the file that is in memory. Reads nothing from disk.
    ///
    /// # Errors
    /// The system's error.
    pub fn in_memory(&self) -> io::Result<FileInMemory> {
        let mut pages = vec![0_u8; self.bytes().len().div_ceil(BASE_PAGE)];
        if pages.is_empty() {
            return Ok(FileInMemory { share: 0.0, huge_share: None });
        }
        // SAFETY: the range is this value's own mapping, and the vector has a byte for each of its pages.
        if unsafe { libc::mincore(self.at(0), self.bytes().len(), pages.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let is_resident = |page: &usize| pages[*page] & 1 == 1;
        let resident = (0..pages.len()).filter(is_resident).count();
        // The kernel reports pages that are mapped here, and maps them on the first access.
        let spaced = (0..pages.len()).step_by(pages.len().div_ceil(MAPPED_PAGES));
        let read = spaced.filter(is_resident).fold(0_u8, |sum, page| sum ^ self.bytes()[page * BASE_PAGE]);
        std::hint::black_box(read);
        let huge_share = if resident > 0 { huge_share(self.bytes()) } else { None };
        Ok(FileInMemory { share: resident as f64 / pages.len() as f64, huge_share })
    }

    /// Moves the pages that hold these bytes of the file to 2 MiB pages in memory (`MADV_COLLAPSE`), in the page cache
    /// and thus for all processes. Only whole 2 MiB pages are moved.
    ///
    /// # Errors
    /// The system's error if it does not support this for files of this file system, or has no 2 MiB page.
    pub fn collapse(&self, bytes: Range<usize>) -> io::Result<()> {
        let Some(bytes) = self.whole_huge_pages(bytes) else { return Ok(()) };
        // memmap2 and rustix lack this advice.
        // SAFETY: the range lies within this value's own mapping, and collapsing changes no byte of it.
        match unsafe { libc::madvise(self.at(bytes.start), bytes.len(), libc::MADV_COLLAPSE) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Drops these bytes from the page cache and reads them from disk again, on 2 MiB pages if the file system has
    /// them. Pages that another process maps do not change. Only whole 2 MiB pages are read again.
    ///
    /// # Errors
    /// The system's error; [`io::ErrorKind::NotFound`] if another file is at the path.
    pub fn read_again(&self, bytes: Range<usize>) -> io::Result<()> {
        let Some(bytes) = self.whole_huge_pages(bytes) else { return Ok(()) };
        let file = open_regular(self.path())?;
        if !FileState::of(&file)?.is_of_file(&self.state()) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "another file has taken its place"));
        }
        write_back(&file, &bytes)?;
        let length = std::num::NonZeroU64::new(bytes.len() as u64);
        for _ in 0..DROPS {
            // SAFETY: the range lies within this value's own mapping, which is shared and read-only: pages that are
            // unmapped are mapped again by the next access, with the bytes of the file.
            let unmapped = unsafe { libc::madvise(self.at(bytes.start), bytes.len(), libc::MADV_DONTNEED) };
            if unmapped != 0 {
                return Err(io::Error::last_os_error());
            }
            fadvise(&file, bytes.start as u64, length, Advice::DontNeed)?;
        }
        // SAFETY: as above; this is a hint.
        unsafe { libc::madvise(self.at(bytes.start), bytes.len(), libc::MADV_HUGEPAGE) };
        self.touch(bytes);
        Ok(())
    }

    /// The fraction of these bytes of the file that a new mapping has on 2 MiB pages. `None` if the kernel does not
    /// report it.
    ///
    /// # Errors
    /// The system's error.
    pub fn huge_share_of(&self, bytes: Range<usize>) -> io::Result<Option<f64>> {
        let Some(bytes) = self.whole_huge_pages(bytes) else { return Ok(None) };
        let file = open_regular(self.path())?;
        let mut options = memmap2::MmapOptions::new();
        // SAFETY: as in `MappedFile::of`. The mapping is dropped before this function returns.
        let map = unsafe { options.offset(bytes.start as u64).len(bytes.len()).map(&file)? };
        // A refused hint only affects the share.
        let _ = map.advise(memmap2::Advice::HugePage);
        read_pages(&map);
        Ok(huge_share(&map))
    }

    /// Reads a byte of each base page, so that the system maps all of them.
    pub fn touch(&self, bytes: Range<usize>) {
        read_pages(&self.bytes()[bytes]);
    }

    /// The 2 MiB pages that lie within these bytes.
    fn whole_huge_pages(&self, bytes: Range<usize>) -> Option<Range<usize>> {
        let end = bytes.end.min(self.bytes().len()) / HUGE_PAGE * HUGE_PAGE;
        let start = bytes.start.next_multiple_of(HUGE_PAGE);
        (start < end).then_some(start..end)
    }

    fn at(&self, offset: usize) -> *mut libc::c_void {
        self.bytes()[offset..].as_ptr().cast_mut().cast()
    }
}

/// Writes dirty pages of these bytes to disk: they cannot be dropped.
fn write_back(file: &File, bytes: &Range<usize>) -> io::Result<()> {
    let how =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let (offset, length) = (bytes.start as i64, bytes.len() as i64);
    // SAFETY: the call takes no pointers, and the file is open.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, how) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn read_pages(bytes: &[u8]) {
    std::hint::black_box(bytes.iter().step_by(BASE_PAGE).fold(0_u8, |sum, byte| sum ^ byte));
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("uva-mem-{name}-{}", std::process::id()));
        let mut file = std::fs::File::create(&path).unwrap();
        // In small pieces, for which the file system takes small pages.
        bytes.chunks(BASE_PAGE).for_each(|piece| file.write_all(piece).unwrap());
        path
    }

    #[test]
    fn a_file_that_is_read_again_or_collapsed_keeps_its_bytes() {
        let bytes: Vec<u8> = (0..5 * HUGE_PAGE + 77).map(|at| (at / 1013) as u8).collect();
        let path = file("read-again", &bytes);
        let (mapped, other) = (MappedFile::open(&path).unwrap(), MappedFile::open(&path).unwrap());
        assert_eq!(mapped.bytes(), bytes);
        for part in [0..bytes.len(), 3..HUGE_PAGE + 5, 0..0, HUGE_PAGE..3 * HUGE_PAGE] {
            mapped.read_again(part.clone()).unwrap();
            // Kernels without support refuse.
            let _ = mapped.collapse(part);
            assert_eq!(mapped.bytes(), bytes);
            assert_eq!(other.bytes(), bytes);
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_was_replaced_is_not_read_again() {
        let bytes = vec![7_u8; 2 * HUGE_PAGE];
        let path = file("replaced", &bytes);
        let mapped = MappedFile::open(&path).unwrap();
        let next = file("replacement", &[1_u8; 3 * HUGE_PAGE]);
        std::fs::rename(&next, &path).unwrap();
        let refused = mapped.read_again(0..bytes.len()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotFound);
        assert_eq!(mapped.bytes(), bytes);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_was_just_written_is_in_memory() {
        let path = file("in-memory", &vec![1_u8; 2 * HUGE_PAGE + 1]);
        let mapped = MappedFile::open(&path).unwrap();
        let found = mapped.in_memory().unwrap();
        assert_eq!(found.share, 1.0);
        assert!(found.huge_share.is_none_or(|share| (0.0..=1.0).contains(&share)));
        let empty = file("in-memory-empty", &[]);
        assert_eq!(MappedFile::open(&empty).unwrap().in_memory().unwrap().share, 0.0);
        [path, empty].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }

    #[test]
    fn only_whole_huge_pages_are_moved() {
        let path = file("whole", &vec![1_u8; 2 * HUGE_PAGE + 1]);
        let mapped = MappedFile::open(&path).unwrap();
        let whole = |bytes| mapped.whole_huge_pages(bytes);
        assert_eq!(whole(0..usize::MAX), Some(0..2 * HUGE_PAGE));
        assert_eq!(whole(1..2 * HUGE_PAGE), Some(HUGE_PAGE..2 * HUGE_PAGE));
        assert_eq!(whole(1..2 * HUGE_PAGE - 1), None);
        std::fs::remove_file(&path).unwrap();
    }
}

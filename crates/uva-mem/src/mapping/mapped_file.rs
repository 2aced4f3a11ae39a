//! Mapped files, read-only or private.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::files::open_regular;
use crate::mapping::file_state::FileState;
use crate::mapping::mapped_fault::MappingEntry;

/// A regular file's bytes, mapped read-only and shared with every other process that maps it.
///
/// Datasets are read through such mappings, so a table larger than memory uses address space, not memory.
#[derive(Debug)]
pub struct MappedFile {
    path: PathBuf,
    state: FileState,
    // Declared before the mapping, so that it is dropped first.
    _listed: MappingEntry,
    map: memmap2::Mmap,
}

impl MappedFile {
    /// Maps the whole file at `path`. An empty file maps to an empty slice.
    ///
    /// # Errors
    /// The error of opening or mapping it; the caller knows the path.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of(&open_regular(path)?, path)
    }

    /// Maps a whole open file. `path` is returned by [`path`](Self::path).
    ///
    /// # Errors
    /// The error of mapping it.
    pub fn of(file: &File, path: &Path) -> io::Result<Self> {
        // Taken before the mapping, which then shows this state or a later one that a comparison detects.
        let state = FileState::of(file)?;
        // SAFETY: the mapping is private to this value and never written through. Rust cannot rule out that another
        // process changes or truncates the file meanwhile. A change shows as other bytes, which every reader checks
        // before using them as an index. A truncation results in SIGBUS, which ends the process, with the file's name
        // if the program has installed the handler (`mapped_fault`). Datasets are written under a temporary name and
        // renamed, never changed in place.
        let map = unsafe { memmap2::Mmap::map(file)? };
        // If the file is not in memory yet but fits, request pages of 2 MiB. They are read at once and stay contiguous
        // where the file system supports it, which saves TLB misses on random reads. For a larger file each such page
        // would evict others. This is a hint: a refusal only affects speed.
        let memory = rustix::system::sysinfo();
        if (map.len() as u64) < memory.totalram.saturating_mul(memory.mem_unit.into()) / 2 {
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        let listed = MappingEntry::new(path, map.as_ptr(), map.len());
        Ok(Self { path: path.to_owned(), state, _listed: listed, map })
    }

    /// The bytes, page-aligned at their start.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's state when it was mapped.
    pub fn state(&self) -> FileState {
        self.state
    }

    /// Hints to the kernel that reads are for single pages. With pages of 2 MiB, the first read of a row would read 2
    /// MiB from disk.
    pub fn expect_single_pages(&self) {
        // A refused hint only affects speed.
        let _ = self.map.advise(memmap2::Advice::NoHugePage);
    }

    /// Hints to the kernel that reads will be random, so that it does not read ahead.
    pub fn expect_random_reads(&self) {
        // A refused hint only affects speed.
        let _ = self.map.advise(memmap2::Advice::Random);
    }
}

/// A regular file's bytes in a mapping private to this process, for code that cannot be prevented from writing.
///
/// Writes go to a copy of the page, never to the file or to any other mapping of it. Unmodified pages are shared with
/// the page cache, like those of a [`MappedFile`]. So the mapping uses address space, not memory.
#[derive(Debug)]
pub struct PrivateFile {
    /// The start of the mapping. Obtained once, so that no Rust reference exists that such a write could alias.
    pointer: *mut u8,
    // Declared before the mapping, so that it is dropped first.
    _listed: MappingEntry,
    map: memmap2::MmapMut,
}

// SAFETY: the pointer is only passed on; the mapping itself is Send and Sync.
unsafe impl Send for PrivateFile {}
// SAFETY: as above.
unsafe impl Sync for PrivateFile {}

impl PrivateFile {
    /// Maps the whole file at `path`.
    ///
    /// # Errors
    /// The error of opening or mapping it; the caller knows the path.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = open_regular(path)?;
        // Without NORESERVE the kernel would reserve memory for the whole file, and refuse one larger than memory.
        // SAFETY: as in `MappedFile::open`; changes of the file may or may not be visible, and no code here trusts its
        // content.
        let mut map = unsafe { memmap2::MmapOptions::new().no_reserve_swap().map_copy(&file)? };
        let pointer = map.as_mut_ptr();
        Ok(Self { pointer, _listed: MappingEntry::new(path, pointer, map.len()), map })
    }

    /// The first byte, page-aligned; [`len`](Self::len) bytes may be read and written for the lifetime of `self`.
    pub fn as_ptr(&self) -> *mut u8 {
        self.pointer
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether the file is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_to_a_private_file_reach_neither_the_file_nor_other_mappings() {
        let path = std::env::temp_dir().join(format!("uva-mem-private-{}", std::process::id()));
        std::fs::write(&path, b"abcdef").unwrap();
        let (private, shared) = (PrivateFile::open(&path).unwrap(), MappedFile::open(&path).unwrap());
        assert_eq!(private.len(), 6);
        // SAFETY: the mapping has six bytes, and no other code has the pointer.
        unsafe { private.as_ptr().write(b'X') };
        // SAFETY: as above.
        let read = unsafe { std::slice::from_raw_parts(private.as_ptr(), private.len()) };
        assert_eq!(read, b"Xbcdef");
        assert_eq!(shared.bytes(), b"abcdef");
        assert_eq!(std::fs::read(&path).unwrap(), b"abcdef");
        std::fs::remove_file(&path).unwrap();
    }
}

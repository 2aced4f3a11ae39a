//! Mapped files: to be read, or to be lent to code that may write.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::files::open_regular;
use crate::mapping::file_state::FileState;
use crate::mapping::mapped_fault::MappingEntry;

/// A regular file's bytes, mapped read-only and shared with every other process that maps it.
///
/// Datasets are read through this, so a table larger than memory costs address space, not memory.
#[derive(Debug)]
pub struct MappedFile {
    path: PathBuf,
    state: FileState,
    // Dropped before the mapping that it lists.
    _listed: MappingEntry,
    map: memmap2::Mmap,
}

impl MappedFile {
    /// Maps the whole of the file at `path`. An empty file maps to an empty slice.
    ///
    /// # Errors
    /// The error of opening or mapping it; the caller knows the path.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of(&open_regular(path)?, path)
    }

    /// Maps the whole of a file that is open. `path` is what [`path`](Self::path) will say.
    ///
    /// # Errors
    /// The error of mapping it.
    pub fn of(file: &File, path: &Path) -> io::Result<Self> {
        // Before the mapping: what it shows is of this state or a later one, which a comparison finds.
        let state = FileState::of(file)?;
        // SAFETY: the mapping is private to this value and never written through. Rust cannot rule out that another
        // process changes or truncates the file meanwhile. A change shows as other bytes, which every reader checks
        // before using them as an index. A truncation ends in SIGBUS, which ends the process, by name if its program
        // asked for that (`mapped_fault`). Datasets are written beside and renamed, never changed in place.
        let map = unsafe { memmap2::Mmap::map(file)? };
        // If the file is not in memory yet and will fit there, ask for pages of 2 MiB. They are read at once and stay
        // in one piece where the file system supports it, which saves TLB misses on random reads. For a larger file
        // each such page would evict others. This is a hint: a refusal costs speed only.
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

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's state when it was mapped.
    pub fn state(&self) -> FileState {
        self.state
    }

    /// Hints to the kernel that only single pages are wanted. With pages of 2 MiB, the first read of a row would bring as
    /// much from the disk.
    pub fn expect_single_pages(&self) {
        // A refused hint costs speed only.
        let _ = self.map.advise(memmap2::Advice::NoHugePage);
    }

    /// Hints to the kernel that reads will be random, so that it does not read ahead.
    pub fn expect_random_reads(&self) {
        // A refused hint costs speed only.
        let _ = self.map.advise(memmap2::Advice::Random);
    }
}

/// A regular file's bytes in a mapping private to this process: for lending to code that cannot be kept from writing.
///
/// Writes go to a copy of the page, never to the file or to any other mapping of it. Pages that nobody wrote to are
/// shared with the page cache, as those of a [`MappedFile`] are. So it costs address space, not memory.
#[derive(Debug)]
pub struct PrivateFile {
    /// Where the mapping begins. Taken once, so that no Rust reference exists that such a write could contradict.
    pointer: *mut u8,
    // Dropped before the mapping that it lists.
    _listed: MappingEntry,
    map: memmap2::MmapMut,
}

// SAFETY: the pointer is only handed on; the mapping itself is Send and Sync.
unsafe impl Send for PrivateFile {}
// SAFETY: as above.
unsafe impl Sync for PrivateFile {}

impl PrivateFile {
    /// Maps the whole of the file at `path`.
    ///
    /// # Errors
    /// The error of opening or mapping it; the caller knows the path.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = open_regular(path)?;
        // Without NORESERVE the kernel would reserve memory for the whole file, and refuse one larger than memory.
        // SAFETY: as in `MappedFile::open`; changes of the file may or may not show, and nothing here trusts its
        // content.
        let mut map = unsafe { memmap2::MmapOptions::new().no_reserve_swap().map_copy(&file)? };
        let pointer = map.as_mut_ptr();
        Ok(Self { pointer, _listed: MappingEntry::new(path, pointer, map.len()), map })
    }

    /// The first byte, page-aligned; [`len`](Self::len) of them may be read and written as long as this lives.
    pub fn as_ptr(&self) -> *mut u8 {
        self.pointer
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there is none.
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
        // SAFETY: six bytes long, and nobody else knows the pointer.
        unsafe { private.as_ptr().write(b'X') };
        // SAFETY: as above.
        let read = unsafe { std::slice::from_raw_parts(private.as_ptr(), private.len()) };
        assert_eq!(read, b"Xbcdef");
        assert_eq!(shared.bytes(), b"abcdef");
        assert_eq!(std::fs::read(&path).unwrap(), b"abcdef");
        std::fs::remove_file(&path).unwrap();
    }
}

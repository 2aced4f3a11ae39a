//! A file mapped read-only.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A regular file's bytes, mapped read-only and shared with every other process that maps it.
///
/// Datasets are read through this, so a table larger than memory costs address space, not memory.
#[derive(Debug)]
pub struct MappedFile {
    path: PathBuf,
    map: memmap2::Mmap,
}

impl MappedFile {
    /// Maps the whole of the file at `path`. An empty file maps to an empty slice.
    ///
    /// # Errors
    /// What opening or mapping it said; the caller knows the path.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        // SAFETY: the mapping is private to this value and never written through. What Rust cannot rule out is
        // another process changing or truncating the file meanwhile: a change shows as other bytes, which every
        // reader checks before using them as an index; a truncation ends in SIGBUS, which ends the role and is
        // reported by its launcher. Datasets are written beside and renamed, never changed in place.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Self { path: path.to_owned(), map })
    }

    /// The bytes, page-aligned at their start.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells the kernel that reads will jump about, so that it reads no pages ahead of them. Advice only.
    pub fn expect_random_reads(&self) {
        // Advice that is refused changes nothing but speed.
        let _ = self.map.advise(memmap2::Advice::Random);
    }
}

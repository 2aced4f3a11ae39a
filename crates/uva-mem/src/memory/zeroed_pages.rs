//! Memory of one process for random reads and writes.

use std::io;
use std::sync::{Mutex, PoisonError};

use memmap2::{Advice, MmapMut};

use crate::memory::fork_guard::{Backing, ForkGuard};

/// Bytes that a thread copies at a time: several 2 MiB pages, so that no page is written by two threads.
const PIECE_BYTES: usize = 8 << 20;

/// The page size for some memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageSize {
    /// 4 KiB, with a hint to the system not to merge them.
    Base,
    /// 2 MiB: a hint that the system may ignore.
    Huge,
}

impl PageSize {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Huge => "huge",
        }
    }
}

/// Page-aligned anonymous memory, initially zero. Random reads of a large array cause TLB misses on 4 KiB pages, so
/// larger pages are requested. Untouched pages use no memory, except where the system rounds up to a larger page.
#[derive(Debug)]
pub struct ZeroedPages {
    /// Declared before the memory, so that it is dropped first.
    guard: Option<ForkGuard>,
    /// `None` for an empty allocation, which the system does not map.
    memory: Option<MmapMut>,
}

impl ZeroedPages {
    /// Allocates `bytes` bytes.
    ///
    /// # Errors
    /// The system's error if there is too little memory.
    pub fn new(bytes: usize) -> io::Result<Self> {
        if bytes == 0 {
            return Ok(Self { guard: None, memory: None });
        }
        let memory = MmapMut::map_anon(bytes)?;
        // This is a hint: a system without huge pages uses small ones.
        let _ = memory.advise(Advice::HugePage);
        Ok(Self { guard: None, memory: Some(memory) })
    }

    /// Copies `bytes` by up to `threads` threads (0 counts as 1). Without memory for a thread, fewer copy.
    ///
    /// # Errors
    /// The system's error if there is too little memory for the copy.
    pub fn copy_of(bytes: &[u8], threads: usize) -> io::Result<Self> {
        let mut pages = Self::new(bytes.len())?;
        let pieces = pages.bytes_mut().chunks_mut(PIECE_BYTES).zip(bytes.chunks(PIECE_BYTES));
        let pieces = Mutex::new(pieces);
        let copy = || {
            // The lock is held only while the next piece is determined.
            let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
            while let Some((to, from)) = next() {
                to.copy_from_slice(from);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                let _ = std::thread::Builder::new().spawn_scoped(scope, copy);
            }
            copy();
        });
        Ok(pages)
    }

    /// Allocates `bytes` bytes on pages of this size.
    ///
    /// # Errors
    /// The system's error if there is too little memory, or if huge pages are requested but not supported.
    pub fn on(size: PageSize, bytes: usize) -> io::Result<Self> {
        let pages = Self::new(bytes)?;
        if let Some(memory) = &pages.memory {
            memory.advise(match size {
                PageSize::Base => Advice::NoHugePage,
                PageSize::Huge => Advice::HugePage,
            })?;
        }
        Ok(pages)
    }

    /// Allocates every page now, so that a lack of memory is an error here instead of a kill later.
    ///
    /// # Errors
    /// The system's error if the pages cannot be allocated (or the kernel is older than 5.14).
    pub fn populate(&self) -> io::Result<()> {
        self.memory.as_ref().map_or(Ok(()), |memory| memory.advise(Advice::PopulateWrite))
    }

    /// Hides the memory from forked children, which get no copy of it: copying gigabytes takes long, and pinned pages
    /// must not move. In a child the addresses stay reserved, and reading them is a SIGSEGV.
    pub fn keep_from_children(&mut self) {
        if let Some(memory) = &mut self.memory {
            let bytes = memory.len().next_multiple_of(rustix::param::page_size());
            self.guard.get_or_insert_with(|| ForkGuard::new(memory.as_mut_ptr(), bytes, Backing::Private));
        }
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.memory.as_deref().unwrap_or_default()
    }

    /// The bytes, to be written.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.as_deref_mut().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_zero_and_keep_what_is_written() {
        let mut pages = ZeroedPages::new(5 << 20).unwrap();
        assert!(pages.bytes().len() == 5 << 20 && pages.bytes().iter().all(|&byte| byte == 0));
        assert!(pages.bytes().as_ptr().addr().is_multiple_of(4096));
        pages.keep_from_children();
        pages.populate().unwrap();
        pages.bytes_mut()[4 << 20] = 7;
        assert_eq!(pages.bytes()[4 << 20], 7);
        assert!(ZeroedPages::new(0).unwrap().bytes().is_empty());
        assert!(ZeroedPages::new(usize::MAX / 2).is_err());
    }
}

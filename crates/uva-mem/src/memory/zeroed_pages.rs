//! Memory of one process for random reads and writes.

use std::io;

use memmap2::{Advice, MmapMut};

use crate::memory::fork_guard::{Backing, ForkGuard};

/// The page size for some memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageSize {
    /// 4 KiB: the system is asked to keep them so.
    Base,
    /// 2 MiB: a hint, which the system follows where it can.
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

/// Page-aligned anonymous memory, all zeros at first. Random reads of a large array cause TLB misses on 4 KiB pages, so
/// the system is asked for larger ones. It takes no memory before it is touched, except where the system rounds up to a
/// larger page.
#[derive(Debug)]
pub struct ZeroedPages {
    /// Declared before the memory, so that it is dropped first.
    guard: Option<ForkGuard>,
    /// `None` for no bytes, which the system does not map.
    memory: Option<MmapMut>,
}

impl ZeroedPages {
    /// Allocates this many bytes.
    ///
    /// # Errors
    /// The system's error when there is no more memory.
    pub fn new(bytes: usize) -> io::Result<Self> {
        if bytes == 0 {
            return Ok(Self { guard: None, memory: None });
        }
        let memory = MmapMut::map_anon(bytes)?;
        // A hint: a system without huge pages uses small ones.
        let _ = memory.advise(Advice::HugePage);
        Ok(Self { guard: None, memory: Some(memory) })
    }

    /// Allocates this many bytes on pages of this size.
    ///
    /// # Errors
    /// The system's error when there is no more memory, or no huge pages at all where those are asked for.
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

    /// Allocates every page now, so that a lack of memory is an error here and not a kill later.
    ///
    /// # Errors
    /// The system's error when the pages cannot be had (or the kernel is older than 5.14).
    pub fn populate(&self) -> io::Result<()> {
        self.memory.as_ref().map_or(Ok(()), |memory| memory.advise(Advice::PopulateWrite))
    }

    /// Keeps the memory from forked children, which get no copy of it: that of gigabytes takes long, and pinned pages
    /// must stay where they are. In a child its addresses stay reserved, and reading them is a SIGSEGV.
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

//! Memory of one process that is read and written at random.

use std::io;

use memmap2::{Advice, MmapMut};

/// Pages that memory is wanted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageSize {
    /// 4 KiB: the system is told to leave them so.
    Base,
    /// 2 MiB: a wish, which the system fulfils where it can.
    Huge,
}

impl PageSize {
    /// As reports have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Huge => "huge",
        }
    }
}

/// Anonymous memory that begins on a page, all zeros at first. Random reads of a large array miss the processor's
/// address translations on 4 KiB pages, so the system is asked for larger ones. None of it costs memory before it is
/// touched, but for what the system rounds up to a larger page.
#[derive(Debug)]
pub struct ZeroedPages {
    /// `None` for no bytes, which the system does not map.
    memory: Option<MmapMut>,
}

impl ZeroedPages {
    /// So many bytes.
    ///
    /// # Errors
    /// What the system said that has no more.
    pub fn new(bytes: usize) -> io::Result<Self> {
        if bytes == 0 {
            return Ok(Self { memory: None });
        }
        let memory = MmapMut::map_anon(bytes)?;
        // A wish: a system without huge pages keeps to small ones.
        let _ = memory.advise(Advice::HugePage);
        Ok(Self { memory: Some(memory) })
    }

    /// So many bytes on pages of this size.
    ///
    /// # Errors
    /// What the system said that has no more, or that has no huge pages at all where those are wanted.
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

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.memory.as_deref().unwrap_or_default()
    }

    /// The bytes, to be written.
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
        pages.bytes_mut()[4 << 20] = 7;
        assert_eq!(pages.bytes()[4 << 20], 7);
        assert!(ZeroedPages::new(0).unwrap().bytes().is_empty());
        assert!(ZeroedPages::new(usize::MAX / 2).is_err());
    }
}

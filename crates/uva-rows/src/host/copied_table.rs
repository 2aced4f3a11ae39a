//! A table in anonymous memory on 2 MiB pages.

use std::fmt;
use std::io;

use uva_cuda::memory::TableBytes;
use uva_mem::{ZeroedPages, huge_share};

use crate::error::GatherError;

/// A copy of a table in anonymous memory, on 2 MiB pages if the system has them.
///
/// Reading a random row of a table on 4 KiB pages costs a TLB miss and often a walk of page tables that are not in a
/// cache; on 2 MiB pages the page tables of the whole table are small.
pub struct CopiedTable {
    pages: ZeroedPages,
}

impl CopiedTable {
    /// Copies `table` by `threads` threads (0 counts as 1).
    ///
    /// # Errors
    /// [`GatherError::CopyMemory`] if there is too little memory.
    pub fn new(table: &[u8], threads: usize) -> Result<Self, GatherError> {
        let no_memory =
            |error: io::Error| GatherError::CopyMemory { bytes: table.len(), reason: error.to_string() };
        Ok(Self { pages: ZeroedPages::copy_of(table, threads).map_err(no_memory)? })
    }

    /// The fraction of the copy on 2 MiB pages; `None` if the system does not report it.
    pub fn huge_share(&self) -> Option<f64> {
        huge_share(self.bytes())
    }
}

impl TableBytes for CopiedTable {
    fn bytes(&self) -> &[u8] {
        self.pages.bytes()
    }

    fn is_writable(&self) -> bool {
        true
    }
}

impl fmt::Debug for CopiedTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a copy of {} bytes", self.bytes().len())
    }
}

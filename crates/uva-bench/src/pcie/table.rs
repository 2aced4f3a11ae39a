//! The source table of the gathers: pinned, on pages of a chosen kind, filled with distinguishable bytes.

use std::sync::Arc;
use std::time::Instant;

use memmap2::{Advice, MmapMut, MmapOptions};
use rayon::prelude::*;
use serde::Serialize;
use uva_cuda::memory::{
    HostMemory, PinHow, PinOptions, PinPages, PinReport, PinRequest, PinWay, PinnedTable, PreflightPolicy,
    TableBytes, preflight,
};
use uva_cuda::{Context, CudaError};

use super::ids::mix;

const HUGE_PAGE: usize = 2 << 20;
/// Words per task of a filling thread.
const FILL_WORDS: usize = 1 << 18;

/// The pages of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TablePages {
    /// 4 KiB pages, with transparent huge pages disabled.
    Base,
    /// 4 KiB pages that the kernel is advised to merge.
    TransparentHuge,
    /// 2 MiB pages that the administrator has reserved.
    Hugetlb,
    /// Memory that the driver allocates.
    #[serde(rename = "hostalloc")]
    HostAlloc,
}

impl TablePages {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Base, Self::TransparentHuge, Self::Hugetlb, Self::HostAlloc];

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::TransparentHuge => "transparent-huge",
            Self::Hugetlb => "hugetlb",
            Self::HostAlloc => "hostalloc",
        }
    }
}

/// The origin of a table.
#[derive(Clone, Debug, Serialize)]
pub struct TableReport {
    /// The requested pages.
    pub pages: TablePages,
    /// Bytes of the table.
    pub bytes: u64,
    /// Bytes of the table on transparent huge pages, as far as the system reports them.
    pub transparent_huge_bytes: Option<u64>,
    /// Seconds to allocate the pages and fill them.
    pub fill_seconds: f64,
    /// The method of pinning.
    pub pin: PinReport,
}

/// A pinned table of known bytes. Row 0 begins on a page.
pub(super) struct KnownTable {
    pub pinned: Arc<PinnedTable>,
    pub report: TableReport,
}

/// Pages, and the number of their bytes that belong to the table.
struct Owned {
    memory: MmapMut,
    bytes: usize,
}

impl TableBytes for Owned {
    fn bytes(&self) -> &[u8] {
        &self.memory[..self.bytes]
    }

    fn is_writable(&self) -> bool {
        true
    }
}

/// A table without the bytes after its last whole row.
pub(super) struct WholeRows {
    table: Arc<PinnedTable>,
    bytes: usize,
}

impl TableBytes for WholeRows {
    fn bytes(&self) -> &[u8] {
        &self.table.host()[..self.bytes]
    }
}

impl KnownTable {
    /// A table of `bytes` bytes, at least 8, rounded down to whole pages if it has at least one. `policy` decides what
    /// happens if memory seems insufficient.
    ///
    /// # Errors
    /// [`CudaError::Preflight`], [`CudaError::Unsupported`] or [`CudaError::System`] if such a table cannot be
    /// allocated; the text says why. [`CudaError::Call`].
    pub(super) fn new(
        context: &Arc<Context>,
        pages: TablePages,
        bytes: u64,
        policy: PreflightPolicy,
    ) -> Result<Self, CudaError> {
        let what = format!("a table of {bytes} bytes on {} pages", pages.name());
        let bytes = whole_pages(bytes)
            .ok_or_else(|| CudaError::Refused(format!("{what}: too large for this machine")))?;
        // Free pages don't include reserved ones: for those, mmap itself reports a shortage.
        if pages != TablePages::Hugetlb
            && let Ok(memory) = HostMemory::read()
        {
            let (way, remedies) = (PinWay::InPlace, "give a smaller table");
            let request = PinRequest { what: &what, bytes: bytes as u64, way, remedies };
            preflight(&request, &memory, policy).map_err(|error| CudaError::Preflight(error.to_string()))?;
        }
        let began = Instant::now();
        let huge_before = transparent_huge_bytes();
        let mut memory = map(pages, bytes, &what)?;
        fill(&mut memory);
        let fill_seconds = began.elapsed().as_secs_f64();
        let transparent_huge_bytes = transparent_huge_bytes()
            .zip(huge_before)
            .map(|(after, before)| after.saturating_sub(before).min(bytes as u64));
        // Its pages have been written by now, so pinning them needs no further memory.
        let preflight = PreflightPolicy::Off;
        let driver = pages == TablePages::HostAlloc;
        let pin_pages = if driver { PinPages::HostAlloc } else { PinPages::InPlace };
        let options = PinOptions {
            what: what.clone(),
            preflight,
            pages: pin_pages,
            others: !driver,
            ..PinOptions::default()
        };
        let pinned = PinnedTable::new(context, Arc::new(Owned { memory, bytes }), &options)?;
        if pinned.report().how == PinHow::Copied && !driver {
            let why = pinned.report().refused.clone().unwrap_or_default();
            return Err(CudaError::Unsupported(format!("{what} cannot be pinned where it lies: {why}")));
        }
        let report = TableReport {
            pages,
            bytes: bytes as u64,
            transparent_huge_bytes,
            fill_seconds,
            pin: pinned.report().clone(),
        };
        Ok(Self { pinned: Arc::new(pinned), report })
    }

    /// Number of rows of `row_bytes` bytes.
    pub(super) fn rows(&self, row_bytes: usize) -> u64 {
        (self.pinned.bytes() / row_bytes) as u64
    }

    /// The whole rows of `row_bytes` bytes, for the CPU.
    pub(super) fn whole_rows(&self, row_bytes: usize) -> WholeRows {
        WholeRows { table: Arc::clone(&self.pinned), bytes: self.pinned.bytes() / row_bytes * row_bytes }
    }
}

fn whole_pages(bytes: u64) -> Option<usize> {
    let bytes = usize::try_from(bytes).ok().filter(|&bytes| isize::try_from(bytes).is_ok())?;
    Some(match bytes {
        HUGE_PAGE.. => bytes / HUGE_PAGE * HUGE_PAGE,
        4096.. => bytes / 4096 * 4096,
        _ => bytes.max(8) / 8 * 8,
    })
}

fn map(pages: TablePages, bytes: usize, what: &str) -> Result<MmapMut, CudaError> {
    let refused = |error: std::io::Error, hint: &str| CudaError::System(format!("{what}: {error}{hint}"));
    let mut options = MmapOptions::new();
    if pages == TablePages::Hugetlb {
        let needed = bytes.div_ceil(HUGE_PAGE);
        let hint = format!(
            "; reserve {needed} huge pages first: echo {needed} | sudo tee /proc/sys/vm/nr_hugepages"
        );
        let memory = options.len(needed * HUGE_PAGE).huge(Some(21)).map_anon();
        return memory.map_err(|error| refused(error, &hint));
    }
    let memory = options.len(bytes).map_anon().map_err(|error| refused(error, ""))?;
    let advice = if pages == TablePages::TransparentHuge { Advice::HugePage } else { Advice::NoHugePage };
    memory.advise(advice).map_err(|error| refused(error, "; this system has no transparent huge pages"))?;
    Ok(memory)
}

/// Fills word `i` of the table with `mix(i)`, little-endian, for any row size, so that misplaced or shifted rows
/// differ.
fn fill(memory: &mut [u8]) {
    memory.par_chunks_mut(FILL_WORDS * 8).enumerate().for_each(|(part, bytes)| {
        for (word, place) in bytes.chunks_mut(8).enumerate() {
            let value = mix((part * FILL_WORDS + word) as u64).to_le_bytes();
            place.copy_from_slice(&value[..place.len()]);
        }
    });
}

/// Bytes of this process's anonymous memory on transparent huge pages.
fn transparent_huge_bytes() -> Option<u64> {
    let text = uva_mem::files::read_kernel_text("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_whole_pages_where_it_has_any() {
        assert_eq!(whole_pages(5 << 20), Some(4 << 20));
        assert_eq!(whole_pages(10_000), Some(8192));
        assert_eq!(whole_pages(100), Some(96));
        assert_eq!(whole_pages(u64::MAX), None);
    }

    #[test]
    fn every_word_is_filled_by_its_place_in_the_table() {
        let mut memory = vec![0; FILL_WORDS * 8 * 2 + 16];
        fill(&mut memory);
        for word in [0, 1, FILL_WORDS - 1, FILL_WORDS, FILL_WORDS * 2 + 1] {
            assert_eq!(memory[word * 8..][..8], mix(word as u64).to_le_bytes(), "word {word}");
        }
    }

    #[test]
    fn pages_that_were_not_reserved_are_refused_with_the_command_to_reserve() {
        // More than any machine has reserved.
        let error = map(TablePages::Hugetlb, 1 << 45, "a table").unwrap_err().to_string();
        assert!(error.contains("nr_hugepages"), "{error}");
    }
}

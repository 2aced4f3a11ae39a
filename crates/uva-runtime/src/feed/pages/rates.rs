//! Measurements of the pages of a file.

use std::time::Instant;

use uva_mem::{MappedFile, ZeroedPages, mix};
use uva_rows::{CopiedTable, HostPlace, MappedTable, RowSource};

use super::reads::RandomReads;
use crate::RuntimeError;
use crate::feed::rows::host::failed;
use crate::plan::page_choice::{PageMethod, Rates};

/// Bytes of the file that are read from both kinds of pages. Their page tables of 4 KiB pages have 512 KiB, more than
/// the first level of any processor's cache. A larger file gains more.
const SAMPLE_BYTES: usize = 256 << 20;

/// Bytes of the rows that are gathered in one measurement.
const GATHERED_BYTES: usize = 32 << 20;

/// Measurements from each kind of pages, in alternation; the fastest counts.
const REPEATS: usize = 3;

/// Bytes of the file on which a method is tried.
const TRIED_BYTES: usize = 16 << 20;

/// A method works if at least this fraction of the tried bytes is on 2 MiB pages afterwards.
const WORKS: f64 = 0.9;

impl Rates {
    /// Gathers random rows of a sample of the file, from the file's pages and from a copy.
    pub(super) fn measure(reads: &RandomReads<'_>) -> Result<Self, RuntimeError> {
        let (file, row_bytes, threads) = (reads.random.file, reads.row_bytes, reads.threads);
        let rows = (file.bytes().len().min(SAMPLE_BYTES) / row_bytes).max(1);
        let sample = &file.bytes()[..rows * row_bytes];
        // The file's pages are in memory before the copy is timed, since the run reads them in any case.
        file.touch(0..sample.len());
        let began = Instant::now();
        let copied = CopiedTable::new(sample, threads).map_err(failed)?;
        let copy = rate(sample.len(), began);
        let gathered = (GATHERED_BYTES / row_bytes).max(1);
        let mut out = ZeroedPages::new(gathered * row_bytes)
            .map_err(|error| RuntimeError::failed(format!("no memory to measure gathers: {error}")))?;
        let mut gather = |bytes: &[u8], repeat: usize| -> Result<f64, RuntimeError> {
            let mut source = MappedTable::new(bytes, row_bytes, threads).map_err(failed)?;
            let id = |at: usize| (mix((repeat * gathered + at) as u64) % rows as u64) as i64;
            let ids: Vec<i64> = (0..gathered).map(id).collect();
            let began = Instant::now();
            source.fill(&ids, HostPlace::new(out.bytes_mut())).map_err(failed)?;
            Ok(rate(gathered * row_bytes, began))
        };
        let (mut mapped, mut huge) = (0.0_f64, 0.0_f64);
        for repeat in 0..REPEATS {
            mapped = mapped.max(gather(sample, repeat)?);
            huge = huge.max(gather(uva_cuda::memory::TableBytes::bytes(&copied), repeat)?);
        }
        Ok(Self { mapped, huge, copy })
    }
}

impl PageMethod {
    /// Tries this method, which is not a copy, on the first bytes of the file. The bytes per second, if it works.
    pub(super) fn tried(self, file: &MappedFile) -> Option<f64> {
        let bytes = file.bytes().len().min(TRIED_BYTES);
        let began = Instant::now();
        let done = match self {
            Self::Collapse => file.collapse(0..bytes),
            Self::ReadAgain => file.read_again(0..bytes),
            Self::Mapped | Self::Copy => return None,
        };
        let tried = rate(bytes, began);
        match done.and_then(|()| file.huge_share_of(0..bytes)) {
            Ok(share) => share.is_some_and(|share| share >= WORKS).then_some(tried),
            Err(error) => {
                let (method, file) = (self.name(), file.path().display());
                tracing::debug!(method, %file, %error, "the pages of the file stay");
                None
            }
        }
    }
}

fn rate(bytes: usize, began: Instant) -> f64 {
    bytes as f64 / began.elapsed().as_secs_f64().max(f64::MIN_POSITIVE)
}

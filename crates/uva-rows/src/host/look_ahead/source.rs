//! A table on disk with rows kept in memory and rows read ahead.

use std::mem;
use std::sync::Arc;

use uva_disk::{AheadReader, AheadResult, DiskReads, RowFile};

use super::retention::{MOST_BATCHES, ResidentRows, RowLocation};
use crate::error::GatherError;
use crate::host::caches::CachedRows;
use crate::host::file::{Fetch, FileTable, row_source};
use crate::host::place::{HostPlace, HostTable};
use crate::source::{RowOrigin, RowSource, RowsRead, Ticket};

/// The maximum number of fills announced to [`LookAheadTable`] after the next one.
pub const LOOK_AHEAD_MOST: usize = MOST_BATCHES - 1;

/// The memory of a kept row of `row_bytes` bytes. Excludes the map of 4 bytes per row of the table.
#[must_use]
pub fn kept_row_bytes(row_bytes: usize) -> u64 {
    // The row's bytes, their allocation, and its state.
    row_bytes as u64 + 16 + 56
}

/// A table in a file, with chosen rows permanently in memory, and others temporarily.
///
/// Rows of earlier fills are kept up to the capacity. [Expected](RowSource::expect) fills decide which: Belady's rule
/// for expected fills, and SIEVE for other rows. Missing rows of expected fills are read ahead as far as the capacity
/// allows; the fill itself reads the others.
///
/// A failed read-ahead is ignored. The fill that needs its rows reads them, and reports an error.
#[derive(Debug)]
pub struct LookAheadTable {
    /// Dropped before the rows, since it must complete its reads first.
    ahead: Option<AheadReader>,
    file: FileTable,
    chosen: Option<Arc<CachedRows>>,
    kept: ResidentRows,
    /// Statistics of read-ahead not yet counted by a fill.
    uncounted: DiskReads,
    /// Places of a fill: missing rows, and rows being read. Kept to reuse the allocations.
    nowhere: Vec<(usize, i64)>,
    under_way: Vec<(usize, i64)>,
}

impl LookAheadTable {
    /// Creates a source that reads from `file`, and ahead of fills from `ahead`, a second handle of the same file, if
    /// given. `chosen` rows are permanently in memory; at most `rows` others are.
    ///
    /// # Errors
    /// [`GatherError::OtherTable`] for chosen rows of another table; [`GatherError::CacheMemory`];
    /// [`GatherError::Threads`].
    pub fn new(
        file: FileTable,
        ahead: Option<RowFile>,
        chosen: Option<Arc<CachedRows>>,
        rows: usize,
    ) -> Result<Self, GatherError> {
        let (table_rows, row_bytes) = (file.file().shape().rows, file.row_bytes());
        if let Some(chosen) = &chosen {
            chosen.check_table(table_rows, row_bytes)?;
        }
        let kept = ResidentRows::new(table_rows, row_bytes, rows.min(table_rows))?;
        let ahead = ahead.map(AheadReader::new).transpose();
        let ahead = ahead.map_err(|reason| GatherError::Threads { threads: 1, reason })?;
        let (nowhere, under_way) = (Vec::new(), Vec::new());
        Ok(Self { ahead, file, chosen, kept, uncounted: DiskReads::default(), nowhere, under_way })
    }

    /// The maximum number of kept rows, excluding the chosen ones.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.kept.capacity()
    }

    fn take_over(&mut self, AheadResult { rows, read }: AheadResult) {
        let is_read = read.is_ok();
        self.uncounted += read.unwrap_or_default();
        rows.into_iter().for_each(|row| self.kept.arrived(row, is_read));
    }

    fn take_over_what_is_there(&mut self) {
        while let Some(answer) = self.ahead.as_mut().and_then(AheadReader::answered) {
            self.take_over(answer);
        }
    }
}

impl Fetch for LookAheadTable {
    fn expect(&mut self, coming: &[&[i64]]) {
        if self.ahead.is_none() {
            return;
        }
        self.take_over_what_is_there();
        let rows = self.file.file().shape().rows as u64;
        for &ids in coming {
            // The fill itself reports ids that are not rows.
            let ids = if ids.iter().all(|&id| (id as u64) < rows) { ids } else { &[] };
            let chosen = &self.chosen;
            let is_chosen = |id| chosen.as_ref().is_some_and(|chosen| chosen.row(id).is_some());
            self.kept.expect(ids.iter().copied().filter(|&id| !is_chosen(id)));
        }
        let (mut first, of_first) = self.kept.claim_reads();
        // The current batch waits for its own rows only.
        let others = first.split_off(of_first);
        if let Some(ahead) = &mut self.ahead {
            ahead.read(first);
            ahead.read(others);
        }
    }

    fn fetch(&mut self, ids: &[i64], out: &mut [u8]) -> Result<RowsRead, GatherError> {
        self.take_over_what_is_there();
        let row_bytes = self.file.row_bytes();
        let chosen = self.chosen.clone();
        let is_chosen = |id| chosen.as_ref().is_some_and(|chosen| chosen.row(id).is_some());
        let others = || ids.iter().copied().enumerate().filter(|&(_, id)| !is_chosen(id));
        self.kept.begin(others().map(|(_, id)| id));
        let (mut nowhere, mut under_way) = (mem::take(&mut self.nowhere), mem::take(&mut self.under_way));
        nowhere.clear();
        under_way.clear();
        let (mut hits, mut kept, mut fresh) = (0, 0, 0);
        for (place, &id) in ids.iter().enumerate() {
            let out = &mut out[place * row_bytes..][..row_bytes];
            if let Some(row) = chosen.as_ref().and_then(|chosen| chosen.row(id)) {
                out.copy_from_slice(row);
                hits += 1;
                continue;
            }
            match self.kept.find(id) {
                RowLocation::Here { bytes, fresh: first } => {
                    out.copy_from_slice(bytes);
                    *(if first { &mut fresh } else { &mut kept }) += 1;
                }
                RowLocation::UnderWay => under_way.push((place, id)),
                RowLocation::Nowhere => nowhere.push((place, id)),
            }
        }
        // Also without rows, since this checks that the file is unchanged.
        let mut read = self.file.read(nowhere.iter().copied(), out)?;
        nowhere.clear();
        for &(place, id) in &under_way {
            while self.kept.find(id) == RowLocation::UnderWay {
                let answer = self.ahead.as_mut().and_then(AheadReader::wait);
                self.take_over(answer.expect("a row that is under way has an answer to come"));
            }
            match self.kept.find(id) {
                RowLocation::Here { bytes, .. } => {
                    out[place * row_bytes..][..row_bytes].copy_from_slice(bytes);
                    fresh += 1;
                }
                _ => nowhere.push((place, id)),
            }
        }
        if !nowhere.is_empty() {
            read = read.and(self.file.read(nowhere.iter().copied(), out)?);
        }
        self.kept.pass(others(), |place| &out[place * row_bytes..][..row_bytes]);
        (self.nowhere, self.under_way) = (nowhere, under_way);
        let ahead = mem::take(&mut self.uncounted);
        let read = read
            .and(RowsRead::of(RowOrigin::HostCache, hits, row_bytes))
            .and(RowsRead::of(RowOrigin::Kept, kept, row_bytes))
            .and(RowsRead::of(RowOrigin::ReadAhead, fresh, row_bytes).with_disk(ahead));
        Ok(read)
    }

    fn disk(&self) -> &FileTable {
        &self.file
    }

    fn disk_mut(&mut self) -> &mut FileTable {
        &mut self.file
    }
}

row_source!(LookAheadTable);

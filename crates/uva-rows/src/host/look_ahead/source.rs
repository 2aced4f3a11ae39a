//! A table on disk, behind the rows that are kept in memory and those that are read ahead.

use std::mem;
use std::sync::Arc;

use uva_disk::{AheadReader, AheadResult, DiskReads, RowFile};

use super::retention::{MOST_BATCHES, ResidentRows, RowLocation};
use crate::error::GatherError;
use crate::host::caches::CachedRows;
use crate::host::file::{Fetch, FileTable, row_source};
use crate::host::place::{HostPlace, HostTable};
use crate::source::{RowOrigin, RowSource, RowsRead, Ticket};

/// The most fills that [`LookAheadTable`] may be told of before the first of them is made, less that one.
pub const LOOK_AHEAD_MOST: usize = MOST_BATCHES - 1;

/// Bytes that a kept row takes, of a table whose rows have so many. The map of 4 bytes a row of the table comes on top.
#[must_use]
pub fn kept_row_bytes(row_bytes: usize) -> u64 {
    // Its bytes, their allocation, and what is known of it.
    row_bytes as u64 + 16 + 56
}

/// A table in a file, with rows of it in memory: chosen ones throughout, and others as fills come.
///
/// Of the rows that fills have brought, as many are kept as there is room for. What is [expected](RowSource::expect)
/// decides which: Belady's rule among the expected fills, and SIEVE behind them. Rows of expected fills that are nowhere
/// are read ahead, as far as the same room has a place for them; the fill itself reads the others.
///
/// A read ahead that fails is forgotten. The fill that needs its rows reads them, and says why that fails.
#[derive(Debug)]
pub struct LookAheadTable {
    /// Dropped before the rows that it might still be given: it ends its reads first.
    ahead: Option<AheadReader>,
    file: FileTable,
    chosen: Option<Arc<CachedRows>>,
    kept: ResidentRows,
    /// What reads ahead took that no fill has counted.
    uncounted: DiskReads,
    /// Places of a fill, kept for their memory: rows that are nowhere, and rows that are under way.
    nowhere: Vec<(usize, i64)>,
    under_way: Vec<(usize, i64)>,
}

impl LookAheadTable {
    /// Reads from `file`, ahead of fills from `ahead`, the same file opened once more, if it is given. `chosen` rows are in
    /// memory throughout; of others, at most `rows` are.
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

    /// Rows that it keeps at most, beside the chosen ones.
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
            // The fill itself says which id is no row.
            let ids = if ids.iter().all(|&id| (id as u64) < rows) { ids } else { &[] };
            let chosen = &self.chosen;
            let is_chosen = |id| chosen.as_ref().is_some_and(|chosen| chosen.row(id).is_some());
            self.kept.expect(ids.iter().copied().filter(|&id| !is_chosen(id)));
        }
        let (mut first, of_first) = self.kept.claim_reads();
        // The batch whose turn it is waits for its own rows only.
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
        // Without any row, too: it checks that the file is the one that was opened.
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

//! Rows that are kept on the device, beside a table that is read over the link.

use std::sync::Arc;

use uva_cuda::kernels::cache::{CacheInsertion, InsertArguments};
use uva_cuda::memory::{DeviceBuffer, fill};
use uva_cuda::{Context, Stream};

use super::error::FillError;
use super::upload::{PIECE, Upload};
use crate::cache::eviction::{EvictingSlots, Eviction};
use crate::cache::{SlotMap, check_capacity, map_bytes};
use crate::error::GatherError;
use crate::host::{HostPlace, Mapped};
use crate::source::RowSource;

/// A cache of rows in device memory, static or dynamic: [`crate::cache`] explains how they differ.
///
/// The slot map (4 bytes a row of the table) is in device memory too. A dynamic cache decides on the host which row gets
/// which slot, so it has the map there as well.
#[derive(Debug)]
pub struct DeviceCache {
    rows: DeviceBuffer,
    map: DeviceBuffer,
    table_rows: usize,
    row_bytes: usize,
    count: usize,
    /// Its ordinal.
    device: usize,
    /// `None` for a static one.
    slots: Option<Box<dyn EvictingSlots>>,
}

impl DeviceCache {
    /// Copies the rows `ids` of `table`, rows of `row_bytes` bytes (at least 1), to the device, read by `threads`
    /// threads, and waits for them. In any order, none at all is fine. The table need not be pinned.
    ///
    /// # Errors
    /// [`FillError::CacheTooLarge`] when the device has not so much free, with nothing allocated; [`FillError::Rows`]
    /// as
    /// [`CachedRows::new`](crate::CachedRows::new); [`FillError::Cuda`].
    pub fn filled(
        context: &Arc<Context>,
        table: &[u8],
        row_bytes: usize,
        ids: &[i64],
        threads: usize,
    ) -> Result<Self, FillError> {
        let mut source = Mapped::new(table, row_bytes, threads)?;
        let mut slots = SlotMap::new(source.rows())?;
        slots.assign(ids)?;
        let cache = Self::allocate(context, source.rows(), row_bytes, ids.len())?;
        let piece_rows = (PIECE / row_bytes).clamp(1, ids.len().max(1));
        let mut upload = Upload::new(context, (piece_rows * row_bytes).max(PIECE.min(slots.bytes().len())))?;
        for (number, ids) in ids.chunks(piece_rows).enumerate() {
            let to = cache.rows.address() + (number * piece_rows * row_bytes) as u64;
            // SAFETY: rows of our own buffer, which nobody else knows yet; the upload is finished below, or waited for
            // when it is dropped, before the buffers are.
            unsafe {
                upload.send(to, ids.len() * row_bytes, |piece| {
                    source.fill(ids, HostPlace::new(piece)).map(drop).map_err(FillError::from)
                })
            }?;
        }
        // SAFETY: as above; the map has as many bytes on the device.
        unsafe { upload.send_all(cache.map.address(), slots.bytes()) }?;
        upload.finish()?;
        Ok(cache)
    }

    /// An empty cache that evicts by `policy`, of `capacity` rows for a table of `table_rows` rows, at most that many; 0 is fine.
    ///
    /// # Errors
    /// As [`DeviceCache::filled`].
    pub fn evicting(
        policy: &Eviction,
        context: &Arc<Context>,
        table_rows: usize,
        row_bytes: usize,
        capacity: usize,
    ) -> Result<Self, FillError> {
        if row_bytes == 0 {
            return Err(GatherError::TableLength { length: 0, row_bytes }.into());
        }
        let slots = policy.slots(table_rows, capacity)?;
        let cache = Self::allocate(context, table_rows, row_bytes, slots.capacity())?;
        let stream = Stream::new(context)?;
        // All ones is -1: no slot.
        // SAFETY: our own buffer, which nobody else knows yet, and it is waited for.
        let filled = unsafe { fill(&stream, cache.map.address(), 0xff, cache.map.bytes()) };
        stream.synchronize().and(filled)?;
        Ok(Self { slots: Some(slots), ..cache })
    }

    fn allocate(
        context: &Arc<Context>,
        table_rows: usize,
        row_bytes: usize,
        count: usize,
    ) -> Result<Self, FillError> {
        check_capacity(count)?;
        let (free, total) = context.memory()?;
        let map = map_bytes(table_rows);
        let too_large = |bytes| FillError::CacheTooLarge { rows: count, bytes, map_bytes: map, free, total };
        let rows = count.checked_mul(row_bytes).ok_or_else(|| too_large(u64::MAX))?;
        if (rows as u64).checked_add(map).is_none_or(|bytes| bytes > free) {
            return Err(too_large(rows as u64));
        }
        Ok(Self {
            rows: DeviceBuffer::new(context, rows, "the cached rows")?,
            map: DeviceBuffer::new(context, 4 * table_rows, "the slots of the cached rows")?,
            table_rows,
            row_bytes,
            count,
            device: context.device().ordinal(),
            slots: None,
        })
    }

    /// Rows that it holds, or can hold at most.
    pub fn rows(&self) -> usize {
        self.count
    }

    /// Bytes of device memory of that many rows.
    pub fn bytes(&self) -> u64 {
        self.rows.bytes() as u64
    }

    /// Bytes of device memory of the slot map.
    pub fn map_bytes(&self) -> u64 {
        self.map.bytes() as u64
    }

    /// Whether misses come in.
    pub fn is_dynamic(&self) -> bool {
        self.slots.is_some()
    }

    /// # Errors
    /// [`GatherError::OtherTable`] unless it was made for such a table, [`GatherError::Device`] unless it lies on this
    /// device.
    pub(super) fn check(
        &self,
        context: &Context,
        table_rows: usize,
        table_row_bytes: usize,
    ) -> Result<(), GatherError> {
        let (here, there) = (context.device().ordinal(), self.device);
        if here != there {
            let reason = format!("a cache on device {there} is none for a gather on device {here}");
            return Err(GatherError::Device { reason });
        }
        let (rows, row_bytes) = (self.table_rows, self.row_bytes);
        if (rows, row_bytes) == (table_rows, table_row_bytes) {
            return Ok(());
        }
        Err(GatherError::OtherTable { rows, row_bytes, table_rows, table_row_bytes })
    }

    /// Rows of the table that it is for.
    pub(super) fn table_rows(&self) -> usize {
        self.table_rows
    }

    /// Where slot map and rows are.
    pub(super) fn addresses(&self) -> (u64, u64) {
        (self.map.address(), self.rows.address())
    }

    /// The most insertions that a batch of `rows` rows can bring.
    pub(super) fn most_insertions(&self, rows: usize) -> usize {
        self.slots.as_ref().map_or(0, |slots| slots.capacity().min(rows))
    }

    /// Decides the changes of a batch that has been, or will be, gathered next: [`EvictingSlots::insert_misses`]. They
    /// have to be carried out on the device behind that gather, or the cache must not be used any more.
    pub(super) fn take_in(&mut self, ids: &[i64]) -> &[CacheInsertion] {
        self.slots.as_mut().map_or(&[], |slots| slots.insert_misses(ids))
    }

    /// The kernel's arguments to carry out `count` insertions at that address, of rows that lie at `gathered`.
    pub(super) fn insertion(&self, insertions: u64, count: usize, gathered: u64) -> InsertArguments {
        InsertArguments {
            insertions,
            count: count as u64,
            gathered,
            row_bytes: self.row_bytes as u64,
            slot_map: self.map.address(),
            cache: self.rows.address(),
        }
    }
}

/// Writes insertions as the kernel reads them.
///
/// # Panics
/// When `to` is too small.
pub(super) fn write_insertions(insertions: &[CacheInsertion], to: &mut [u8]) {
    for (insertion, to) in insertions.iter().zip(to.chunks_exact_mut(CacheInsertion::BYTES)) {
        to.copy_from_slice(&insertion.to_bytes());
    }
}

//! Rows that are kept on the device, beside a table that is read over the link.

use std::ops::Range;
use std::sync::Arc;

use uva_cuda::kernels::cache::{CacheInsertion, InsertArguments};
use uva_cuda::memory::{DeviceBuffer, JoinedMemory, fill};
use uva_cuda::{Context, CudaStream};

use super::upload::{PIECE, Upload};
use crate::cache::eviction::{EvictingSlots, Eviction};
use crate::cache::{SlotMap, check_capacity, map_bytes};
use crate::cuda::error::FillError;
use crate::error::GatherError;
use crate::host::{HostPlace, MappedTable};
use crate::source::RowSource;

/// A cache of rows in device memory, static or dynamic: [`crate::cache`] explains how they differ.
///
/// The slot map (4 bytes a row of the table) is in device memory too. A dynamic cache decides on the host which row gets
/// which slot, so it has the map there as well. The rows of a static one may lie in memory of several devices, each of
/// which then has a map.
#[derive(Debug)]
pub struct DeviceCache {
    rows: Rows,
    map: DeviceBuffer,
    table_rows: usize,
    row_bytes: usize,
    count: usize,
    /// Its ordinal.
    device: usize,
    /// `None` for a static one.
    slots: Option<Box<dyn EvictingSlots>>,
}

/// Where the rows are.
#[derive(Debug)]
enum Rows {
    /// In this device's memory.
    Own(DeviceBuffer),
    /// In several devices', with those of the first ids first.
    Joined(Arc<JoinedMemory>),
}

impl Rows {
    fn address(&self) -> u64 {
        match self {
            Self::Own(buffer) => buffer.address(),
            Self::Joined(memory) => memory.address(),
        }
    }
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
        let source = MappedTable::new(table, row_bytes, threads)?;
        let mut slots = SlotMap::new(source.rows())?;
        slots.assign(ids)?;
        let table_rows = source.rows();
        let bytes = Self::check_room(context, table_rows, row_bytes, ids.len())?;
        let rows = Rows::Own(DeviceBuffer::new(context, bytes, "the cached rows")?);
        let cache = Self::over(context, rows, table_rows, row_bytes, ids.len())?;
        // SAFETY: our own buffer of so many rows, which nobody else knows yet.
        unsafe { copy_rows(context, (source, row_bytes), ids, cache.rows.address()) }?;
        cache.send_map(context, &slots)?;
        Ok(cache)
    }

    /// A static cache of the rows `ids` of a table of `table_rows` rows of `row_bytes` bytes, which lie in this memory in that
    /// order, or will before the first gather: see [`fill_joined`]. It makes the slot map, and waits for it.
    ///
    /// # Errors
    /// As [`DeviceCache::filled`]; [`FillError::Layout`] where the memory has fewer bytes.
    pub fn joined(
        context: &Arc<Context>,
        memory: Arc<JoinedMemory>,
        (table_rows, row_bytes): (usize, usize),
        ids: &[i64],
    ) -> Result<Self, FillError> {
        check_joined(&memory, row_bytes, ids.len())?;
        let mut slots = SlotMap::new(table_rows)?;
        slots.assign(ids)?;
        Self::check_room(context, table_rows, row_bytes, 0)?;
        let cache = Self::over(context, Rows::Joined(memory), table_rows, row_bytes, ids.len())?;
        cache.send_map(context, &slots)?;
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
        let bytes = Self::check_room(context, table_rows, row_bytes, slots.capacity())?;
        let rows = Rows::Own(DeviceBuffer::new(context, bytes, "the cached rows")?);
        let cache = Self::over(context, rows, table_rows, row_bytes, slots.capacity())?;
        let stream = CudaStream::new(context)?;
        // All ones is -1: no slot.
        // SAFETY: our own buffer, which nobody else knows yet, and it is waited for.
        let filled = unsafe { fill(&stream, cache.map.address(), 0xff, cache.map.bytes()) };
        stream.synchronize().and(filled)?;
        Ok(Self { slots: Some(slots), ..cache })
    }

    /// The bytes of `count` rows, for which the device has room beside the slot map.
    fn check_room(
        context: &Arc<Context>,
        table_rows: usize,
        row_bytes: usize,
        count: usize,
    ) -> Result<usize, FillError> {
        check_capacity(count)?;
        let (free, total) = context.memory()?;
        let map = map_bytes(table_rows);
        let too_large = |bytes| FillError::CacheTooLarge { rows: count, bytes, map_bytes: map, free, total };
        let rows = count.checked_mul(row_bytes).ok_or_else(|| too_large(u64::MAX))?;
        if (rows as u64).checked_add(map).is_none_or(|bytes| bytes > free) {
            return Err(too_large(rows as u64));
        }
        Ok(rows)
    }

    /// Over these rows, with a slot map that is yet to be written.
    fn over(
        context: &Arc<Context>,
        rows: Rows,
        table_rows: usize,
        row_bytes: usize,
        count: usize,
    ) -> Result<Self, FillError> {
        let map = DeviceBuffer::new(context, 4 * table_rows, "the slots of the cached rows")?;
        Ok(Self { rows, map, table_rows, row_bytes, count, device: context.device().ordinal(), slots: None })
    }

    fn send_map(&self, context: &Arc<Context>, slots: &SlotMap) -> Result<(), FillError> {
        let mut upload = Upload::new(context, PIECE.min(slots.bytes().len()).max(1))?;
        // SAFETY: our own buffer, which nobody else knows yet; it has as many bytes, and it is waited for.
        unsafe { upload.send_all(self.map.address(), slots.bytes()) }?;
        Ok(upload.finish()?)
    }

    /// Rows that it holds, or can hold at most.
    pub fn rows(&self) -> usize {
        self.count
    }

    /// Bytes of device memory of that many rows.
    pub fn bytes(&self) -> u64 {
        (self.count * self.row_bytes) as u64
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
    pub(crate) fn check(
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
    pub(crate) fn table_rows(&self) -> usize {
        self.table_rows
    }

    /// Where slot map and rows are.
    pub(crate) fn addresses(&self) -> (u64, u64) {
        (self.map.address(), self.rows.address())
    }

    /// The most insertions that a batch of `rows` rows can bring.
    pub(crate) fn most_insertions(&self, rows: usize) -> usize {
        self.slots.as_ref().map_or(0, |slots| slots.capacity().min(rows))
    }

    /// Decides the changes of a batch that has been, or will be, gathered next: [`EvictingSlots::insert_misses`]. They
    /// have to be carried out on the device behind that gather, or the cache must not be used any more.
    pub(crate) fn take_in(&mut self, ids: &[i64]) -> &[CacheInsertion] {
        self.slots.as_mut().map_or(&[], |slots| slots.insert_misses(ids))
    }

    /// The kernel's arguments to carry out `count` insertions at that address, of rows that lie at `gathered`.
    pub(crate) fn insertion(&self, insertions: u64, count: usize, gathered: u64) -> InsertArguments {
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

/// Writes the rows `part` of `ids` of `table` to their places in memory of several devices, and waits for them. Each process
/// writes a part; the part of each device is best that which lies in its own memory.
///
/// While this runs, nobody else may use the places of these rows: a gather would read other bytes than a row's. No lock says so,
/// since the others are other processes.
///
/// # Errors
/// As [`DeviceCache::joined`].
///
/// # Panics
/// When `part` is no range of `ids`.
pub fn fill_joined(
    context: &Arc<Context>,
    memory: &JoinedMemory,
    (table, row_bytes, threads): (&[u8], usize, usize),
    ids: &[i64],
    part: Range<usize>,
) -> Result<(), FillError> {
    check_joined(memory, row_bytes, ids.len())?;
    let to = memory.address() + (part.start * row_bytes) as u64;
    // SAFETY: within the memory, by the check above. If somebody used it meanwhile, bytes would be wrong, and all bytes are valid.
    unsafe { copy_rows(context, (MappedTable::new(table, row_bytes, threads)?, row_bytes), &ids[part], to) }
}

fn check_joined(memory: &JoinedMemory, row_bytes: usize, rows: usize) -> Result<(), FillError> {
    if rows.checked_mul(row_bytes).is_some_and(|bytes| bytes <= memory.bytes()) {
        return Ok(());
    }
    Err(FillError::Layout(format!("{rows} rows of {row_bytes} bytes in {} bytes of memory", memory.bytes())))
}

/// Copies the rows `ids` of the source to the device address `to`, one behind the other, and waits for them.
///
/// # Safety
/// There is room for them, which nobody else uses meanwhile.
unsafe fn copy_rows(
    context: &Arc<Context>,
    (mut source, row_bytes): (MappedTable<'_>, usize),
    ids: &[i64],
    to: u64,
) -> Result<(), FillError> {
    let piece_rows = (PIECE / row_bytes).clamp(1, ids.len().max(1));
    let mut upload = Upload::new(context, piece_rows * row_bytes)?;
    for (number, ids) in ids.chunks(piece_rows).enumerate() {
        let to = to + (number * piece_rows * row_bytes) as u64;
        // SAFETY: a part of what the caller promises. The upload is finished below, or waited for when it is dropped.
        unsafe {
            upload.send(to, ids.len() * row_bytes, |piece| {
                source.fill(ids, HostPlace::new(piece)).map(drop).map_err(FillError::from)
            })
        }?;
    }
    Ok(upload.finish()?)
}

/// Writes insertions as the kernel reads them.
///
/// # Panics
/// When `to` is too small.
pub(crate) fn write_insertions(insertions: &[CacheInsertion], to: &mut [u8]) {
    for (insertion, to) in insertions.iter().zip(to.chunks_exact_mut(CacheInsertion::BYTES)) {
        to.copy_from_slice(&insertion.to_bytes());
    }
}

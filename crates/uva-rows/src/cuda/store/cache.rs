//! Caches of rows in device memory, for a table that is read over the link.

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
/// The slot map (4 bytes per row of the table) is in device memory too. A dynamic cache assigns slots on the host, so
/// it has a copy of the map there. The rows of a static cache may be in memory of several devices, each of which then
/// has a map.
#[derive(Debug)]
pub struct DeviceCache {
    rows: Rows,
    map: DeviceBuffer,
    table_rows: usize,
    row_bytes: usize,
    count: usize,
    /// The ordinal of the device.
    device: usize,
    /// `None` for a static cache.
    slots: Option<Box<dyn EvictingSlots>>,
}

/// The location of the rows.
#[derive(Debug)]
enum Rows {
    /// In this device's memory.
    Own(DeviceBuffer),
    /// In the memory of several devices, in the order of ids.
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
    /// threads, and waits for them. The ids may be in any order, and empty. The table need not be pinned.
    ///
    /// # Errors
    /// [`FillError::CacheTooLarge`] if the device has too little free memory (no memory is allocated then);
    /// [`FillError::Rows`] as [`CachedRows::new`](crate::CachedRows::new); [`FillError::Cuda`].
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
        // SAFETY: our own buffer of this many rows, which is not shared yet.
        unsafe { copy_rows(context, (source, row_bytes), ids, cache.rows.address()) }?;
        cache.send_map(context, &slots)?;
        Ok(cache)
    }

    /// Creates a static cache of the rows `ids` of a table of `table_rows` rows of `row_bytes` bytes. The rows must be
    /// in this memory, in the order of `ids`, before the first gather: see [`fill_joined`]. Uploads the slot map and
    /// waits for it.
    ///
    /// # Errors
    /// As [`DeviceCache::filled`]; [`FillError::Layout`] if the memory is too small.
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

    /// Creates an empty cache with eviction `policy`, of `capacity` rows, but at most `table_rows`, the number of rows
    /// of the table; 0 is valid.
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
        // All ones is -1: no slot. SAFETY: our own buffer, which is not shared yet, and it is waited for.
        let filled = unsafe { fill(&stream, cache.map.address(), 0xff, cache.map.bytes()) };
        stream.synchronize().and(filled)?;
        Ok(Self { slots: Some(slots), ..cache })
    }

    /// The size of `count` rows in bytes; checks that the device has space for them and the slot map.
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

    /// Creates a cache of these rows, with an uninitialised slot map.
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
        // SAFETY: our own buffer, which is not shared yet; it has as many bytes, and it is waited for.
        unsafe { upload.send_all(self.map.address(), slots.bytes()) }?;
        Ok(upload.finish()?)
    }

    /// The number of rows, or the capacity.
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

    /// Whether misses are inserted.
    pub fn is_dynamic(&self) -> bool {
        self.slots.is_some()
    }

    /// Checks that the cache fits a table and a device.
    ///
    /// # Errors
    /// [`GatherError::OtherTable`] unless it was made for such a table, [`GatherError::Device`] unless it is on this
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

    /// The number of rows of its table.
    pub(crate) fn table_rows(&self) -> usize {
        self.table_rows
    }

    /// The addresses of the slot map and the rows.
    pub(crate) fn addresses(&self) -> (u64, u64) {
        (self.map.address(), self.rows.address())
    }

    /// The maximum number of insertions of a batch of `rows` rows.
    pub(crate) fn most_insertions(&self, rows: usize) -> usize {
        self.slots.as_ref().map_or(0, |slots| slots.capacity().min(rows))
    }

    /// Decides the changes of a batch that has been, or will be, gathered next: [`EvictingSlots::insert_misses`]. They
    /// must be executed on the device after that gather, or the cache must no longer be used.
    pub(crate) fn take_in(&mut self, ids: &[i64]) -> &[CacheInsertion] {
        self.slots.as_mut().map_or(&[], |slots| slots.insert_misses(ids))
    }

    /// The kernel's arguments to execute `count` insertions at that address, of rows at `gathered`.
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

/// Writes the rows `part` of `ids` of `table` to their places in memory of several devices, and waits for them. Each
/// process writes a part, preferably the part in the memory of its own device.
///
/// During the call, no other code may use the places of these rows: a gather would read other bytes. This is not
/// enforced by a lock, since the users are other processes.
///
/// # Errors
/// As [`DeviceCache::joined`].
///
/// # Panics
/// If `part` is out of range of `ids`.
pub fn fill_joined(
    context: &Arc<Context>,
    memory: &JoinedMemory,
    (table, row_bytes, threads): (&[u8], usize, usize),
    ids: &[i64],
    part: Range<usize>,
) -> Result<(), FillError> {
    check_joined(memory, row_bytes, ids.len())?;
    let to = memory.address() + (part.start * row_bytes) as u64;
    // SAFETY: within the memory, by the check above. A concurrent use would read wrong bytes, but all bytes are valid.
    unsafe { copy_rows(context, (MappedTable::new(table, row_bytes, threads)?, row_bytes), &ids[part], to) }
}

fn check_joined(memory: &JoinedMemory, row_bytes: usize, rows: usize) -> Result<(), FillError> {
    if rows.checked_mul(row_bytes).is_some_and(|bytes| bytes <= memory.bytes()) {
        return Ok(());
    }
    Err(FillError::Layout(format!("{rows} rows of {row_bytes} bytes in {} bytes of memory", memory.bytes())))
}

/// Copies the rows `ids` of the source to the device address `to`, contiguously, and waits for them.
///
/// # Safety
/// There is space for the rows, which no other code uses during the call.
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
        // SAFETY: covered by the caller's promise. The upload is finished below, or waited for when it is dropped.
        unsafe {
            upload.send(to, ids.len() * row_bytes, |piece| {
                source.fill(ids, HostPlace::new(piece)).map(drop).map_err(FillError::from)
            })
        }?;
    }
    Ok(upload.finish()?)
}

/// Writes insertions in the kernel's format.
///
/// # Panics
/// If `to` is too small.
pub(crate) fn write_insertions(insertions: &[CacheInsertion], to: &mut [u8]) {
    for (insertion, to) in insertions.iter().zip(to.chunks_exact_mut(CacheInsertion::BYTES)) {
        to.copy_from_slice(&insertion.to_bytes());
    }
}

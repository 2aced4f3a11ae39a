//! The filler of slots.

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

use uva_cuda::kernels::gather::{BadId, GatherKernels, GatherReport, GridBound};
use uva_cuda::memory::{PinnedBuffer, SharedBuffer};
use uva_cuda::{CudaError, CudaEvent, CudaStream};
use uva_ops::rows::NarrowFloat;

use super::fill::{Fill, SlotPlace};
use super::filler_state::{FillerState, HostSlot};
use crate::cuda::error::FillError;
use crate::cuda::place::DeviceSource;
use crate::cuda::slots::continued_sums::Continued;
use crate::cuda::slots::slot::{FilledRows, Plan, SlotShape};
use crate::cuda::slots::sums::Scratch;
use crate::cuda::sources::table_set::{TablePlace, TableSet};
use crate::cuda::store::cache::DeviceCache;
use crate::cuda::store::tables::DeviceTables;
use crate::error::GatherError;
use crate::source::{RowSource, RowsRead, Ticket};

/// A producer's filler of slots in device memory: copies a batch's arrays, and gathers the rows of its ids from a
/// source.
///
/// All work is enqueued on two streams, and the host continues at once. One copy transfers a batch's arrays while the
/// rows of the previous batch are gathered. The host waits for the GPU only if the next staging buffer is still being
/// read. A source on the CPU gathers its rows before `submit` returns.
///
/// A producer submits batch after batch and polls [`finished`](SlotFiller::finished) fills; [`wait`](RowSource::wait)
/// waits for one.
///
/// Dropping it waits until all enqueued work has run; see [`SlotFiller::abandon`] for cases in which that may never
/// happen.
pub struct SlotFiller<S: DeviceSource> {
    /// The state that the GPU may still use.
    held: ManuallyDrop<FillerState<S>>,
    /// The reason why the filler is unusable, if it is.
    broken: Option<String>,
}

impl<S: DeviceSource> SlotFiller<S> {
    /// Creates a filler of the slots in `buffer` with rows of `source`, gathered on `stream`, which may belong to a
    /// partition.
    ///
    /// # Errors
    /// [`FillError::Layout`] if the slots exceed the buffer; [`FillError::Cuda`].
    pub fn new(
        stream: CudaStream,
        kernels: GatherKernels,
        source: S,
        buffer: Arc<SharedBuffer>,
        shape: SlotShape,
    ) -> Result<Self, FillError> {
        shape.check(buffer.bytes())?;
        let context = Arc::clone(buffer.context());
        let slots = (0..shape.slots)
            .map(|_| {
                Ok(HostSlot {
                    staging: None,
                    made: None,
                    lent: None,
                    report: PinnedBuffer::new(&context, GatherReport::BYTES, "a slot's report")?,
                    // Recorded on the stream of uploads, which is in no partition.
                    uploaded: CudaEvent::local(&context)?,
                    done: CudaEvent::local(stream.made_in())?,
                    pending: None,
                })
            })
            .collect::<Result<Vec<_>, CudaError>>()?;
        let held = FillerState {
            row_bytes: source.row_bytes(),
            source,
            stream,
            uploads: CudaStream::new(&context)?,
            kernels,
            scratch: None,
            tables: None,
            set: None,
            continued: None,
            slots,
            finished: Vec::new(),
            fills: 0,
            shape,
            context,
            buffer,
        };
        Ok(Self { held: ManuallyDrop::new(held), broken: None })
    }

    /// The stream of its work. Events recorded by fills are created in its context.
    pub fn stream(&self) -> &CudaStream {
        &self.held.stream
    }

    /// The source.
    pub fn source(&self) -> &S {
        &self.held.source
    }

    /// The source, for changes of its settings.
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.held.source
    }

    /// Allocates staging memory in every slot for a report and the arrays after it, `bytes` bytes in total, and
    /// prepares the source for fills of at most `rows` rows. Call it before the first fill: fills never allocate
    /// page-locked memory, since that may stall the whole device.
    ///
    /// # Errors
    /// [`FillError::Layout`] after the first fill; [`FillError::Cuda`].
    pub fn reserve_room(&mut self, bytes: usize, rows: usize) -> Result<(), FillError> {
        self.sound()?;
        let held = &mut *self.held;
        if held.fills > 0 {
            return Err(FillError::Layout("room is reserved before the first fill".to_owned()));
        }
        held.source.reserve(held.shape.slots, rows)?;
        held.set.as_mut().map_or(Ok(()), |set| set.reserve(rows))?;
        for slot in &mut held.slots {
            if slot.staging.as_ref().is_none_or(|buffer| buffer.bytes() < bytes) {
                // The old buffer is freed first, since both together may exceed the limit of locked memory.
                slot.staging = None;
                slot.staging = Some(PinnedBuffer::new(&held.context, bytes, "a slot's staging buffer")?);
            }
        }
        Ok(())
    }

    /// Allocates page-locked memory in every slot for the rows that the host makes: `bytes` bytes, with each range on
    /// its own cache lines. Every [`SlotPlace`] must then have [`made`](SlotPlace::made), unless its rows are of
    /// [tables](Self::with_tables), and the source reads no rows. Call it before the first fill.
    ///
    /// # Errors
    /// [`FillError::Layout`] after the first fill; [`FillError::Cuda`].
    pub fn reserve_made(&mut self, bytes: usize) -> Result<(), FillError> {
        self.sound()?;
        let held = &mut *self.held;
        if held.fills > 0 {
            return Err(FillError::Layout("room is reserved before the first fill".to_owned()));
        }
        for slot in &mut held.slots {
            slot.made = Some(PinnedBuffer::new(&held.context, bytes, "rows that the host makes")?);
        }
        Ok(())
    }

    /// Gathers rows into a scratch of at most `rows` rows in device memory from now on, and sums them into the slots by
    /// a kernel. Every [`SlotPlace`] must then have [`sums`](SlotPlace::sums). The values are of that type, float32 for
    /// `None`; the kernel's grid is bounded by `bound`. Call it before the first fill.
    ///
    /// # Errors
    /// [`FillError::Layout`] after the first fill, and for rows that are not whole values; [`FillError::Cuda`] if the
    /// device has too little free memory.
    pub fn sum_rows(
        &mut self,
        rows: usize,
        narrow: Option<NarrowFloat>,
        bound: GridBound,
    ) -> Result<(), FillError> {
        self.sound()?;
        let held = &mut *self.held;
        if held.fills > 0 {
            return Err(FillError::Layout("sums are specified before the first fill".to_owned()));
        }
        held.scratch = Some(Scratch::new(&held.context, (rows, held.row_bytes), narrow, bound)?);
        Ok(())
    }

    /// Adds tables, for each [`SlotPlace`] with [`tables_at`](SlotPlace::tables_at).
    pub fn with_tables(mut self, tables: DeviceTables) -> Self {
        self.held.tables = Some(tables);
        self
    }

    /// The tables, if any.
    pub fn tables(&self) -> Option<&DeviceTables> {
        self.held.tables.as_ref()
    }

    /// Gathers the rows of every fill from these tables, each [by ids of its own](SlotPlace::of_set).
    pub fn with_set(mut self, set: TableSet) -> Self {
        self.held.set = Some(set);
        self
    }

    /// The set of tables, if there is one.
    pub fn set(&self) -> Option<&TableSet> {
        self.held.set.as_ref()
    }

    /// Lets the host begin the sums of each slot with the rows that are not in `cache` from now on, and a kernel
    /// continue them with the cached rows. Every [`SlotPlace`] must then have [`sums`](SlotPlace::sums) and
    /// [`begun`](SlotPlace::begun), and the source reads no rows. The host's part takes at most `room` bytes per slot,
    /// in page-locked memory and on the device. The values are of that type, float32 for `None`; the kernel's grid is
    /// bounded by `bound`. Call it before the first fill.
    ///
    /// # Errors
    /// [`FillError::Layout`] after the first fill, for rows that are not whole values, and for a cache that evicts;
    /// [`FillError::Rows`] for one of another table or device; [`FillError::Cuda`].
    pub fn continue_sums(
        &mut self,
        cache: DeviceCache,
        room: usize,
        narrow: Option<NarrowFloat>,
        bound: GridBound,
    ) -> Result<(), FillError> {
        self.sound()?;
        let held = &mut *self.held;
        if held.fills > 0 {
            return Err(FillError::Layout("sums are specified before the first fill".to_owned()));
        }
        let (table, slots) = ((held.source.rows(), held.row_bytes), (held.shape.slots, room));
        held.continued = Some(Continued::new(&held.context, cache, table, slots, narrow, bound)?);
        for slot in &mut held.slots {
            slot.made = Some(PinnedBuffer::new(&held.context, room, "sums that the host begins")?);
        }
        Ok(())
    }

    /// Whether a kernel sums: see [`sum_rows`](SlotFiller::sum_rows) and [`continue_sums`](SlotFiller::continue_sums).
    pub fn sums_rows(&self) -> bool {
        self.held.sums_rows()
    }

    /// The fills that have completed since the last call, in the order of submission. Does not wait.
    ///
    /// # Errors
    /// [`FillError::Cuda`], also for errors of earlier enqueued work, such as a fault on the device.
    pub fn finished(&mut self) -> Result<Vec<Fill>, FillError> {
        self.sound()?;
        let result = self.held.collect(false);
        self.note(result)
    }

    /// Waits for all enqueued work, and returns the fills that have completed since the last call, in order.
    ///
    /// Call it only while the process that records the awaited events is alive: see [`SlotFiller::abandon`].
    ///
    /// # Errors
    /// As [`SlotFiller::finished`].
    pub fn drain(&mut self) -> Result<Vec<Fill>, FillError> {
        self.sound()?;
        let result = self.held.collect(true);
        self.note(result)
    }

    /// Leaks all memory, without a driver call. For the death of the process that records the events that fills wait
    /// for. The device may wait for such an event indefinitely, and so would a wait for the device. The memory is freed
    /// when this process ends, which should be soon.
    pub fn abandon(mut self) {
        self.broken = Some("it was abandoned".to_owned());
    }

    /// Returns the source after all enqueued work has run.
    ///
    /// # Errors
    /// [`FillError::Broken`]; [`FillError::Cuda`].
    pub(crate) fn into_source(mut self) -> Result<S, FillError> {
        self.sound()?;
        // The work on this stream waits for every upload.
        self.held.stream.synchronize()?;
        self.broken = Some("its source was taken out".to_owned());
        // SAFETY: taken once: `drop` leaves a broken filler's state alone. Nothing is in flight.
        let held = unsafe { ManuallyDrop::take(&mut self.held) };
        Ok(held.source)
    }

    fn sound(&self) -> Result<(), FillError> {
        match &self.broken {
            Some(why) => Err(FillError::Broken(why.clone())),
            None => Ok(()),
        }
    }

    /// Records a failure of the driver: work enqueued before it may still run, on buffers that must stay allocated.
    fn note<T>(&mut self, result: Result<T, FillError>) -> Result<T, FillError> {
        if let Err(FillError::Cuda(error)) = &result {
            self.broken = Some(error.to_string());
        }
        result
    }
}

/// [Brought](SlotPlace::brought) rows are read first, while the host waits. The device then does this in order:
///
/// - wait for `after`
/// - copy a prepared report, the arrays, and the rows made by the host
/// - gather the other rows
/// - insert misses into a dynamic cache
/// - sum the rows, or continue the host's sums, if a kernel sums
/// - complete the report, the stamp last
/// - record `ready`
///
/// The arrays are free when `submit` returns.
///
/// If an id is not a row, a kernel records it in the report and in [`Fill::bad`], and `wait` returns an error. A source
/// on the CPU returns [`FillError::Rows`] before any work is enqueued.
///
/// `submit` returns [`FillError::Layout`], also if less was [reserved](SlotFiller::reserve_room), and
/// [`FillError::Rows`]. No work is enqueued then, and the slot can be filled again. After [`FillError::Cuda`], a
/// failure of the driver, every call returns [`FillError::Broken`].
impl<S: DeviceSource> RowSource<SlotPlace<'_>> for SlotFiller<S> {
    fn rows(&self) -> usize {
        self.held.source.rows()
    }

    fn row_bytes(&self) -> usize {
        self.held.row_bytes
    }

    fn check(&self, ids: &[i64]) -> Result<(), FillError> {
        self.held.source.check(ids)
    }

    fn submit(&mut self, ids: &[i64], place: SlotPlace<'_>) -> Result<Ticket, FillError> {
        self.sound()?;
        let held = &mut *self.held;
        let SlotPlace { slot, arrays, ids_at, features_at, .. } = place;
        if slot >= held.shape.slots {
            return Err(FillError::Layout(format!("slot {slot} of {}", held.shape.slots)));
        }
        let (on_device, count) = place.on_device.map_or((&[][..], ids.len()), |on| (on.arrays, on.count));
        if ids.len() != count && (!ids.is_empty() || held.source.reads_ids()) {
            return Err(FillError::Layout(format!("{} ids where the slot gets {count}", ids.len())));
        }
        if let Some(on) = place.on_device {
            on.arrays.iter().try_for_each(|(_, bytes)| on.memory.slice(bytes.clone()).map(drop))?;
        }
        let ids_range = ids_at..ids_at.saturating_add(count.saturating_mul(size_of::<i64>()));
        let room = held.slots[slot].made.as_ref().map(PinnedBuffer::bytes);
        let (lists, written) = match (&held.scratch, &place.sums) {
            _ if held.set.is_some() || place.of_set.is_some() => of_set(held.set.as_ref(), ids, &place)?,
            _ if place.tables_at.is_some() => {
                let (places, other) =
                    (place.tables_at.unwrap_or_default(), place.has_others() || place.brought.is_some());
                match held.tables.as_ref().filter(|tables| !other && tables.tables() == places.len()) {
                    Some(tables) => {
                        let bytes = tables.row_bytes();
                        (Vec::new(), places.iter().map(|&at| FilledRows { at, count, bytes }).collect())
                    }
                    None => {
                        let tables = held.tables.as_ref().map_or(0, DeviceTables::tables);
                        let what = format!(
                            "rows of {} tables, and of others: {other}; there are {tables}",
                            places.len()
                        );
                        return Err(FillError::Layout(what));
                    }
                }
            }
            _ if place.brought.is_some() => match place.brought {
                Some(brought) if room.is_none() && !place.has_others() && !held.sums_rows() => {
                    if !brought.by.borrow().is_into(&held.buffer) {
                        return Err(FillError::Layout(
                            "rows are brought to the slots of another filler".to_owned(),
                        ));
                    }
                    let rows =
                        |range: &Range<usize>| FilledRows { at: range.start, count: 1, bytes: range.len() };
                    (Vec::new(), brought.ranges.iter().map(rows).collect())
                }
                brought => {
                    return Err(FillError::Layout(format!("{brought:?} together with other rows or sums")));
                }
            },
            _ if held.continued.is_some() || place.begun.is_some() => {
                match (&held.continued, place.sums, place.begun, place.made) {
                    (Some(continued), Some(sums), Some(_), None)
                        if sums.destinations <= count && held.scratch.is_none() =>
                    {
                        let written = sums.written(features_at, held.row_bytes, continued.sum_bytes());
                        (sums.read(count).collect(), written.to_vec())
                    }
                    (_, sums, begun, made) => {
                        return Err(FillError::Layout(format!(
                            "{count} rows with the lists {sums:?}, {begun:?} and {made:?}, where a kernel continues {}",
                            if held.continued.is_some() { "sums" } else { "no sums" }
                        )));
                    }
                }
            }
            _ if room.is_some() || place.made.is_some() => match place.made {
                Some(made) if place.sums.is_none() && room.is_some_and(|room| made.bytes() <= room) => {
                    let rows =
                        |range: &Range<usize>| FilledRows { at: range.start, count: 1, bytes: range.len() };
                    (Vec::new(), made.ranges.iter().map(rows).collect())
                }
                made => {
                    let room = room.unwrap_or(0);
                    return Err(FillError::Layout(format!(
                        "{made:?} with room for {room} bytes of the host's"
                    )));
                }
            },
            (None, None) => (Vec::new(), vec![FilledRows { at: features_at, count, bytes: held.row_bytes }]),
            (Some(scratch), Some(sums)) if scratch.holds(count) && sums.destinations <= count => {
                let written = sums.written(features_at, held.row_bytes, scratch.sum_bytes());
                (sums.read(count).collect(), written.to_vec())
            }
            (scratch, sums) => {
                return Err(FillError::Layout(format!(
                    "{count} rows with the lists {sums:?}, for a scratch that is {scratch:?}"
                )));
            }
        };
        let plan = Plan::new(&held.shape, arrays, on_device, &ids_range, &lists, &written)?;
        held.check_room(slot, &plan)?;
        let result = held.submit(ids, &place, &plan);
        let (number, read) = self.note(result)?;
        Ok(Ticket { lane: slot, number, read })
    }

    fn wait(&mut self, ticket: Ticket) -> Result<RowsRead, FillError> {
        self.sound()?;
        let result = self.held.wait_for(ticket.lane, ticket.number);
        let Some(fill) = self.note(result)? else {
            return Err(FillError::Layout("a fill is waited for once".to_owned()));
        };
        match fill.bad {
            None => Ok(fill.read),
            Some(BadId { table, position, id }) => {
                let rows = self.held.set.as_ref().map_or_else(|| self.rows(), |set| set.rows_of(table));
                Err(GatherError::IdOutOfRange { position: position as usize, id, rows }.into())
            }
        }
    }
}

/// The ranges of the ids of each table of a set, and the rows that a fill writes.
fn of_set(
    set: Option<&TableSet>,
    ids: &[i64],
    place: &SlotPlace<'_>,
) -> Result<(Vec<Range<usize>>, Vec<FilledRows>), FillError> {
    let other = !ids.is_empty() || place.has_others() || place.brought.is_some() || place.tables_at.is_some();
    match set.zip(place.of_set).filter(|(set, places)| !other && set.tables() == places.len()) {
        Some((set, places)) => {
            let ids = |of: &TablePlace| {
                of.ids_at..of.ids_at.saturating_add(of.count.saturating_mul(size_of::<i64>()))
            };
            let rows = places.iter().zip(set.row_bytes());
            let rows = rows.map(|(of, bytes)| FilledRows { at: of.rows_at, count: of.count, bytes });
            if let Some(of) = places.iter().find(|of| !of.ids_at.is_multiple_of(size_of::<i64>())) {
                return Err(FillError::Layout(format!("64-bit ids at byte {}", of.ids_at)));
            }
            Ok((places.iter().map(ids).collect(), rows.collect()))
        }
        None => {
            let (there, asked) = (set.map_or(0, TableSet::tables), place.of_set.map_or(0, <[_]>::len));
            let what = format!("rows of {asked} tables of a set, and of others: {other}; there are {there}");
            Err(FillError::Layout(what))
        }
    }
}

impl<S: DeviceSource> Drop for SlotFiller<S> {
    fn drop(&mut self) {
        // After a failure or a peer's death, the streams may never finish, and the device may still use these buffers.
        // Then they stay allocated until the process ends. The work on `stream` waits for every upload.
        if self.broken.is_none() && self.held.stream.synchronize().is_ok() {
            // SAFETY: dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.held) };
        }
    }
}

impl<S: DeviceSource> std::fmt::Debug for SlotFiller<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SlotFiller")
            .field("shape", &self.held.shape)
            .field("fills", &self.held.fills)
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

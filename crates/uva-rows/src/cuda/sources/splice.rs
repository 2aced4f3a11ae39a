//! A host source whose rows are copied to the device, combined with rows of the same table that are already there.

use std::sync::Arc;

use uva_cuda::kernels::gather::{GatherArguments, GridBound, IdWidth, Kernel};
use uva_cuda::memory::{DeviceBuffer, PinnedBuffer, host_to_device};
use uva_cuda::{Context, CudaError};

use crate::cache::{NO_SLOT, SlotMap};
use crate::cuda::error::FillError;
use crate::cuda::place::DevicePlace;
use crate::cuda::store::upload::{PIECE, Upload};
use crate::host::{HostPlace, HostSource};
use crate::source::{RowOrigin, RowSource, RowsRead, Ticket};

/// A host source with a cache of chosen rows on the device.
///
/// The CPU fetches only the uncached rows of a fill, all at once. They are copied to the memory after the cached rows,
/// and an ordinary kernel then gathers the fill's rows from the combined memory by their places. So this works for
/// sources that no kernel can read, such as a file. Copies and kernels of all fills are on the stream of their places,
/// which must be the same: the memory is free again when a fill's kernel has run. Lanes differ only in their
/// page-locked memory, which the host writes.
///
/// The rows are cached by [`reserve`](RowSource::reserve), which is required before the first fill. A fill's
/// [`Ticket::read`] is complete, since the host has the cache's content.
#[derive(Debug)]
pub struct Spliced<S> {
    source: S,
    /// The cached rows.
    ids: Vec<i64>,
    /// The place of each row of the table among the cached rows.
    map: SlotMap,
    row_bytes: usize,
    kernel: Kernel,
    bound: GridBound,
    room: Option<Room>,
    /// Ids that a fill misses; kept to reuse the allocation.
    missed: Vec<i64>,
    context: Arc<Context>,
}

/// The cached rows, and memory for missed rows.
#[derive(Debug)]
struct Room {
    /// The cached rows, followed by those that a fill misses.
    memory: DeviceBuffer,
    /// The places of a fill's rows in `memory`, int64.
    places: DeviceBuffer,
    lanes: Vec<Lane>,
    /// The maximum number of rows of a fill.
    rows: usize,
}

/// The host's side of a fill. It is written only after the lane's last fill has run.
#[derive(Debug)]
struct Lane {
    rows: PinnedBuffer,
    places: PinnedBuffer,
}

impl<S: HostSource> Spliced<S> {
    /// Creates a source with the rows `ids` of `source`, in any order, on the device. Gathers use this kernel in a grid
    /// bounded by `bound`.
    ///
    /// # Errors
    /// [`FillError::Rows`] for ids as [`CachedRows::new`](crate::CachedRows::new).
    pub fn new(
        context: &Arc<Context>,
        source: S,
        ids: &[i64],
        (kernel, bound): (Kernel, GridBound),
    ) -> Result<Self, FillError> {
        let mut map = SlotMap::new(source.rows())?;
        map.assign(ids)?;
        let (row_bytes, context) = (source.row_bytes(), Arc::clone(context));
        let (ids, missed) = (ids.to_vec(), Vec::new());
        Ok(Self { source, ids, map, row_bytes, kernel, bound, room: None, missed, context })
    }

    /// Allocates memory for fills of `rows` rows in each lane, and fills in the cached rows.
    fn make_room(&mut self, lanes: usize, rows: usize) -> Result<Room, FillError> {
        let (row_bytes, context) = (self.row_bytes, &self.context);
        let all = rows.checked_add(self.ids.len());
        let bytes = all.and_then(|rows| rows.checked_mul(row_bytes)).unwrap_or(usize::MAX);
        let (free, total) = context.memory()?;
        if bytes as u64 > free {
            let (rows, bytes) = (self.ids.len(), bytes as u64);
            return Err(FillError::CacheTooLarge { rows, bytes, map_bytes: 0, free, total });
        }
        let memory = DeviceBuffer::new(context, bytes, "the cached rows, and room for other rows")?;
        let of_places = rows * size_of::<i64>();
        let places = DeviceBuffer::new(context, of_places, "places of rows")?;
        let lanes = (0..lanes)
            .map(|_| {
                Ok(Lane {
                    rows: PinnedBuffer::new(context, rows * row_bytes, "rows to copy to the GPU")?,
                    places: PinnedBuffer::new(context, of_places, "places of rows to copy to the GPU")?,
                })
            })
            .collect::<Result<Vec<_>, CudaError>>()?;
        let at_once = (PIECE / row_bytes).max(1);
        let mut upload = Upload::new(context, at_once.min(self.ids.len().max(1)) * row_bytes)?;
        for (number, ids) in self.ids.chunks(at_once).enumerate() {
            let to = memory.address() + (number * at_once * row_bytes) as u64;
            // SAFETY: rows of our own buffer, which is not shared yet. The upload is finished below, or waited for when
            // it is dropped, before the buffer is.
            unsafe {
                upload.send(to, ids.len() * row_bytes, |piece| {
                    self.source.fill(ids, HostPlace::new(piece)).map(drop).map_err(FillError::from)
                })
            }?;
        }
        upload.finish()?;
        Ok(Room { memory, places, lanes, rows })
    }
}

impl<S: HostSource> RowSource<DevicePlace<'_>> for Spliced<S> {
    fn rows(&self) -> usize {
        self.source.rows()
    }

    fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    fn reserve(&mut self, lanes: usize, rows: usize) -> Result<(), FillError> {
        if self.room.as_ref().is_none_or(|room| room.lanes.len() < lanes || room.rows < rows) {
            // The old memory is freed first, since both together may exceed the available memory.
            self.room = None;
            self.room = Some(self.make_room(lanes, rows)?);
        }
        Ok(())
    }

    fn check(&self, ids: &[i64]) -> Result<(), FillError> {
        Ok(self.source.check(ids)?)
    }

    fn expect(&mut self, coming: &[&[i64]]) {
        let map = self.map.slots();
        // The source itself reports ids that are not rows.
        let is_cached =
            |id: i64| usize::try_from(id).is_ok_and(|id| map.get(id).is_some_and(|slot| *slot != NO_SLOT));
        let of_fill = |ids: &&[i64]| ids.iter().copied().filter(|id| !is_cached(*id)).collect();
        let missed: Vec<Vec<i64>> = coming.iter().map(of_fill).collect();
        self.source.expect(&missed.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }

    fn submit(&mut self, ids: &[i64], place: DevicePlace<'_>) -> Result<Ticket, FillError> {
        self.source.check(ids)?;
        let (count, lane, row_bytes) = (ids.len(), place.lane, self.row_bytes);
        let no_room = || FillError::Layout(format!("{count} rows in lane {lane}: reserve room for them"));
        let Room { memory, places, lanes, rows: room } = self.room.as_mut().ok_or_else(no_room)?;
        let host = lanes.get_mut(lane).filter(|_| count <= *room).ok_or_else(no_room)?;
        let of_host = &mut host.places.as_mut_slice()[..count * size_of::<i64>()];
        let behind = self.ids.len();
        self.missed.clear();
        for (id, at) in ids.iter().zip(bytemuck::cast_slice_mut::<_, i64>(of_host)) {
            let slot = self.map.slots()[*id as usize];
            *at = if slot == NO_SLOT { (behind + self.missed.len()) as i64 } else { i64::from(slot) };
            if slot == NO_SLOT {
                self.missed.push(*id);
            }
        }
        // Also for an empty fill, since the source expects every announced fill.
        let rows = &mut host.rows.as_mut_slice()[..self.missed.len() * row_bytes];
        let read = self.source.fill(&self.missed, HostPlace::new(&mut *rows))?;
        let hits = RowsRead::of(RowOrigin::DeviceCache, (count - self.missed.len()) as u64, row_bytes);
        let read = read.and(hits);
        // The copies are part of the fill, and the kernel would record its own beginning.
        place.note_beginning()?;
        if count == 0 {
            return Ok(Ticket::of(lane, read));
        }
        if !rows.is_empty() {
            let to = memory.address() + (behind * row_bytes) as u64;
            // SAFETY: our own memory, which has space for as many rows after the cached ones. The last kernel that read
            // them comes before on this stream. The last copy from the page-locked memory ran before the lane was given
            // again (`DevicePlace::new`).
            unsafe { host_to_device(place.stream, rows, to)? };
        }
        // SAFETY: as above, of the places.
        unsafe { host_to_device(place.stream, of_host, places.address())? };
        let arguments = GatherArguments {
            table: memory.address(),
            rows: (memory.bytes() / row_bytes) as u64,
            row_bytes: row_bytes as u64,
            ids: places.address(),
            count: count as u64,
            out: place.out,
            report: place.report,
            slot_map: 0,
            cache: 0,
            order: 0,
        };
        // SAFETY: every place refers to a cached or a missed row, written earlier on the stream. Rows, report and
        // stream are the place's, by the promise of `DevicePlace::new`.
        unsafe { place.kernels.rows(place.stream, self.kernel, IdWidth::I64, &arguments, self.bound)? };
        Ok(Ticket::of(lane, read))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<RowsRead, FillError> {
        Ok(ticket.read)
    }
}

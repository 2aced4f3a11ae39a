//! Shared code of the tests: the machine, a table, slots and batches to fill them with.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use uva_cuda::kernels::gather::{GatherKernels, Kernel};
use uva_cuda::memory::{
    IpcKind, PinOptions, PinnedBuffer, PinnedTable, SharedBuffer, TableBytes, device_to_host,
};
use uva_cuda::{CacheKind, Context, CudaEvent, CudaStream, Module, ModuleOptions};
use uva_rows::conformance::Extent;
use uva_rows::cuda::{
    DeviceSource, Fill, FillError, GridBound, Pinned, SlotFiller, SlotPlace, SlotShape, Spliced, SplitSource,
    StagingSource,
};
use uva_rows::{MappedTable, RowSource};

/// All row sizes on a GPU and with `UVATRAIN_TESTS=all`, as in scripts/measure/long_tests.sh. The stand-in takes a minute
/// of a processor for all of them.
pub fn extent() -> Extent {
    let all = std::env::var_os("UVATRAIN_TESTS").is_some_and(|which| which == "all");
    if all || cuda_sim::on_a_gpu() { Extent::All } else { Extent::Part }
}

pub fn kernels(context: &Arc<Context>) -> GatherKernels {
    let options = ModuleOptions {
        cache: cuda_sim::kernel_cache().map_or(CacheKind::Off, CacheKind::Folder),
        ..Default::default()
    };
    GatherKernels::new(&Module::gather(context, &options).unwrap()).unwrap()
}

/// Bytes on separate pages, with the alignment within a line of another slice of bytes.
pub struct Aside {
    pub memory: Vec<u8>,
    pub range: Range<usize>,
}

impl Aside {
    pub fn of(bytes: &[u8]) -> Self {
        const PAGE: usize = 4096;
        let mut memory = vec![0; bytes.len() + 3 * PAGE];
        let page = memory.as_ptr().align_offset(PAGE);
        let start = page + bytes.as_ptr() as usize % 128;
        let range = start..start + bytes.len();
        memory[range.clone()].copy_from_slice(bytes);
        Self { memory, range }
    }
}

impl TableBytes for Aside {
    fn bytes(&self) -> &[u8] {
        &self.memory[self.range.clone()]
    }

    fn is_writable(&self) -> bool {
        true
    }
}

/// The source that fills the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatherMode {
    ZeroCopy,
    Dma,
    Spliced,
    Split,
}

/// A filler as in a run.
pub type Filler = SlotFiller<Box<dyn DeviceSource + Send>>;

pub const MODES: [GatherMode; 4] =
    [GatherMode::ZeroCopy, GatherMode::Dma, GatherMode::Spliced, GatherMode::Split];

/// splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

pub const ROW_BYTES: usize = 188;
pub const ROWS: usize = 5000;
/// The layout: the report, two arrays, ids, features.
pub const ARRAYS: [Range<usize>; 2] = [64..2112, 3072..3072 + 333];
pub const IDS_AT: usize = 4096;
pub const FEATURES_AT: usize = 64 << 10;
pub const MOST_IDS: usize = 4000;
pub const STRIDE: usize = 1 << 20;
pub const SHAPE: SlotShape = SlotShape { slots: 2, stride: STRIDE };

pub struct Machine {
    pub context: Arc<Context>,
    pub table_bytes: Vec<u8>,
    pub table: Arc<PinnedTable>,
    pub buffer: Arc<SharedBuffer>,
    pub kernels: GatherKernels,
}

impl Machine {
    pub fn new() -> Self {
        let context = Context::primary(0).unwrap();
        let mut random = Random(11);
        let table_bytes: Vec<u8> = (0..ROWS * ROW_BYTES).map(|_| random.next() as u8).collect();
        let table =
            PinnedTable::new(&context, Arc::new(Aside::of(&table_bytes)), &PinOptions::default()).unwrap();
        let buffer = SharedBuffer::create(&context, 2 * STRIDE, IpcKind::Auto, "2 feature slots").unwrap();
        let kernels = kernels(&context);
        Self { context, table_bytes, table: Arc::new(table), buffer: Arc::new(buffer), kernels }
    }

    pub fn pinned(&self, kernel: Kernel) -> Pinned {
        let bound = GridBound::Multiprocessors(2);
        Pinned::new(self.kernels.clone(), self.table.clone(), ROW_BYTES, kernel, bound).unwrap()
    }

    pub fn staged(&self) -> StagingSource<MappedTable<'static>> {
        let table = MappedTable::owned(Arc::new(Aside::of(&self.table_bytes)), ROW_BYTES, 2).unwrap();
        StagingSource::new(&self.context, table).unwrap()
    }

    /// With the rows of these ids on the device.
    pub fn spliced(&self, ids: &[i64]) -> Spliced<MappedTable<'static>> {
        let table = MappedTable::owned(Arc::new(Aside::of(&self.table_bytes)), ROW_BYTES, 2).unwrap();
        let by = (Kernel::Wide, GridBound::Multiprocessors(1));
        Spliced::new(&self.context, table, ids, by).unwrap()
    }

    pub fn split(&self, kernel: Kernel) -> SplitSource<Pinned, StagingSource<MappedTable<'static>>> {
        SplitSource::new(self.pinned(kernel), self.staged()).unwrap()
    }

    pub fn filler(&self, mode: GatherMode) -> Filler {
        let source: Box<dyn DeviceSource + Send> = match mode {
            GatherMode::ZeroCopy => Box::new(self.pinned(Kernel::Shift)),
            GatherMode::Dma => Box::new(self.staged()),
            GatherMode::Spliced => Box::new(self.spliced(&[3, 400, 7])),
            GatherMode::Split => Box::new(self.split(Kernel::Shift)),
        };
        self.filler_of(source)
    }

    /// A filler with room for the largest batch.
    pub fn filler_of<S: DeviceSource>(&self, source: S) -> SlotFiller<S> {
        self.filler_on(CudaStream::new(&self.context).unwrap(), source)
    }

    pub fn filler_on<S: DeviceSource>(&self, stream: CudaStream, source: S) -> SlotFiller<S> {
        let mut filler = self.bare_filler(stream, source, SHAPE).unwrap();
        filler.reserve_room(FEATURES_AT, MOST_IDS).unwrap();
        filler
    }

    /// A filler with no room yet.
    pub fn bare_filler<S: DeviceSource>(
        &self,
        stream: CudaStream,
        source: S,
        shape: SlotShape,
    ) -> Result<SlotFiller<S>, FillError> {
        SlotFiller::new(stream, self.kernels.clone(), source, self.buffer.clone(), shape)
    }

    /// Enqueues a read of a slot in stream order, into pinned memory: a copy into any other memory would make the host
    /// wait for the stream.
    pub fn read(&self, stream: &CudaStream, slot: usize) -> PinnedBuffer {
        let mut out = PinnedBuffer::new(&self.context, STRIDE, "what a consumer saw").unwrap();
        let from = self.buffer.address() + (slot * STRIDE) as u64;
        // SAFETY: the buffer outlives the stream, and every caller keeps `out` untouched until it has synchronised.
        unsafe { device_to_host(stream, from, out.as_mut_slice()) }.unwrap();
        out
    }
}

/// Page-locked memory for a test that holds streams, allocated before it holds any: a driver may let an allocation or
/// release of such memory wait for all queued work, and so for the test itself.
pub struct Pool {
    flags: Arc<PinnedBuffer>,
    held: usize,
    room: Vec<PinnedBuffer>,
}

impl Pool {
    /// Bytes between flags, so that no two flags share a line.
    const APART: usize = 128;

    pub fn new(machine: &Machine, holds: usize, reads: usize) -> Self {
        let buffer = |bytes, what| PinnedBuffer::new(&machine.context, bytes, what).unwrap();
        Self {
            flags: Arc::new(buffer(holds * Self::APART, "flags")),
            held: 0,
            room: (0..reads).map(|_| buffer(STRIDE, "what a consumer saw")).collect(),
        }
    }

    /// As [`Machine::read`].
    pub fn read(&mut self, machine: &Machine, stream: &CudaStream, slot: usize) -> PinnedBuffer {
        let mut out = self.room.pop().expect("room for another read");
        let from = machine.buffer.address() + (slot * STRIDE) as u64;
        // SAFETY: as in `Machine::read`.
        unsafe { device_to_host(stream, from, out.as_mut_slice()) }.unwrap();
        out
    }

    /// Enqueues a wait that blocks a stream until it's released.
    pub fn hold(&mut self, machine: &Machine, stream: &CudaStream) -> Hold {
        let at = self.held * Self::APART;
        assert!(at < self.flags.bytes(), "flags for another hold");
        self.held += 1;
        // SAFETY: the flag is zero and aligned, and every test releases the stream and waits before it drops the last
        // owner.
        unsafe { machine.kernels.spin_until(stream, self.flags.address() + at as u64) }.unwrap();
        Hold { flags: self.flags.clone(), at }
    }
}

/// A blocked stream.
pub struct Hold {
    flags: Arc<PinnedBuffer>,
    at: usize,
}

impl Hold {
    pub fn let_go(&self) {
        let flag = self.flags.as_ptr().wrapping_add(self.at).cast_mut();
        // SAFETY: 4 aligned bytes that live; there is no reference to them, and the kernel only reads them.
        unsafe { AtomicU32::from_ptr(flag.cast()) }.store(1, Ordering::Release);
    }
}

impl Drop for Hold {
    /// A test that fails meanwhile ends, instead of waiting for a blocked stream.
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Allows some time for an event that must not happen. No test depends on the length: it only finds more with more.
pub fn never(what: &str, mut happened: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_millis(3);
    while Instant::now() < until {
        assert!(!happened(), "{what}");
        std::thread::yield_now();
    }
}

/// A batch: its payload, and the expected content of a slot.
pub struct Batch {
    pub payload: Vec<u8>,
    pub ids: Vec<i64>,
    pub stamp: u64,
}

impl Batch {
    pub fn new(random: &mut Random, count: usize, stamp: u64) -> Self {
        let mut payload: Vec<u8> = (0..FEATURES_AT).map(|_| random.next() as u8).collect();
        let ids: Vec<i64> = (0..count).map(|_| random.below(ROWS) as i64).collect();
        for (place, id) in payload[IDS_AT..].chunks_exact_mut(8).zip(&ids) {
            place.copy_from_slice(&id.to_ne_bytes());
        }
        Self { payload, ids, stamp }
    }

    pub fn ids_range(&self) -> Range<usize> {
        IDS_AT..IDS_AT + 8 * self.ids.len()
    }

    pub fn fill<S: DeviceSource>(
        &self,
        filler: &mut SlotFiller<S>,
        slot: usize,
        after: Option<&CudaEvent>,
        ready: &CudaEvent,
    ) -> Result<(), FillError> {
        let copy = self.payload.clone();
        let [first, second] = ARRAYS;
        let arrays = [first, second, self.ids_range()].map(|range| (range.start, &copy[range]));
        let place = SlotPlace {
            slot,
            arrays: &arrays,
            on_device: None,
            ids_at: IDS_AT,
            features_at: FEATURES_AT,
            sums: None,
            made: None,
            brought: None,
            tables_at: None,
            of_set: None,
            begun: None,
            stamp: self.stamp,
            after: after.map(|event| event as _),
            ready,
        };
        let result = filler.submit(&self.ids, place).map(drop);
        // The caller owns the payload again: later changes must not be visible in the slot.
        drop(std::hint::black_box(copy.into_iter().map(|byte| !byte).collect::<Vec<u8>>()));
        result
    }

    /// Compares a slot with a plain loop.
    pub fn check(&self, slot: &[u8], table: &[u8], case: &str) {
        for range in std::iter::once(self.ids_range()).chain(ARRAYS) {
            assert!(slot[range.clone()] == self.payload[range.clone()], "{case}: the array at {range:?}");
        }
        for (i, &id) in self.ids.iter().enumerate() {
            let row = &slot[FEATURES_AT + i * ROW_BYTES..][..ROW_BYTES];
            assert!(row == &table[id as usize * ROW_BYTES..][..ROW_BYTES], "{case}: row {i}, id {id}");
        }
        let stamp = u64::from_ne_bytes(slot[..8].try_into().unwrap());
        assert_eq!(stamp, self.stamp, "{case}: the stamp in the slot");
    }
}

/// Fills two slots alternately, read by a consumer on a separate stream: only events order the two, and the simulator
/// delays every step by a random time. The consumer holds each slot until the next fill of it has been enqueued, and
/// longer.
pub fn two_slots_in_turns<S: DeviceSource>(
    machine: &Machine,
    mut filler: SlotFiller<S>,
    batches: usize,
    seed: u64,
) -> Vec<Fill> {
    let consumer = CudaStream::new(&machine.context).unwrap();
    let ready = [(); 2].map(|()| CudaEvent::local(filler.stream().made_in()).unwrap());
    let free = [(); 2].map(|()| CudaEvent::interprocess(&machine.context).unwrap());
    let mut random = Random(seed);
    let mut pool = Pool::new(machine, batches, batches);
    let mut seen: Vec<(Batch, PinnedBuffer)> = Vec::new();
    // Released before anything else is dropped, if the test fails in the middle.
    let mut holds: Vec<Hold> = Vec::new();
    let mut fills = Vec::new();
    for index in 0..batches {
        let slot = index % 2;
        // All sizes: none, one, a few, all that fit.
        let count = [0, 1, 37, random.below(MOST_IDS), MOST_IDS][random.below(5)];
        let batch = Batch::new(&mut random, count, index as u64 + 1000);
        let after = (index >= 2).then_some(&free[slot]);
        batch.fill(&mut filler, slot, after, &ready[slot]).unwrap();
        if index >= 2 {
            never("a slot was filled while its consumer held it", || ready[slot].query().unwrap());
            holds[index - 2].let_go();
        }
        consumer.wait(&ready[slot]).unwrap();
        holds.push(pool.hold(machine, &consumer));
        seen.push((batch, pool.read(machine, &consumer, slot)));
        free[slot].record(&consumer).unwrap();
        fills.extend(filler.finished().unwrap());
    }
    for hold in &holds {
        hold.let_go();
    }
    consumer.synchronize().unwrap();
    fills.extend(filler.drain().unwrap());
    assert!(filler.finished().unwrap().is_empty(), "a fill is reported once");
    for (index, (batch, out)) in seen.iter().enumerate() {
        batch.check(out.as_slice(), &machine.table_bytes, &format!("batch {index}"));
    }
    assert_eq!(fills.len(), batches);
    for (index, fill) in fills.iter().enumerate() {
        assert_eq!((fill.slot, fill.stamp, fill.bad), (index % 2, index as u64 + 1000, None), "in order");
        assert_eq!(fill.rows, seen[index].0.ids.len());
        assert!(fill.began_ns <= fill.ended_ns && fill.read.total() == fill.rows as u64);
    }
    fills
}

pub const SHAKEN: [(&str, &str); 1] = [("CUDA_SIM_DELAY_US", "300")];

/// Asserts that the rows of these ids follow `features_at` of the only slot of a buffer.
pub fn assert_rows(
    context: &Arc<Context>,
    buffer: &SharedBuffer,
    features_at: usize,
    ids: &[i64],
    (table, row_bytes): (&[u8], usize),
    case: &str,
) {
    let mut out = vec![0; buffer.bytes()];
    let stream = CudaStream::new(context).unwrap();
    // SAFETY: both ends live until the synchronisation.
    unsafe { device_to_host(&stream, buffer.address(), &mut out) }.unwrap();
    stream.synchronize().unwrap();
    for (i, &id) in ids.iter().enumerate() {
        let row = &out[features_at + i * row_bytes..][..row_bytes];
        assert!(row == &table[id as usize * row_bytes..][..row_bytes], "{case}: row {i}, id {id}");
    }
}

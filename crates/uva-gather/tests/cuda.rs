//! The gather on a GPU, under the simulator: the conformance checks, and slots against a plain loop. With
//! `UVATRAIN_REQUIRE_GPU=1`, on the machine's own GPU: all but what wants faults.

use std::ops::Range;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use uva_cuda::kernels::gather::{GatherKernels, GridBound, Kernel};
use uva_cuda::memory::{
    IpcKind, PinHow, PinOptions, PinnedBuffer, PinnedTable, SharedBuffer, TableBytes, device_to_host,
};
use uva_cuda::partition::GreenPartition;
use uva_cuda::{CacheKind, Context, Event, Module, ModuleOptions, Stream};
use uva_gather::cuda::{
    CudaGather, DeviceTable, Fill, FillError, FillOptions, GatherMode, SlotFiller, SlotShape,
};
use uva_gather::{GatherError, conformance};

/// As `cuda_sim::in_process`, on the machine that the variables describe. On a GPU those that only make the simulator late
/// mean nothing.
fn under(test: &str, variables: &[(&str, &str)]) -> bool {
    const INSIDE: &str = "UVA_GATHER_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if cuda_sim::on_a_gpu() {
        let needed: Vec<_> =
            variables.iter().copied().filter(|(name, _)| *name != "CUDA_SIM_DELAY_US").collect();
        return cuda_sim::in_process_with(test, &needed);
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    command.envs(variables.iter().copied());
    cuda_sim::environment(&mut command);
    let output = command.output().unwrap();
    let text =
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{test}: {}\n{text}", output.status);
    false
}

fn kernels(context: &Arc<Context>) -> GatherKernels {
    let options = ModuleOptions { cache: CacheKind::Off, ..Default::default() };
    GatherKernels::new(&Module::gather(context, &options).unwrap()).unwrap()
}

/// Bytes on pages of their own, that begin where another slice of bytes does within its line.
struct Aside {
    memory: Vec<u8>,
    range: Range<usize>,
}

impl Aside {
    fn of(bytes: &[u8]) -> Self {
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

// --- the contract of every backend ---

fn conforms(kernel: Kernel) {
    let context = Context::primary(0).unwrap();
    let kernels = kernels(&context);
    let make = |table: &[u8], row_bytes: usize| {
        let table = PinnedTable::new(&context, Arc::new(Aside::of(table)), &PinOptions::default()).unwrap();
        assert_ne!(table.report().how, PinHow::Copied, "{:?}", table.report());
        // Few blocks, so that a warp comes back for more.
        let bound = GridBound::Blocks(2);
        CudaGather::new(kernels.clone(), Arc::new(table), row_bytes, kernel, bound).unwrap()
    };
    conformance::whole_tables(&|table, row_bytes| Box::new(make(table, row_bytes)));
    let make: &conformance::Make<'_> = &|table, row_bytes| Box::new(make(table, row_bytes));
    if !cuda_sim::on_a_gpu() {
        // The kernels themselves are tried at every size by uva-kernel-sim; a table is slow to make here.
        let sizes = [1, 3, 16, 100, 188, 480].into_iter();
        return conformance::every_row_size_at_every_offset(make, sizes, 0..128);
    }
    conformance::every_row_size_at_every_offset(make, [1, 2, 3, 16, 100, 188, 480, 516].into_iter(), 0..128);
    conformance::every_row_size_at_every_offset(make, 1..=1025, 0..1);
    conformance::every_row_size_at_every_offset(make, 1..=1025, 77..78);
    if kernel == Kernel::Wide {
        conformance::large_table(make);
    }
}

#[test]
fn the_naive_kernel_conforms() {
    if under("the_naive_kernel_conforms", &[]) {
        conforms(Kernel::Naive);
    }
}

#[test]
fn the_shift_kernel_conforms() {
    if under("the_shift_kernel_conforms", &[]) {
        conforms(Kernel::Shift);
    }
}

#[test]
fn the_wide_kernel_conforms() {
    if under("the_wide_kernel_conforms", &[]) {
        conforms(Kernel::Wide);
    }
}

#[test]
fn a_table_that_is_not_whole_rows_is_refused() {
    if !under("a_table_that_is_not_whole_rows_is_refused", &[]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let table = Arc::new(PinnedTable::new(&context, Arc::new(vec![0; 10]), &PinOptions::default()).unwrap());
    for row_bytes in [0, 3] {
        let error =
            CudaGather::new(kernels(&context), table.clone(), row_bytes, Kernel::Wide, GridBound::Device)
                .unwrap_err();
        assert!(error.to_string().contains("10 bytes"), "{error}");
    }
}

// --- slots ---

const MODES: [GatherMode; 3] = [GatherMode::ZeroCopy, GatherMode::Dma, GatherMode::Split];

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

const ROW_BYTES: usize = 188;
const ROWS: usize = 5000;
/// Where things lie: ids, two arrays, features, the report.
const IDS_AT: usize = 0;
const ARRAYS: [Range<usize>; 2] = [32 << 10..34 << 10, 40 << 10..40960 + 333];
const FEATURES_AT: usize = 64 << 10;
const MOST_IDS: usize = 4000;
const STRIDE: usize = 1 << 20;
const SHAPE: SlotShape = SlotShape { slots: 2, stride: STRIDE, report_at: STRIDE - 64 };

struct Machine {
    context: Arc<Context>,
    table_bytes: Vec<u8>,
    table: Arc<PinnedTable>,
    buffer: Arc<SharedBuffer>,
    kernels: GatherKernels,
}

impl Machine {
    fn new() -> Self {
        let context = Context::primary(0).unwrap();
        let mut random = Random(11);
        let table_bytes: Vec<u8> = (0..ROWS * ROW_BYTES).map(|_| random.next() as u8).collect();
        let table =
            PinnedTable::new(&context, Arc::new(Aside::of(&table_bytes)), &PinOptions::default()).unwrap();
        let buffer = SharedBuffer::create(&context, 2 * STRIDE, IpcKind::Auto, "2 feature slots").unwrap();
        let kernels = kernels(&context);
        Self { context, table_bytes, table: Arc::new(table), buffer: Arc::new(buffer), kernels }
    }

    fn options(&self, mode: GatherMode) -> FillOptions {
        FillOptions { mode, kernel: Kernel::Shift, multiprocessors: Some(2), threads: 2 }
    }

    fn filler(&self, mode: GatherMode) -> SlotFiller {
        self.filler_on(Stream::new(&self.context).unwrap(), self.options(mode))
    }

    fn filler_on(&self, stream: Stream, options: FillOptions) -> SlotFiller {
        SlotFiller::new(
            self.context.clone(),
            stream,
            self.kernels.clone(),
            self.table.clone(),
            ROW_BYTES,
            self.buffer.clone(),
            SHAPE,
            options,
        )
        .unwrap()
    }

    /// Enqueues a read of a slot, as it will be when the stream comes to it. Into pinned memory: a copy into any other would
    /// make the host wait for the stream.
    fn read(&self, stream: &Stream, slot: usize) -> PinnedBuffer {
        let mut out = PinnedBuffer::new(&self.context, STRIDE, "what a consumer saw").unwrap();
        let from = self.buffer.address() + (slot * STRIDE) as u64;
        // SAFETY: the buffer outlives the stream, and every caller keeps `out` untouched until it has synchronised.
        unsafe { device_to_host(stream, from, out.as_mut_slice()) }.unwrap();
        out
    }

    /// Enqueues that a stream stands still until it's let go.
    fn hold(&self, stream: &Stream) -> Hold {
        let flag = PinnedBuffer::new(&self.context, 4, "a flag").unwrap();
        // SAFETY: the flag is zero and aligned to a page, and every test lets go and waits before it drops it.
        unsafe { self.kernels.spin_until(stream, flag.address()) }.unwrap();
        Hold(flag)
    }
}

/// A stream that stands still.
struct Hold(PinnedBuffer);

impl Hold {
    fn let_go(&self) {
        // SAFETY: 4 aligned bytes that live; nobody has a reference to them, and the kernel only reads them.
        unsafe { AtomicU32::from_ptr(self.0.as_ptr().cast_mut().cast()) }.store(1, Ordering::Release);
    }
}

impl Drop for Hold {
    /// A test that fails meanwhile ends, instead of waiting for a stream that stands still.
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Gives what must not happen some time to happen. No test depends on how long that is: it only finds more with more.
fn never(what: &str, mut happened: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_millis(3);
    while Instant::now() < until {
        assert!(!happened(), "{what}");
        std::thread::yield_now();
    }
}

/// A batch: its payload, and what a slot holds after it.
struct Batch {
    payload: Vec<u8>,
    ids: Vec<i64>,
    stamp: u64,
}

impl Batch {
    fn new(random: &mut Random, count: usize, stamp: u64) -> Self {
        let mut payload: Vec<u8> = (0..FEATURES_AT).map(|_| random.next() as u8).collect();
        let ids: Vec<i64> = (0..count).map(|_| random.below(ROWS) as i64).collect();
        for (place, id) in payload.chunks_exact_mut(8).zip(&ids) {
            place.copy_from_slice(&id.to_ne_bytes());
        }
        Self { payload, ids, stamp }
    }

    fn ids_range(&self) -> Range<usize> {
        IDS_AT..IDS_AT + 8 * self.ids.len()
    }

    fn fill(
        &self,
        filler: &mut SlotFiller,
        slot: usize,
        after: Option<&Event>,
        ready: &Event,
    ) -> Result<(), FillError> {
        let mut arrays = vec![self.ids_range()];
        arrays.extend(ARRAYS);
        let copy = self.payload.clone();
        let result =
            filler.fill(slot, &copy, &arrays, self.ids_range(), FEATURES_AT, self.stamp, after, ready);
        // The payload is the caller's again: whatever becomes of it now may not be seen in the slot.
        drop(std::hint::black_box(copy.into_iter().map(|byte| !byte).collect::<Vec<u8>>()));
        result
    }

    /// Compares a slot with a plain loop.
    fn check(&self, slot: &[u8], table: &[u8], case: &str) {
        for range in std::iter::once(self.ids_range()).chain(ARRAYS) {
            assert!(slot[range.clone()] == self.payload[range.clone()], "{case}: the array at {range:?}");
        }
        for (i, &id) in self.ids.iter().enumerate() {
            let row = &slot[FEATURES_AT + i * ROW_BYTES..][..ROW_BYTES];
            assert!(row == &table[id as usize * ROW_BYTES..][..ROW_BYTES], "{case}: row {i}, id {id}");
        }
        let stamp = u64::from_ne_bytes(slot[SHAPE.report_at..][..8].try_into().unwrap());
        assert_eq!(stamp, self.stamp, "{case}: the stamp in the slot");
    }
}

/// Fills two slots in turns, read by a consumer on a stream of its own: only events order the two, and the simulator delays
/// every step by a random time. The consumer holds each slot until the next fill of it has been enqueued, and longer.
fn two_slots_in_turns(machine: &Machine, mut filler: SlotFiller, batches: usize, seed: u64) -> Vec<Fill> {
    let consumer = Stream::new(&machine.context).unwrap();
    let event = || Event::interprocess(&machine.context).unwrap();
    let (ready, free) = ([event(), event()], [event(), event()]);
    let mut random = Random(seed);
    let mut seen: Vec<(Batch, PinnedBuffer, Hold)> = Vec::new();
    let mut fills = Vec::new();
    for index in 0..batches {
        let slot = index % 2;
        // All sizes: none, one, a few, all that fit. Different ones grow the staging buffer.
        let count = [0, 1, 37, random.below(MOST_IDS), MOST_IDS][random.below(5)];
        let batch = Batch::new(&mut random, count, index as u64 + 1000);
        let after = (index >= 2).then_some(&free[slot]);
        batch.fill(&mut filler, slot, after, &ready[slot]).unwrap();
        if index >= 2 {
            never("a slot was filled while its consumer held it", || ready[slot].query().unwrap());
            seen[index - 2].2.let_go();
        }
        consumer.wait(&ready[slot]).unwrap();
        let hold = machine.hold(&consumer);
        let out = machine.read(&consumer, slot);
        free[slot].record(&consumer).unwrap();
        seen.push((batch, out, hold));
        fills.extend(filler.finished().unwrap());
    }
    for (_, _, hold) in &seen {
        hold.let_go();
    }
    consumer.synchronize().unwrap();
    fills.extend(filler.drain().unwrap());
    assert!(filler.finished().unwrap().is_empty(), "a fill is told once");
    for (index, (batch, out, _)) in seen.iter().enumerate() {
        batch.check(out.as_slice(), &machine.table_bytes, &format!("batch {index}"));
    }
    assert_eq!(fills.len(), batches);
    for (index, fill) in fills.iter().enumerate() {
        assert_eq!((fill.slot, fill.stamp, fill.bad), (index % 2, index as u64 + 1000, None), "in order");
        assert_eq!(fill.rows, seen[index].0.ids.len());
        assert!(fill.began_ns <= fill.ended_ns && fill.zero_copy_rows <= fill.rows);
    }
    fills
}

const SHAKEN: [(&str, &str); 1] = [("CUDA_SIM_DELAY_US", "300")];

#[test]
fn two_slots_reused_many_times_hold_what_a_plain_loop_gives_by_zero_copy() {
    if !under("two_slots_reused_many_times_hold_what_a_plain_loop_gives_by_zero_copy", &SHAKEN) {
        return;
    }
    let machine = Machine::new();
    let fills = two_slots_in_turns(&machine, machine.filler(GatherMode::ZeroCopy), 60, 1);
    assert!(fills.iter().all(|fill| fill.zero_copy_rows == fill.rows));
}

#[test]
fn two_slots_reused_many_times_hold_what_a_plain_loop_gives_by_copies() {
    if !under("two_slots_reused_many_times_hold_what_a_plain_loop_gives_by_copies", &SHAKEN) {
        return;
    }
    let machine = Machine::new();
    let fills = two_slots_in_turns(&machine, machine.filler(GatherMode::Dma), 60, 2);
    assert!(fills.iter().all(|fill| fill.zero_copy_rows == 0));
}

#[test]
fn two_slots_reused_many_times_hold_what_a_plain_loop_gives_by_both() {
    if !under("two_slots_reused_many_times_hold_what_a_plain_loop_gives_by_both", &SHAKEN) {
        return;
    }
    let machine = Machine::new();
    let filler = machine.filler(GatherMode::Split);
    assert_eq!(filler.share(), 0.5);
    let fills = two_slots_in_turns(&machine, filler, 60, 3);
    let divided = fills.iter().filter(|fill| (1..fill.rows).contains(&fill.zero_copy_rows)).count();
    assert!(divided > 15, "{divided} batches were divided");
}

#[test]
fn pieces_on_their_way_are_not_overwritten() {
    if !under("pieces_on_their_way_are_not_overwritten", &[("CUDA_SIM_DELAY_US", "20000")]) {
        return;
    }
    // A batch is many times as large as all pieces together, and the simulator copies each late.
    const ROW_BYTES: usize = 500_009;
    const ROWS: usize = 30;
    let context = Context::primary(0).unwrap();
    let table_bytes: Vec<u8> = (0..ROWS * ROW_BYTES).map(|i| (i / ROW_BYTES * 31 + i % 251) as u8).collect();
    let owner = Arc::new(Aside::of(&table_bytes));
    let table = Arc::new(PinnedTable::new(&context, owner, &PinOptions::default()).unwrap());
    let ids: Vec<i64> = (0..200).map(|i| i * 7 % ROWS as i64).collect();
    let payload: Vec<u8> = ids.iter().flat_map(|id| id.to_ne_bytes()).collect();
    let features_at = payload.len();
    let report_at = (features_at + ids.len() * ROW_BYTES).next_multiple_of(64);
    let shape = SlotShape { slots: 1, stride: report_at + 64, report_at };
    let buffer = Arc::new(SharedBuffer::create(&context, shape.stride, IpcKind::Auto, "a slot").unwrap());
    for mode in [GatherMode::Dma, GatherMode::Split] {
        let mut filler = SlotFiller::new(
            context.clone(),
            Stream::new(&context).unwrap(),
            kernels(&context),
            table.clone(),
            ROW_BYTES,
            buffer.clone(),
            shape,
            FillOptions { mode, kernel: Kernel::Shift, multiprocessors: Some(1), threads: 1 },
        )
        .unwrap();
        let ready = Event::local(&context).unwrap();
        let ids_range = 0..payload.len();
        let arrays = std::slice::from_ref(&ids_range);
        filler.fill(0, &payload, arrays, ids_range.clone(), features_at, 1, None, &ready).unwrap();
        filler.drain().unwrap();
        assert_rows(&context, &buffer, features_at, &ids, (&table_bytes, ROW_BYTES), &format!("{mode:?}"));
    }
}

/// The rows of these ids lie behind `features_at` of the only slot of a buffer.
fn assert_rows(
    context: &Arc<Context>,
    buffer: &SharedBuffer,
    features_at: usize,
    ids: &[i64],
    (table, row_bytes): (&[u8], usize),
    case: &str,
) {
    let mut out = vec![0; buffer.bytes()];
    let stream = Stream::new(context).unwrap();
    // SAFETY: both ends live until the synchronisation.
    unsafe { device_to_host(&stream, buffer.address(), &mut out) }.unwrap();
    stream.synchronize().unwrap();
    for (i, &id) in ids.iter().enumerate() {
        let row = &out[features_at + i * row_bytes..][..row_bytes];
        assert!(row == &table[id as usize * row_bytes..][..row_bytes], "{case}: row {i}, id {id}");
    }
}

/// A table of several pieces, the last of them cut: rows on both sides of every border.
#[test]
fn a_table_on_the_device_has_the_rows_that_it_was_copied_from() {
    if !under("a_table_on_the_device_has_the_rows_that_it_was_copied_from", &SHAKEN) {
        return;
    }
    const PIECE: usize = 16 << 20;
    let context = Context::primary(0).unwrap();
    let rows = (2 * PIECE + PIECE / 3) / ROW_BYTES;
    let mut random = Random(5);
    let table_bytes: Vec<u8> = (0..(rows * ROW_BYTES).div_ceil(8))
        .flat_map(|_| random.next().to_ne_bytes())
        .take(rows * ROW_BYTES)
        .collect();
    let table = Arc::new(DeviceTable::new(&context, &table_bytes, "a table").unwrap());
    let mut ids: Vec<i64> = vec![0, rows as i64 - 1];
    for border in [PIECE, 2 * PIECE] {
        let row = (border / ROW_BYTES) as i64;
        ids.extend([row - 1, row, row + 1]);
    }
    let payload: Vec<u8> = ids.iter().flat_map(|id| id.to_ne_bytes()).collect();
    let features_at = payload.len();
    let report_at = (features_at + ids.len() * ROW_BYTES).next_multiple_of(64);
    let shape = SlotShape { slots: 1, stride: report_at + 64, report_at };
    let buffer = Arc::new(SharedBuffer::create(&context, shape.stride, IpcKind::Auto, "a slot").unwrap());
    let filler = |mode| {
        let stream = Stream::new(&context).unwrap();
        let options = FillOptions { mode, kernel: Kernel::Wide, multiprocessors: Some(1), threads: 1 };
        let (context, table, buffer) = (context.clone(), table.clone(), buffer.clone());
        SlotFiller::new(context.clone(), stream, kernels(&context), table, ROW_BYTES, buffer, shape, options)
    };
    assert!(filler(GatherMode::Dma).is_err(), "the CPU cannot read it");
    let mut filler = filler(GatherMode::ZeroCopy).unwrap();
    let ready = Event::local(&context).unwrap();
    let ids_range = 0..payload.len();
    let arrays = std::slice::from_ref(&ids_range);
    filler.fill(0, &payload, arrays, ids_range.clone(), features_at, 1, None, &ready).unwrap();
    filler.drain().unwrap();
    assert_rows(&context, &buffer, features_at, &ids, (&table_bytes, ROW_BYTES), "on the device");
}

#[test]
fn a_split_is_right_whatever_the_share() {
    if !under("a_split_is_right_whatever_the_share", &SHAKEN) {
        return;
    }
    let machine = Machine::new();
    for (seed, share) in [0.0, 0.1, 0.5, 0.93, 1.0, f64::NAN].into_iter().enumerate() {
        let mut filler = machine.filler(GatherMode::Split);
        filler.set_share(share);
        two_slots_in_turns(&machine, filler, 12, 100 + seed as u64);
    }
}

#[test]
fn the_share_of_a_split_follows_what_was_measured() {
    if !under("the_share_of_a_split_follows_what_was_measured", &[]) {
        return;
    }
    let machine = Machine::new();
    let mut filler = machine.filler(GatherMode::Split);
    let ready = Event::local(&machine.context).unwrap();
    let mut random = Random(5);
    let mut shares = vec![filler.share()];
    for index in 0..20 {
        Batch::new(&mut random, MOST_IDS, index + 1).fill(&mut filler, 0, None, &ready).unwrap();
        let fill = filler.drain().unwrap().remove(0);
        // Rows are divided by the share before them.
        assert_eq!(fill.zero_copy_rows, (MOST_IDS as f64 * shares[shares.len() - 1]).round() as usize);
        shares.push(filler.share());
    }
    assert!(shares.windows(2).any(|pair| pair[0] != pair[1]), "nothing was learnt: {shares:?}");
    assert!(shares.iter().all(|&share| share > 0.0 && share < 1.0), "{shares:?}");
}

#[test]
fn slots_are_filled_on_a_partition_by_every_kernel() {
    if !under("slots_are_filled_on_a_partition_by_every_kernel", &SHAKEN) {
        return;
    }
    let machine = Machine::new();
    let partition = GreenPartition::new(&machine.context, 8).unwrap();
    for (seed, kernel) in Kernel::ALL.into_iter().enumerate() {
        let options = FillOptions { kernel, multiprocessors: None, ..machine.options(GatherMode::Split) };
        let filler = machine.filler_on(partition.stream().unwrap(), options);
        two_slots_in_turns(&machine, filler, 10, 50 + seed as u64);
    }
}

#[test]
fn a_bad_id_is_in_the_report_by_zero_copy_and_refused_at_once_otherwise() {
    if !under("a_bad_id_is_in_the_report_by_zero_copy_and_refused_at_once_otherwise", &SHAKEN) {
        return;
    }
    let machine = Machine::new();
    let ready = Event::local(&machine.context).unwrap();
    for mode in MODES {
        let mut filler = machine.filler(mode);
        for (number, id) in [-1, ROWS as i64, i64::MIN, i64::MAX, 1 << 32].into_iter().enumerate() {
            for position in [0, 100, 499] {
                let mut batch = Batch::new(&mut Random(number as u64), 500, number as u64 + 1);
                // A second one at the end: the first is the one that counts.
                for (at, id) in [(499, -77), (position, id)] {
                    batch.ids[at] = id;
                    batch.payload[at * 8..][..8].copy_from_slice(&id.to_ne_bytes());
                }
                let result = batch.fill(&mut filler, 1, None, &ready);
                if mode == GatherMode::ZeroCopy {
                    result.unwrap();
                    let fill = filler.drain().unwrap().remove(0);
                    assert_eq!(fill.bad, Some((position as u64, id)), "{mode:?}");
                } else {
                    let Err(FillError::Rows(error)) = result else { panic!("{mode:?}: {result:?}") };
                    assert_eq!(error, GatherError::IdOutOfRange { position, id, rows: ROWS });
                    assert!(filler.drain().unwrap().is_empty(), "nothing was enqueued");
                }
            }
        }
        // The slot is none the worse for it.
        two_slots_in_turns(&machine, filler, 6, 77);
    }
}

#[test]
fn what_lies_outside_a_slot_is_refused_and_the_filler_goes_on() {
    if !under("what_lies_outside_a_slot_is_refused_and_the_filler_goes_on", &SHAKEN) {
        return;
    }
    let machine = Machine::new();
    let mut filler = machine.filler(GatherMode::ZeroCopy);
    let ready = Event::local(&machine.context).unwrap();
    let payload = vec![0; FEATURES_AT];
    for (slot, array, ids, features_at) in [
        (2, 0..64, 0..64, FEATURES_AT),
        (0, 0..FEATURES_AT + 1, 0..64, 2 * FEATURES_AT),
        (0, 0..64, 0..64, STRIDE - 64),
        (0, 0..64, 0..72, FEATURES_AT),
        (0, 0..64, 0..64, 0),
    ] {
        let result =
            filler.fill(slot, &payload, std::slice::from_ref(&array), ids, features_at, 1, None, &ready);
        assert!(matches!(result, Err(FillError::Layout(_))), "{result:?}");
    }
    assert!(filler.drain().unwrap().is_empty());
    two_slots_in_turns(&machine, filler, 6, 78);
    let shape = SlotShape { slots: 3, ..SHAPE };
    let refused = SlotFiller::new(
        machine.context.clone(),
        Stream::new(&machine.context).unwrap(),
        machine.kernels.clone(),
        machine.table.clone(),
        ROW_BYTES,
        machine.buffer.clone(),
        shape,
        machine.options(GatherMode::ZeroCopy),
    );
    assert!(matches!(refused, Err(FillError::Layout(_))), "{refused:?}");
}

/// Fails one call of the driver in the middle of fills: the error names it, and every fill after it is refused.
fn breaks(test: &str, mode: GatherMode, function: &str, call: usize) {
    if !under(test, &[("CUDA_SIM_FAIL", &format!("{function}:{call}=719"))]) {
        return;
    }
    let machine = Machine::new();
    let mut filler = machine.filler(mode);
    let ready = Event::local(&machine.context).unwrap();
    let mut random = Random(9);
    let error = (0..50)
        .find_map(|index| {
            let batch = Batch::new(&mut random, 2000, index + 1);
            batch.fill(&mut filler, (index % 2) as usize, None, &ready).err()
        })
        .expect("the fault is met within 50 fills");
    assert!(matches!(error, FillError::Cuda(_)), "{error:?}");
    let documented = function.trim_end_matches("_v2");
    assert!(error.to_string().contains(documented), "`{documented}` is missing in: {error}");
    let again = Batch::new(&mut random, 1, 1).fill(&mut filler, 0, None, &ready).unwrap_err();
    assert!(matches!(&again, FillError::Broken(why) if why.contains(documented)), "{again:?}");
    assert!(matches!(filler.finished(), Err(FillError::Broken(_))));
    assert!(matches!(filler.drain(), Err(FillError::Broken(_))));
    drop(filler);
}

#[test]
fn a_launch_that_fails_ends_the_filler_with_the_calls_name() {
    let test = "a_launch_that_fails_ends_the_filler_with_the_calls_name";
    breaks(test, GatherMode::ZeroCopy, "cuLaunchKernel", 7);
}

#[test]
fn a_copy_that_fails_ends_the_filler_with_the_calls_name() {
    let test = "a_copy_that_fails_ends_the_filler_with_the_calls_name";
    breaks(test, GatherMode::Dma, "cuMemcpyHtoDAsync_v2", 6);
}

#[test]
fn a_record_that_fails_ends_the_filler_with_the_calls_name() {
    breaks("a_record_that_fails_ends_the_filler_with_the_calls_name", GatherMode::Split, "cuEventRecord", 12);
}

#[test]
fn a_filler_that_is_dropped_waits_for_what_it_enqueued() {
    if !under("a_filler_that_is_dropped_waits_for_what_it_enqueued", &SHAKEN) {
        return;
    }
    let machine = Machine::new();
    for mode in MODES {
        let mut filler = machine.filler(mode);
        let consumer = Stream::new(&machine.context).unwrap();
        let hold = machine.hold(&consumer);
        let (free, ready) =
            (Event::local(&machine.context).unwrap(), Event::local(&machine.context).unwrap());
        free.record(&consumer).unwrap();
        let batch = Batch::new(&mut Random(4), MOST_IDS, 7);
        batch.fill(&mut filler, 1, Some(&free), &ready).unwrap();
        let gone = Arc::new(AtomicBool::new(false));
        let told = gone.clone();
        let dropper = std::thread::spawn(move || {
            drop(filler);
            told.store(true, Ordering::Release);
        });
        never("the filler was gone before the device had done its part", || gone.load(Ordering::Acquire));
        hold.let_go();
        dropper.join().unwrap();
        assert!(ready.query().unwrap(), "{mode:?}");
        let out = machine.read(&consumer, 1);
        consumer.synchronize().unwrap();
        batch.check(out.as_slice(), &machine.table_bytes, &format!("{mode:?}"));
    }
}

#[test]
fn a_filler_is_abandoned_while_the_device_waits_for_an_event_that_never_comes() {
    if !under("a_filler_is_abandoned_while_the_device_waits_for_an_event_that_never_comes", &[]) {
        return;
    }
    let machine = Machine::new();
    let mut filler = machine.filler(GatherMode::ZeroCopy);
    // A consumer that holds its slot for ever.
    let consumer = Stream::new(&machine.context).unwrap();
    let hold = machine.hold(&consumer);
    let (free, ready) = (Event::local(&machine.context).unwrap(), Event::local(&machine.context).unwrap());
    free.record(&consumer).unwrap();
    let batch = Batch::new(&mut Random(1), 100, 1);
    // Neither waits, and the second slot isn't held up by the host either.
    batch.fill(&mut filler, 0, Some(&free), &ready).unwrap();
    batch.fill(&mut filler, 1, None, &ready).unwrap();
    assert!(filler.finished().unwrap().is_empty());
    assert!(!ready.query().unwrap());
    filler.abandon();
    // As at the end of a process whose peer has died: what the device may yet use is left to the system.
    std::mem::forget((machine, consumer, hold, free, ready));
}

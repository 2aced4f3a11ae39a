//! Rows of a table in host memory, picked by id, written to device memory: `kernels/gather.cu`.

use std::ffi::c_void;

use cudarc::driver::sys::CUfunction_attribute;
use serde::{Deserialize, Serialize};

use crate::error::CudaError;
use crate::module::{Function, Module, Shape};
use crate::stream::Stream;

/// Threads of a block: `UVA_GATHER_BLOCK_THREADS` of `kernels/tuning.cuh`.
pub const BLOCK_THREADS: u32 = 512;
/// Threads of a warp.
const WARP: u32 = 32;

/// How rows are read: docs/kernels.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kernel {
    /// Lanes start at the row's first byte.
    Naive,
    /// Lanes are rotated, so that warps start on 128-byte lines.
    Shift,
    /// 16-byte pieces of whole lines, realigned on the way out.
    Wide,
}

impl Kernel {
    /// Every kernel.
    pub const ALL: [Self; 3] = [Self::Naive, Self::Shift, Self::Wide];

    /// As options and reports have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::Shift => "shift",
            Self::Wide => "wide",
        }
    }
}

/// The type of the ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdWidth {
    /// int32.
    I32,
    /// int64.
    I64,
}

impl IdWidth {
    /// Every width.
    pub const ALL: [Self; 2] = [Self::I32, Self::I64];

    /// Bytes of an id.
    pub fn bytes(self) -> u64 {
        match self {
            Self::I32 => 4,
            Self::I64 => 8,
        }
    }
}

/// What a gather reads and writes. Addresses are the device's. `GatherArguments` of `kernels/gather.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatherArguments {
    /// Row 0 of the table; any alignment. The aligned 16-byte pieces around its first and last byte are readable too,
    /// as they are wherever memory is mapped in pages.
    pub table: u64,
    /// Rows of the table: ids are `0..rows`.
    pub rows: u64,
    /// Bytes of a row, at least 1.
    pub row_bytes: u64,
    /// The ids, aligned to their own size.
    pub ids: u64,
    /// How many ids.
    pub count: u64,
    /// Row 0 of the output; any alignment; `count * row_bytes` bytes.
    pub out: u64,
    /// A [`GatherReport`], aligned to 8 bytes.
    pub report: u64,
    /// int32 for each row of the table: its slot in `cache`, negative for none. 0 when there is no cache.
    pub slot_map: u64,
    /// Cached rows in device memory, `row_bytes` each; any alignment, readable as the table is. 0 when there is none.
    pub cache: u64,
}

const _: () = assert!(size_of::<GatherArguments>() == 72 && align_of::<GatherArguments>() == 8);

/// How a gather went. `GatherReport` of `kernels/gather.cuh`; it lies in device memory and is read by a copy.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GatherReport {
    /// What [`GatherKernels::enqueue`] was given, once everything else is complete; 0 from the gather's beginning until
    /// then.
    pub stamp: u64,
    /// The device's clock at the beginning, nanoseconds.
    pub began_ns: u64,
    /// The device's clock at the end, nanoseconds.
    pub ended_ns: u64,
    /// The first position whose id is no row; all ones when there is none.
    pub bad_position: u64,
    /// That id.
    pub bad_id: i64,
    /// The kernels' own counter.
    pub next: u64,
    /// Rows that were read from the cache.
    pub hits: u64,
    /// The kernels' own counter.
    pub next_hit: u64,
}

const _: () = assert!(size_of::<GatherReport>() == GatherReport::BYTES && align_of::<GatherReport>() == 8);

impl GatherReport {
    /// Bytes of a report.
    pub const BYTES: usize = 64;

    /// A report from the bytes that were copied from the device.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let words: [u64; 8] = std::array::from_fn(|word| {
            u64::from_ne_bytes(std::array::from_fn(|byte| bytes[word * 8 + byte]))
        });
        let [stamp, began_ns, ended_ns, bad_position, bad_id, next, hits, next_hit] = words;
        Self { stamp, began_ns, ended_ns, bad_position, bad_id: bad_id as i64, next, hits, next_hit }
    }

    /// The first position whose id is no row of the table, and that id.
    pub fn bad(&self) -> Option<(u64, i64)> {
        (self.bad_position != u64::MAX).then_some((self.bad_position, self.bad_id))
    }
}

/// How many blocks a gather may have at once, which bounds the share of the device that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GridBound {
    /// As many as the multiprocessors that this process may use hold at once.
    Device,
    /// As many as so many multiprocessors hold at once. Which multiprocessors they run on is the device's choice.
    Multiprocessors(u32),
    /// So many.
    Blocks(u32),
}

/// What a kernel takes of a multiprocessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct KernelResources {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread: other than 0 where registers spill.
    pub local_bytes: u32,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// Blocks of [`BLOCK_THREADS`] that a multiprocessor holds at once.
    pub blocks_per_multiprocessor: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) function: Function,
    blocks_per_multiprocessor: u32,
}

/// The gather kernels, ready to be launched. Cheap to clone.
#[derive(Debug, Clone)]
pub struct GatherKernels {
    begin: Function,
    finish: [Function; 2],
    spin_until: Function,
    /// By kernel, width, and whether there is a cache.
    gather: [[[Entry; 2]; 2]; 3],
    pub(super) insert: Entry,
    multiprocessors: u32,
}

/// What `gather_begin` and `gather_finish` are launched with.
const SINGLE: Shape = Shape { blocks: 1, threads: 1 };

/// The kernels' names, in the order of the tables above.
const GATHER_NAMES: [[[&str; 2]; 2]; 3] = [
    [["gather_naive_i32", "gather_naive_i32_cached"], ["gather_naive_i64", "gather_naive_i64_cached"]],
    [["gather_shift_i32", "gather_shift_i32_cached"], ["gather_shift_i64", "gather_shift_i64_cached"]],
    [["gather_wide_i32", "gather_wide_i32_cached"], ["gather_wide_i64", "gather_wide_i64_cached"]],
];
const FINISH_NAMES: [&str; 2] = ["gather_finish_i32", "gather_finish_i64"];

impl GatherKernels {
    /// The kernels of [`Module::gather`].
    ///
    /// # Errors
    /// [`CudaError::Call`] if the module lacks one, or the device cannot run it.
    pub fn new(module: &Module) -> Result<Self, CudaError> {
        let entry = |name| {
            let function = module.function(name)?;
            let blocks_per_multiprocessor = function.blocks_per_multiprocessor(BLOCK_THREADS)?;
            if blocks_per_multiprocessor == 0 {
                return Err(CudaError::Unsupported(format!(
                    "a multiprocessor of {} holds no block of {BLOCK_THREADS} threads of {name}",
                    module.context().device().name()
                )));
            }
            Ok(Entry { function, blocks_per_multiprocessor })
        };
        let pair = |names: [&'static str; 2]| Ok::<_, CudaError>([entry(names[0])?, entry(names[1])?]);
        let four = |names: [[&'static str; 2]; 2]| Ok::<_, CudaError>([pair(names[0])?, pair(names[1])?]);
        Ok(Self {
            begin: module.function("gather_begin")?,
            finish: [module.function(FINISH_NAMES[0])?, module.function(FINISH_NAMES[1])?],
            spin_until: module.function("spin_until")?,
            gather: [four(GATHER_NAMES[0])?, four(GATHER_NAMES[1])?, four(GATHER_NAMES[2])?],
            insert: entry("cache_insert")?,
            multiprocessors: module.context().device().multiprocessors(),
        })
    }

    /// Enqueues a gather: the report is reset, row `ids[i]` of the table (or of the cache, where both `slot_map` and
    /// `cache` are given and the row has a slot) goes to row `i` of the output, the report is completed and gets
    /// `stamp`, which should be other than 0. An id that is no row is in the report; its output row stays as it was.
    /// Three launches; returns without waiting.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for arguments that no memory can satisfy (a row of no bytes, a size beyond 64 bits, a wrong
    /// alignment, a cache without a map); [`CudaError::Call`] if a launch fails: what was enqueued before it runs.
    ///
    /// # Safety
    /// From this call until the stream has passed the gather, on the stream's device: `table` is `rows * row_bytes`
    /// readable bytes and the aligned pieces of 16 around them, which nobody writes; `ids` is `count` readable ids,
    /// written before (in stream order) and not during; `out` is `count * row_bytes` writable bytes and `report` 64,
    /// which nobody else reads or writes and which overlap nothing else; `slot_map` and `cache`, unless 0, are readable
    /// as
    /// [`GatherArguments`] has them, with every slot in the map a row of the cache. A clone of these kernels, or the
    /// module, lives until then. The stream is of the module's context, or of a green context of its device.
    pub unsafe fn enqueue(
        &self,
        stream: &Stream,
        kernel: Kernel,
        width: IdWidth,
        arguments: &GatherArguments,
        stamp: u64,
        bound: GridBound,
    ) -> Result<(), CudaError> {
        arguments.check(width)?;
        // SAFETY: the caller's promise, in each.
        unsafe {
            self.begin(stream, arguments.report)?;
            self.rows(stream, kernel, width, arguments, bound)?;
            self.finish(stream, width, arguments.report, arguments.ids, stamp)
        }
    }

    /// Enqueues the first step of [`GatherKernels::enqueue`] alone: the report at that device address is reset. For
    /// those who have something else to enqueue between the steps, or no rows at all.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    ///
    /// # Safety
    /// As [`GatherKernels::enqueue`] has it for the report.
    pub unsafe fn begin(&self, stream: &Stream, report: u64) -> Result<(), CudaError> {
        let mut report = report;
        // SAFETY: one parameter, the report's address; the caller promises the report.
        unsafe { self.begin.launch(stream, SINGLE, &mut [pointer(&mut report)]) }
    }

    /// Enqueues the middle step of [`GatherKernels::enqueue`] alone: the rows. None to gather: nothing is enqueued. The
    /// report must have been reset before, in stream order, for each call anew.
    ///
    /// # Errors
    /// As [`GatherKernels::enqueue`].
    ///
    /// # Safety
    /// As [`GatherKernels::enqueue`].
    pub unsafe fn rows(
        &self,
        stream: &Stream,
        kernel: Kernel,
        width: IdWidth,
        arguments: &GatherArguments,
        bound: GridBound,
    ) -> Result<(), CudaError> {
        arguments.check(width)?;
        if arguments.count == 0 {
            return Ok(());
        }
        let cached = arguments.slot_map != 0;
        let entry = &self.gather[kernel as usize][width as usize][usize::from(cached)];
        let shape = self.shape(entry, bound, arguments.count);
        let mut copy = *arguments;
        // SAFETY: one parameter, the arguments by value, whose layout the header shares; the caller promises all that
        // they name.
        unsafe { entry.function.launch(stream, shape, &mut [pointer(&mut copy)]) }
    }

    /// Enqueues the last step of [`GatherKernels::enqueue`] alone: the report is completed, `stamp` last.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    ///
    /// # Safety
    /// As [`GatherKernels::enqueue`] has it for the report; `ids` are those of the rows step, still as they were.
    pub unsafe fn finish(
        &self,
        stream: &Stream,
        width: IdWidth,
        report: u64,
        ids: u64,
        stamp: u64,
    ) -> Result<(), CudaError> {
        let (mut report, mut ids, mut stamp) = (report, ids, stamp);
        let mut parameters = [pointer(&mut report), pointer(&mut ids), pointer(&mut stamp)];
        // SAFETY: three parameters of 8 bytes, as the kernel has them; the caller promises report and ids.
        unsafe { self.finish[width as usize].launch(stream, SINGLE, &mut parameters) }
    }

    /// Holds the stream until a word of pinned host memory is other than 0: so all that is to be timed can be enqueued
    /// first. Occupies one multiprocessor's one thread meanwhile.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    ///
    /// # Safety
    /// `flag` is the device address of 4 aligned readable bytes until the stream has passed this; somebody makes them
    /// other than 0, without waiting for the stream first.
    pub unsafe fn spin_until(&self, stream: &Stream, flag: u64) -> Result<(), CudaError> {
        let mut flag = flag;
        // SAFETY: one parameter, the flag's address, which the caller promises.
        unsafe { self.spin_until.launch(stream, SINGLE, &mut [pointer(&mut flag)]) }
    }

    /// What a kernel takes of a multiprocessor; `cached` is the form with a slot map.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn resources(
        &self,
        kernel: Kernel,
        width: IdWidth,
        cached: bool,
    ) -> Result<KernelResources, CudaError> {
        let entry = &self.gather[kernel as usize][width as usize][usize::from(cached)];
        use CUfunction_attribute::*;
        Ok(KernelResources {
            registers: entry.function.attribute(CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: entry.function.attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            shared_bytes: entry.function.attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            blocks_per_multiprocessor: entry.blocks_per_multiprocessor,
        })
    }

    /// A grid for work that `warps` warps can share.
    pub(super) fn shape(&self, entry: &Entry, bound: GridBound, warps: u64) -> Shape {
        let most = bound.blocks(entry.blocks_per_multiprocessor, self.multiprocessors);
        Shape { blocks: blocks_for(warps, most), threads: BLOCK_THREADS }
    }
}

impl GridBound {
    /// The most blocks, where a multiprocessor holds `each` and there are `multiprocessors`.
    pub(crate) fn blocks(self, each: u32, multiprocessors: u32) -> u32 {
        match self {
            Self::Device => each.saturating_mul(multiprocessors),
            Self::Multiprocessors(some) => each.saturating_mul(some),
            Self::Blocks(blocks) => blocks,
        }
    }
}

/// One block at least; no more than there are rows for its warps.
fn blocks_for(count: u64, most: u32) -> u32 {
    let useful = count.div_ceil(u64::from(BLOCK_THREADS / WARP));
    u32::try_from(useful).unwrap_or(u32::MAX).min(most).max(1)
}

pub(super) fn pointer<T>(value: &mut T) -> *mut c_void {
    std::ptr::from_mut(value).cast()
}

impl GatherArguments {
    fn check(&self, width: IdWidth) -> Result<(), CudaError> {
        let refuse = |what: String| Err(CudaError::Refused(format!("a gather cannot be launched: {what}")));
        if self.row_bytes == 0 {
            return refuse("its rows have no bytes".to_owned());
        }
        for (what, address, many, each) in [
            ("the table", self.table, self.rows, self.row_bytes),
            ("the ids", self.ids, self.count, width.bytes()),
            ("the output", self.out, self.count, self.row_bytes),
            ("the slot map", self.slot_map, if self.slot_map == 0 { 0 } else { self.rows }, 4),
        ] {
            if many.checked_mul(each).and_then(|bytes| address.checked_add(bytes)).is_none() {
                return refuse(format!(
                    "{what} ({many} times {each} bytes at {address:#x}) reaches beyond 64 bits"
                ));
            }
            if many > 0 && address == 0 {
                return refuse(format!("{what} is at address 0"));
            }
        }
        for (what, address, alignment) in [
            ("the ids", self.ids, width.bytes()),
            ("the report", self.report, 8),
            ("the slot map", self.slot_map, 4),
        ] {
            if address % alignment != 0 {
                return refuse(format!("{what} at {address:#x} is not aligned to {alignment} bytes"));
            }
        }
        if self.report == 0 {
            return refuse("the report is at address 0".to_owned());
        }
        if (self.slot_map == 0) != (self.cache == 0) {
            return refuse("a slot map and a cache go together".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::module::GATHER;

    fn header(name: &str) -> &'static str {
        GATHER.headers.iter().find(|(known, _)| *known == name).unwrap().1
    }

    #[test]
    fn the_block_size_is_that_of_the_header() {
        let defined = header("tuning.cuh")
            .lines()
            .find_map(|line| line.strip_prefix("#define UVA_GATHER_BLOCK_THREADS "))
            .unwrap();
        assert_eq!(defined.trim().parse(), Ok(BLOCK_THREADS));
    }

    /// The fields of a struct in a header, in order.
    pub fn fields(file: &str, name: &str) -> Vec<String> {
        let text = header(file);
        let body = text.split_once(&format!("struct {name} {{")).unwrap().1.split_once("};").unwrap().0;
        body.lines()
            .filter_map(|line| line.split("//").next()?.trim().strip_suffix(';'))
            .map(|field| field.rsplit([' ', '*']).next().unwrap().to_owned())
            .collect()
    }

    /// The fields of a struct here, in order, as its debug output names them.
    pub fn fields_of(value: impl std::fmt::Debug) -> Vec<String> {
        let text = format!("{value:#?}");
        text.lines().filter_map(|line| Some(line.trim().split_once(": ")?.0.to_owned())).collect()
    }

    #[test]
    fn arguments_and_report_have_the_fields_of_the_header() {
        assert_eq!(fields("gather.cuh", "GatherArguments"), fields_of(arguments()));
        assert_eq!(fields("gather.cuh", "GatherReport"), fields_of(GatherReport::default()));
    }

    #[test]
    fn every_kernel_that_is_launched_is_in_the_source() {
        let names = GATHER_NAMES.as_flattened().as_flattened().iter().chain(&FINISH_NAMES);
        for name in names.chain(&["gather_begin", "spin_until", "cache_insert"]) {
            assert!(GATHER.text.contains(&format!(" {name}(")), "{name}");
        }
        for (kernel, names) in Kernel::ALL.iter().zip(GATHER_NAMES) {
            for (width, names) in IdWidth::ALL.iter().zip(names) {
                let name = format!("gather_{}_i{}", kernel.name(), width.bytes() * 8);
                assert_eq!(names, [name.clone(), name + "_cached"]);
            }
        }
    }

    #[test]
    fn a_report_is_read_from_its_bytes() {
        let mut bytes = [0; GatherReport::BYTES];
        for word in 0..8u64 {
            bytes[word as usize * 8..][..8].copy_from_slice(&(word + 1).to_ne_bytes());
        }
        bytes[32..40].copy_from_slice(&(-7i64).to_ne_bytes());
        let report = GatherReport::from_bytes(&bytes);
        let expected = GatherReport {
            stamp: 1,
            began_ns: 2,
            ended_ns: 3,
            bad_position: 4,
            bad_id: -7,
            next: 6,
            hits: 7,
            next_hit: 8,
        };
        assert_eq!(report, expected);
        assert_eq!(report.bad(), Some((4, -7)));
        assert_eq!(GatherReport { bad_position: u64::MAX, ..report }.bad(), None);
    }

    #[test]
    fn a_bound_is_counted_in_blocks_that_multiprocessors_hold() {
        assert_eq!(GridBound::Device.blocks(2, 132), 264);
        assert_eq!(GridBound::Multiprocessors(8).blocks(2, 132), 16);
        assert_eq!(GridBound::Blocks(5).blocks(2, 132), 5);
        assert_eq!(GridBound::Multiprocessors(u32::MAX).blocks(2, 132), u32::MAX);
    }

    #[test]
    fn a_grid_is_no_larger_than_its_bound_and_its_rows() {
        assert_eq!(blocks_for(0, 100), 1);
        assert_eq!(blocks_for(16, 100), 1);
        assert_eq!(blocks_for(17, 100), 2);
        assert_eq!(blocks_for(u64::MAX, 100), 100);
        assert_eq!(blocks_for(1 << 40, u32::MAX), u32::MAX);
        assert_eq!(blocks_for(1000, 0), 1);
    }

    fn arguments() -> GatherArguments {
        GatherArguments {
            table: 0x1003,
            rows: 10,
            row_bytes: 7,
            ids: 0x2008,
            count: 3,
            out: 0x3001,
            report: 0x4000,
            slot_map: 0,
            cache: 0,
        }
    }

    #[test]
    fn arguments_that_no_memory_can_satisfy_are_refused() {
        let good = arguments();
        good.check(IdWidth::I64).unwrap();
        GatherArguments { ids: 0x2004, ..good }.check(IdWidth::I32).unwrap();
        GatherArguments { slot_map: 0x5004, cache: 0x6001, ..good }.check(IdWidth::I64).unwrap();
        GatherArguments { count: 0, ids: 0, out: 0, ..good }.check(IdWidth::I64).unwrap();
        for (wrong, told) in [
            (GatherArguments { row_bytes: 0, ..good }, "no bytes"),
            (GatherArguments { rows: u64::MAX / 2, ..good }, "the table"),
            (GatherArguments { count: u64::MAX / 4, ..good }, "the ids"),
            (GatherArguments { table: 0, ..good }, "the table"),
            (GatherArguments { out: u64::MAX - 10, ..good }, "the output"),
            (GatherArguments { ids: 0x2004, ..good }, "aligned to 8"),
            (GatherArguments { report: 0x4004, ..good }, "the report"),
            (GatherArguments { report: 0, ..good }, "the report"),
            (GatherArguments { slot_map: 0x5004, ..good }, "go together"),
            (GatherArguments { cache: 0x6001, ..good }, "go together"),
            (GatherArguments { slot_map: 0x5002, cache: 0x6001, ..good }, "the slot map"),
        ] {
            let error = wrong.check(IdWidth::I64).unwrap_err();
            assert!(error.to_string().contains(told), "{error} should tell {told}");
        }
    }
}

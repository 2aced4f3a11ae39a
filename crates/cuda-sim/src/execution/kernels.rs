//! Kernels: their parameters, the memory they use, and their execution.

use std::ffi::c_void;

use uva_kernels::block::{BatchBlocks, BlockArguments};
use uva_kernels::cache::InsertArguments;
use uva_kernels::copies::CopyArguments;
use uva_kernels::gather::{GatherArguments, GatherReport};
use uva_kernels::order::OrderArguments;
use uva_kernels::sample::SampleArguments;
use uva_kernels::sums::{ContinuedArguments, SumArguments};
use uva_kernels::tables::TablesArguments;
use uva_kernels::verdict::VerdictArguments;
use uva_kernels::{Access, EntryPoint, KernelArray, Takes};

use crate::device_memory::ranges::{Hold, hold, hold_around};
use crate::machine::codes::{Code, Outcome};

/// The entry point of that name.
pub fn find(name: &str) -> Option<EntryPoint> {
    uva_kernels::entry_points().into_iter().find(|entry| entry.name == name)
}

/// A launch's parameters, copied at the call as the driver copies them.
pub struct Parameters(Vec<Vec<u64>>);

impl Parameters {
    /// # Safety
    /// `pointers` points to as many pointers as `sizes` has entries, each to that many readable bytes.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` for a null among them.
    pub unsafe fn copy(pointers: *mut *mut c_void, sizes: &[usize]) -> Result<Self, Code> {
        if pointers.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let mut copies = Vec::with_capacity(sizes.len());
        for (index, &size) in sizes.iter().enumerate() {
            // SAFETY: one pointer an entry, by the caller's promise.
            let from = unsafe { pointers.add(index).read() };
            if from.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            // Words, so that the copy is aligned for whatever the kernel reads.
            let mut words = vec![0_u64; size.div_ceil(8)];
            // SAFETY: `size` bytes are readable by the caller's promise, and the words hold as many.
            unsafe { words.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from.cast::<u8>(), size) };
            copies.push(words);
        }
        Ok(Self(copies))
    }

    fn word(&self, index: usize) -> u64 {
        self.0[index][0]
    }

    /// The first parameter, a struct of as many bytes as were copied.
    fn first<T: bytemuck::AnyBitPattern>(&self) -> T {
        bytemuck::pod_read_unaligned(&bytemuck::cast_slice(&self.0[0])[..size_of::<T>()])
    }
}

/// The word that a launch waits for, if any.
pub fn waits_for(takes: Takes, parameters: &Parameters) -> Option<u64> {
    (takes == Takes::Flag).then(|| parameters.word(0))
}

/// Marks the memory of a launch as in use.
///
/// # Errors
/// The fault that the device would have.
fn hold_all(takes: Takes, parameters: &Parameters) -> Result<Vec<Hold>, Code> {
    match takes {
        Takes::Flag => hold_arrays(&[array(parameters.word(0), 4, Access::Read)]),
        Takes::Report => hold_arrays(&[report(parameters.word(0))]),
        Takes::Finish => {
            // 0 if there are no ids; the kernel does not get their number.
            let ids = KernelArray { bounded: false, ..array(parameters.word(1), 1, Access::Read) };
            hold_arrays(&[report(parameters.word(0)), ids])
        }
        Takes::Gather(width, cached) => {
            let arguments: GatherArguments = parameters.first();
            if cached && arguments.slot_map == 0 {
                return Err(Code::ILLEGAL_ADDRESS);
            }
            // The form without a cache reads neither of these.
            let arguments =
                if cached { arguments } else { GatherArguments { slot_map: 0, cache: 0, ..arguments } };
            hold_arrays(&arguments.arrays(width))
        }
        Takes::Tables | Takes::FinishTables => {
            let arrays: Vec<_> = parameters.first::<TablesArguments>().arrays().collect();
            hold_arrays(&arrays)
        }
        Takes::Insert => hold_arrays(&parameters.first::<InsertArguments>().arrays()),
        Takes::Copies => {
            let arrays: Vec<_> = parameters.first::<CopyArguments>().arrays().collect();
            hold_arrays(&arrays)
        }
        Takes::Order => hold_arrays(&parameters.first::<OrderArguments>().arrays()),
        Takes::Sums(values) => hold_arrays(&parameters.first::<SumArguments>().arrays(values)),
        Takes::Continued(values) => hold_arrays(&parameters.first::<ContinuedArguments>().arrays(values)),
        Takes::Blocks => {
            let batch: BatchBlocks = parameters.first();
            let arrays: Vec<_> = batch.blocks().iter().flat_map(BlockArguments::arrays).collect();
            hold_arrays(&arrays)
        }
        Takes::Verdict => hold_arrays(&parameters.first::<VerdictArguments>().arrays()),
        Takes::Sample(width) => hold_arrays(&parameters.first::<SampleArguments>().arrays(width)),
    }
}

fn array(address: u64, bytes: u64, access: uva_kernels::Access) -> KernelArray {
    KernelArray {
        name: "a parameter",
        address,
        count: 1,
        entry_bytes: bytes,
        alignment: bytes.min(8),
        access,
        bounded: true,
    }
}

fn report(address: u64) -> KernelArray {
    array(address, GatherReport::BYTES as u64, Access::Write)
}

fn hold_arrays(arrays: &[KernelArray]) -> Result<Vec<Hold>, Code> {
    let held = |array: &KernelArray| {
        if !array.address.is_multiple_of(array.alignment) {
            return Some(Err(Code::MISALIGNED_ADDRESS));
        }
        let hold = match (array.bounded, array.address) {
            (false, 0) => return None,
            (false, address) => hold_around(address),
            (true, address) => array
                .count
                .checked_mul(array.entry_bytes)
                .and_then(|bytes| hold(address, bytes, array.access, false)),
        };
        Some(hold.ok_or(Code::ILLEGAL_ADDRESS))
    };
    arrays.iter().filter_map(held).collect()
}

/// Runs an entry point now, on this thread.
///
/// # Errors
/// The fault that the device would have; `CUDA_ERROR_LAUNCH_FAILED` for errors of the shim.
pub fn run(
    entry: EntryPoint,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    parameters: &mut Parameters,
) -> Outcome {
    let name = entry.name;
    let _held = hold_all(entry.takes, parameters).inspect_err(|_| {
        eprintln!("cuda-sim: {name}: an argument is not memory that the device may access in this way");
    })?;
    let mut pointers: Vec<*mut c_void> =
        parameters.0.iter_mut().map(|words| words.as_mut_ptr().cast::<c_void>()).collect();
    // SAFETY: the parameters have the entry point's sizes, and what they point to was checked above and is held, as far
    // as this library can know.
    let ran = unsafe { uva_kernel_sim::launch(name, grid, block, shared_bytes, pointers.as_mut_ptr()) };
    ran.map_err(|error| {
        eprintln!("cuda-sim: {name}: {error}");
        Code::LAUNCH_FAILED
    })
}

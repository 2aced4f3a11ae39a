//! The kernels: what their parameters are, which memory they touch, and running them.

use std::ffi::c_void;

use crate::codes::{Code, Outcome};
use crate::ranges::{Access, Hold, hold, hold_around};
use crate::types::{
    CACHE_INSERTION_BYTES, GATHER_REPORT_BYTES, GatherArguments, InsertArguments, SAMPLE_REPORT_BYTES,
    SampleArguments,
};

/// Sizes of an entry point's parameters in bytes; none for one that this library knows nothing about.
pub fn parameters(name: &str) -> Option<&'static [usize]> {
    const ARGUMENTS: usize = size_of::<GatherArguments>();
    match name {
        "gather_begin" | "spin_until" => Some(&[8]),
        "gather_finish_i32" | "gather_finish_i64" => Some(&[8, 8, 8]),
        "cache_insert" => Some(&[size_of::<InsertArguments>()]),
        name if name.starts_with("gather_") => Some(&[ARGUMENTS]),
        name if name.starts_with("sample_") => Some(&[size_of::<SampleArguments>()]),
        _ => None,
    }
}

/// Whether the kernels that were compiled for the host have this entry point.
pub fn exists(name: &str) -> bool {
    uva_kernel_sim::entry_points().contains(&name)
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
}

/// The word that a launch waits for, where it waits for one.
pub fn waits_for(name: &str, parameters: &Parameters) -> Option<u64> {
    (name == "spin_until").then(|| parameters.word(0))
}

/// Puts in use what a launch will touch.
///
/// # Errors
/// The fault that the device would have.
fn hold_all(name: &str, parameters: &Parameters) -> Result<Vec<Hold>, Code> {
    let illegal = |held: Option<Hold>| held.ok_or(Code::ILLEGAL_ADDRESS);
    let report = |address: u64| {
        if !address.is_multiple_of(8) {
            return Err(Code::MISALIGNED_ADDRESS);
        }
        illegal(hold(address, GATHER_REPORT_BYTES, Access::Write, false))
    };
    match name {
        "spin_until" => Ok(vec![illegal(hold(parameters.word(0), 4, Access::Read, false))?]),
        "gather_begin" => Ok(vec![report(parameters.word(0))?]),
        "gather_finish_i32" | "gather_finish_i64" => {
            let mut held = vec![report(parameters.word(0))?];
            // Null where there are no ids; how many there are it is not told.
            if parameters.word(1) != 0 {
                held.push(illegal(hold_around(parameters.word(1)))?);
            }
            Ok(held)
        }
        "cache_insert" => {
            // SAFETY: the words are a copy of an InsertArguments, which is plain numbers, and are as aligned.
            let arguments = unsafe { parameters.0[0].as_ptr().cast::<InsertArguments>().read() };
            hold_insert(&arguments)
        }
        name if name.starts_with("gather_") => {
            // SAFETY: the words are a copy of a GatherArguments, which is plain numbers, and are as aligned.
            let arguments = unsafe { parameters.0[0].as_ptr().cast::<GatherArguments>().read() };
            hold_gather(name, &arguments, report)
        }
        name if name.starts_with("sample_") => {
            // SAFETY: the words are a copy of a SampleArguments, which is plain numbers, and are as aligned.
            let arguments = unsafe { parameters.0[0].as_ptr().cast::<SampleArguments>().read() };
            hold_sample(name, &arguments)
        }
        _ => Ok(Vec::new()),
    }
}

fn hold_sample(name: &str, arguments: &SampleArguments) -> Result<Vec<Hold>, Code> {
    let id_bytes: u64 = if name.ends_with("_i32") { 4 } else { 8 };
    let nodes = arguments.nodes;
    let named = |address: u64| if address == 0 { 0 } else { nodes };
    let wide = |flag: u64| if flag == 0 { 4 } else { 8 };
    let cached = if arguments.cached_lists == 0 { 0 } else { arguments.cached_lists + 1 };
    let degrees = if arguments.node_degrees == 0 { 0 } else { arguments.nodes_room };
    let home = if arguments.home_indptr == 0 { 0 } else { nodes + 1 };
    let homes = if arguments.homes == 0 { 0 } else { arguments.destinations_room };
    let (weights, weighed) =
        if arguments.existing == 0 { (0, 0) } else { (arguments.edges, arguments.destinations_room) };
    let edge_ids = if arguments.edge_ids == 0 { 0 } else { arguments.edges_room };
    // Only the kernels that read ids know how wide they are.
    let (edges, cached_edges) = match name.ends_with("_i32") || name.ends_with("_i64") {
        true => (arguments.edges, arguments.cached_edges),
        false => (0, 0),
    };
    let mut held = Vec::new();
    // How much is kept of the layer before the report says.
    for address in [arguments.kept_indptr, arguments.kept_indices, arguments.kept_edge_ids] {
        if address != 0 {
            held.push(hold_around(address).ok_or(Code::ILLEGAL_ADDRESS)?);
        }
    }
    for (address, count, each, access) in [
        (arguments.indptr, nodes + 1, 8, Access::Read),
        (arguments.indices, edges, id_bytes, Access::Read),
        (arguments.cached_indptr, cached, 8, Access::Read),
        (arguments.cached_indices, cached_edges, id_bytes, Access::Read),
        (
            arguments.original_ids,
            named(arguments.original_ids),
            wide(arguments.original_ids_wide),
            Access::Read,
        ),
        (arguments.dataset_ids, named(arguments.dataset_ids), wide(arguments.dataset_ids_wide), Access::Read),
        (arguments.home_indptr, home, 8, Access::Read),
        (arguments.weights, weights, 4, Access::Read),
        (arguments.batch_nodes, arguments.nodes_room, 8, Access::Write),
        (arguments.node_degrees, degrees, 4, Access::Write),
        (arguments.block_indptr, arguments.destinations_room + 1, 4, Access::Write),
        (arguments.block_indices, arguments.edges_room, 4, Access::Write),
        (arguments.edge_ids, edge_ids, 8, Access::Write),
        (arguments.local_ids, nodes, 8, Access::Write),
        (arguments.slots, arguments.edges_room, 8, Access::Write),
        (arguments.begins, arguments.destinations_room, 8, Access::Write),
        (arguments.degrees, arguments.destinations_room, 4, Access::Write),
        (arguments.homes, homes, 8, Access::Write),
        (arguments.existing, weighed, 4, Access::Write),
        (arguments.heaviest, weighed, 4, Access::Write),
        (arguments.totals, 1, 8, Access::Write),
        (arguments.report, 1, SAMPLE_REPORT_BYTES, Access::Write),
    ] {
        if !address.is_multiple_of(each.min(8)) {
            return Err(Code::MISALIGNED_ADDRESS);
        }
        let bytes = count.checked_mul(each).ok_or(Code::ILLEGAL_ADDRESS)?;
        held.push(hold(address, bytes, access, false).ok_or(Code::ILLEGAL_ADDRESS)?);
    }
    Ok(held)
}

fn hold_gather(
    name: &str,
    arguments: &GatherArguments,
    report: impl Fn(u64) -> Result<Hold, Code>,
) -> Result<Vec<Hold>, Code> {
    let id_bytes: u64 = if name.contains("_i32") { 4 } else { 8 };
    let cached = name.ends_with("_cached");
    let misaligned =
        !arguments.ids.is_multiple_of(id_bytes) || (cached && !arguments.slot_map.is_multiple_of(4));
    if misaligned {
        return Err(Code::MISALIGNED_ADDRESS);
    }
    let part = |start: u64, count: u64, each: u64, access| {
        let bytes = count.checked_mul(each).ok_or(Code::ILLEGAL_ADDRESS)?;
        hold(start, bytes, access, false).ok_or(Code::ILLEGAL_ADDRESS)
    };
    let mut held = vec![
        part(arguments.table, arguments.rows, arguments.row_bytes, Access::Read)?,
        part(arguments.ids, arguments.count, id_bytes, Access::Read)?,
        part(arguments.out, arguments.count, arguments.row_bytes, Access::Write)?,
        report(arguments.report)?,
    ];
    if cached {
        held.push(part(arguments.slot_map, arguments.rows, 4, Access::Read)?);
        // Null for a cache of no rows.
        if arguments.cache != 0 {
            held.push(hold_around(arguments.cache).ok_or(Code::ILLEGAL_ADDRESS)?);
        }
    }
    Ok(held)
}

fn hold_insert(arguments: &InsertArguments) -> Result<Vec<Hold>, Code> {
    if !arguments.insertions.is_multiple_of(8) || !arguments.slot_map.is_multiple_of(4) {
        return Err(Code::MISALIGNED_ADDRESS);
    }
    let bytes = arguments.count.checked_mul(CACHE_INSERTION_BYTES).ok_or(Code::ILLEGAL_ADDRESS)?;
    let insertions = hold(arguments.insertions, bytes, Access::Read, false).ok_or(Code::ILLEGAL_ADDRESS)?;
    let mut held = vec![insertions];
    // How large these are it is not told.
    for address in [arguments.gathered, arguments.slot_map, arguments.cache] {
        held.push(hold_around(address).ok_or(Code::ILLEGAL_ADDRESS)?);
    }
    Ok(held)
}

/// Runs an entry point now, on this thread.
///
/// # Errors
/// The fault that the device would have; `CUDA_ERROR_LAUNCH_FAILED` for what the shim refused.
pub fn run(
    name: &str,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    parameters: &mut Parameters,
) -> Outcome {
    let _held = hold_all(name, parameters).inspect_err(|_| {
        eprintln!("cuda-sim: {name}: an argument is no memory that the device may use so");
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

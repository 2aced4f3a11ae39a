//! Runs a gather like a stream: resets the report, gathers rows, completes the report.

use std::ffi::c_void;

use uva_kernels::gather::{GATHER_BEGIN, GatherArguments, IdWidth, Kernel, finish_entry};
use uva_kernels::tables::{FINISH_TABLES, GatheredTable, TablesArguments};

use crate::{AccessLog, LaunchError, launch, launch_logged};

/// The launch configuration of a gather.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatherShape {
    /// The number of blocks.
    pub blocks: u32,
    /// Threads of a block: a multiple of 32, 512 at most.
    pub threads: u32,
}

/// Runs `gather_begin`, the gather and `gather_finish`, as a stream would; the cached form if `slot_map` is not 0.
/// Reads of the table are logged to `log`, if given.
///
/// # Errors
/// As [`launch`].
///
/// # Safety
/// `arguments` describes memory of this process, by addresses whose provenance is exposed: `count` ids; a table of
/// `rows` rows with the 16-byte pieces around its ends readable; `count` output rows that no other code uses; a report.
/// In the cached form also a slot for each row of the table, and as many cached rows as the slots refer to.
pub unsafe fn gather(
    kernel: Kernel,
    ids: IdWidth,
    mut arguments: GatherArguments,
    shape: GatherShape,
    log: Option<&mut AccessLog>,
) -> Result<(), LaunchError> {
    const ONE: [u32; 3] = [1; 3];
    let name = kernel.entry(ids, arguments.slot_map != 0);
    let (grid, block) = ([shape.blocks, 1, 1], [shape.threads, 1, 1]);
    let mut report = arguments.report;
    let mut id_address = arguments.ids;
    // Any number except 0, which means no stamp.
    let mut stamp = 1_u64;
    let report = std::ptr::from_mut(&mut report).cast::<c_void>();
    let whole = [std::ptr::from_mut(&mut arguments).cast::<c_void>()];
    let last = [report, std::ptr::from_mut(&mut id_address).cast(), std::ptr::from_mut(&mut stamp).cast()];
    // SAFETY: each entry point gets pointers to parameters of the types it declares, which live through the calls; what
    // they point to is what our caller promised.
    unsafe {
        launch(GATHER_BEGIN, ONE, ONE, 0, [report].as_ptr())?;
        match log {
            Some(log) => launch_logged(name, grid, block, 0, whole.as_ptr(), log)?,
            None => launch(name, grid, block, 0, whole.as_ptr())?,
        }
        launch(finish_entry(ids), ONE, ONE, 0, last.as_ptr())
    }
}

/// Runs `gather_begin`, the gather of rows from these tables, and `gather_finish_tables`, as a stream would. The report
/// is that of the gather. Reads of memory are logged to `log`.
///
/// # Errors
/// As [`launch`].
///
/// # Panics
/// If the tables need more than one launch.
///
/// # Safety
/// As [`gather`], for each of the tables and the report.
pub unsafe fn gather_tables(
    kernel: Kernel,
    tables: &[GatheredTable],
    mut report: u64,
    shape: GatherShape,
    log: &mut AccessLog,
) -> Result<(), LaunchError> {
    const ONE: [u32; 3] = [1; 3];
    let (grid, block) = ([shape.blocks, 1, 1], [shape.threads, 1, 1]);
    let mut arguments = TablesArguments::new(tables, 0, report, 0);
    let mut stamp = 1_u64;
    let report = std::ptr::from_mut(&mut report).cast::<c_void>();
    let whole = std::ptr::from_mut(&mut arguments).cast::<c_void>();
    let last = [whole, std::ptr::from_mut(&mut stamp).cast()];
    // SAFETY: as in `gather`.
    unsafe {
        launch(GATHER_BEGIN, ONE, ONE, 0, [report].as_ptr())?;
        launch_logged(kernel.tables_entry(), grid, block, 0, [whole].as_ptr(), log)?;
        launch(FINISH_TABLES, ONE, ONE, 0, last.as_ptr())
    }
}

//! The gather kernels by name, with their arguments: mirrors of kernels/gather.cuh.

use std::ffi::c_void;
use std::fmt;
use std::str::FromStr;

use crate::{AccessLog, LaunchError, launch, launch_logged};

/// One of the three gather kernels; docs/kernels.md tells how they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Lanes start at the row's first byte.
    Naive,
    /// Lanes rotated so that a warp's reads start on lines.
    Shift,
    /// 16-byte reads laid out from line starts.
    Wide,
}

impl Kernel {
    /// All of them.
    pub const ALL: [Kernel; 3] = [Kernel::Naive, Kernel::Shift, Kernel::Wide];

    /// As in the entry points' names and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Naive => "naive",
            Kernel::Shift => "shift",
            Kernel::Wide => "wide",
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Kernel {
    type Err = String;

    fn from_str(text: &str) -> Result<Kernel, String> {
        let known = Kernel::ALL.into_iter().find(|kernel| kernel.name() == text);
        known.ok_or_else(|| format!("no gather kernel is called `{text}`: naive, shift or wide"))
    }
}

/// The type of the ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdWidth {
    /// int32
    I32,
    /// int64
    I64,
}

impl IdWidth {
    /// As in the entry points' names and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            IdWidth::I32 => "i32",
            IdWidth::I64 => "i64",
        }
    }
}

impl FromStr for IdWidth {
    type Err = String;

    fn from_str(text: &str) -> Result<IdWidth, String> {
        match text {
            "i32" => Ok(IdWidth::I32),
            "i64" => Ok(IdWidth::I64),
            _ => Err(format!("ids are i32 or i64, not `{text}`")),
        }
    }
}

/// `GatherReport` of kernels/gather.cuh, whose comments tell what the fields are.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "told once, beside the kernels")]
pub struct GatherReport {
    pub stamp: u64,
    pub began_ns: u64,
    pub ended_ns: u64,
    pub bad_position: u64,
    pub bad_id: i64,
    pub next: u64,
    pub hits: u64,
    pub next_hit: u64,
}

/// `GatherArguments` of kernels/gather.cuh, whose comments tell what the fields are. Addresses are this process's.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "told once, beside the kernels")]
pub struct GatherArguments {
    pub table: *const u8,
    pub rows: u64,
    pub row_bytes: u64,
    pub ids: *const c_void,
    pub count: u64,
    pub out: *mut u8,
    pub report: *mut GatherReport,
    pub slot_map: *const i32,
    pub cache: *const u8,
}

const _: () = assert!(size_of::<GatherReport>() == 64 && size_of::<GatherArguments>() == 72);

/// How a gather is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Blocks.
    pub blocks: u32,
    /// Threads of a block: a multiple of 32, 512 at most.
    pub threads: u32,
}

/// Runs `gather_begin`, the gather and `gather_finish`, as a stream would; the cached form if `slot_map` is not null.
/// What the gather reads of the table goes to `log`, if there is one.
///
/// # Errors
/// As [`launch`].
///
/// # Safety
/// `arguments` describes memory of this process: `count` ids, a table of `rows` rows with the 16-byte pieces around its
/// ends readable, `count` output rows that nobody else uses, a report; and in the cached form a slot for each row of
/// the table and as many cached rows as the slots say.
pub unsafe fn gather(
    kernel: Kernel,
    ids: IdWidth,
    mut arguments: GatherArguments,
    shape: Shape,
    log: Option<&mut AccessLog>,
) -> Result<(), LaunchError> {
    const ONE: [u32; 3] = [1; 3];
    let cached = if arguments.slot_map.is_null() { "" } else { "_cached" };
    let name = format!("gather_{kernel}_{}{cached}", ids.name());
    let finish = format!("gather_finish_{}", ids.name());
    let (grid, block) = ([shape.blocks, 1, 1], [shape.threads, 1, 1]);
    let mut report = arguments.report;
    let mut id_address = arguments.ids;
    // Any number but 0, which says that there is none.
    let mut stamp = 1_u64;
    let report = std::ptr::from_mut(&mut report).cast::<c_void>();
    let whole = [std::ptr::from_mut(&mut arguments).cast::<c_void>()];
    let last = [report, std::ptr::from_mut(&mut id_address).cast(), std::ptr::from_mut(&mut stamp).cast()];
    // SAFETY: each entry point gets pointers to parameters of the types it declares, which live through the calls; what
    // they point to is what our caller promised.
    unsafe {
        launch("gather_begin", ONE, ONE, 0, [report].as_ptr())?;
        match log {
            Some(log) => launch_logged(&name, grid, block, 0, whole.as_ptr(), log)?,
            None => launch(&name, grid, block, 0, whole.as_ptr())?,
        }
        launch(&finish, ONE, ONE, 0, last.as_ptr())
    }
}

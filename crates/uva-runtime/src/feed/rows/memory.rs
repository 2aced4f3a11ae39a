//! The memory of the trees of rows.

use uva_cuda::memory::PinPages;
use uva_graph::{Dataset, Split};
use uva_rows::cache::map_bytes;
use uva_rows::{PartialSumBytes, kept_row_bytes};

use super::tree::RowTree;
use crate::machine::memory::{MemoryHolder, MemoryKind, MemoryLine};
use crate::plan::RunPlan;
use crate::sampler::cache::Caches;

impl RowTree {
    /// The memory for rows in the run of this plan, which has this tree: files, tables, and buffers before the slots.
    /// The rows of a cache are not included.
    #[must_use]
    pub fn memory(&self, dataset: &Dataset, plan: &RunPlan) -> Vec<MemoryLine> {
        let line = MemoryLine::new;
        let table = dataset.feature_rows().map_or(0, |table| table.bytes.len() as u64);
        let of_slots = |bytes: usize| (bytes as u64).saturating_mul(plan.options.feature_slots as u64);
        let with = |of: &Self, lines: Vec<MemoryLine>| [of.memory(dataset, plan), lines].concat();
        let lines = match self {
            Self::Mapped => vec![MemoryLine::once("file of the features", MemoryKind::Mapped, table)],
            Self::Copied => {
                let file = MemoryLine::once("file of the features", MemoryKind::Mapped, table);
                vec![file, line("copy of the features", MemoryKind::Host, table)]
            }
            Self::File(_) | Self::Remote | Self::Direct => Vec::new(),
            Self::Pinned => vec![pinned(plan, "feature table", table)],
            Self::Device => vec![line("feature table", MemoryKind::Device, table)],
            Self::Tables(_, of) if plan.layout.reads_rows_by_id() => {
                let rows = dataset.metagraph().types().filter_map(|of| dataset.rows(of));
                let bytes = rows.map(|table| table.bytes.len() as u64).sum();
                match **of {
                    Self::Pinned => vec![pinned(plan, "feature tables", bytes)],
                    Self::Device => vec![line("feature tables", MemoryKind::Device, bytes)],
                    _ => vec![MemoryLine::once("files of the features", MemoryKind::Mapped, bytes)],
                }
            }
            Self::Tables(_, of) => match **of {
                Self::Mapped => {
                    vec![MemoryLine::once(
                        "files of the hops",
                        MemoryKind::Mapped,
                        training_bytes(dataset, plan),
                    )]
                }
                Self::Device => {
                    vec![line("training rows", MemoryKind::Device, training_bytes(dataset, plan))]
                }
                _ => Vec::new(),
            },
            // Rows of the other splits are few, and used for a short time.
            Self::BySplit { train, .. } => {
                let staged = line("staging of rows", MemoryKind::Pinned, of_slots(upload_room(plan)));
                with(train, vec![staged])
            }
            Self::Cached(_, of) | Self::Widened(of) | Self::Summed(of) | Self::Staged(of) => {
                of.memory(dataset, plan)
            }
            Self::LookAhead { rows, of, .. } => {
                let bytes = *rows as u64 * kept_row_bytes(plan.layout.table_row_bytes());
                let bytes = if *rows > 0 { bytes + map_bytes(plan.table_rows) } else { 0 };
                with(of, vec![line("rows read ahead, at most", MemoryKind::Host, bytes)])
            }
            Self::Upload(of) => {
                let what = if of.sums().is_some() { "staging of sums" } else { "staging of rows" };
                with(of, vec![line(what, MemoryKind::Pinned, of_slots(upload_room(plan)))])
            }
            // Pages that both read belong to the pinned table.
            Self::Split(first, _) => first.memory(dataset, plan),
            Self::Spliced(of) => {
                let room = spliced_room(plan);
                let rows = line("rows without the cached ones", MemoryKind::Device, room as u64);
                with(of, vec![rows, line("staging of rows", MemoryKind::Pinned, of_slots(room))])
            }
            Self::Begun(of) => {
                let room = of_slots(begun_room(plan));
                let sums = line("begun sums", MemoryKind::Device, room);
                with(of, vec![sums, line("staging of sums", MemoryKind::Pinned, room)])
            }
            Self::SummedOnDevice(of) => {
                let rows = plan.slot_room().nodes.saturating_mul(plan.layout.table_row_bytes());
                with(of, vec![line("rows that are summed", MemoryKind::Device, rows as u64)])
            }
        };
        lines.into_iter().filter(|line| line.bytes > 0).collect()
    }
}

/// A page-locked table.
fn pinned(plan: &RunPlan, what: &'static str, bytes: u64) -> MemoryLine {
    let line = MemoryLine::new(what, MemoryKind::Pinned, bytes);
    // Pages in place are those of the file. Otherwise each process has a copy.
    let in_place = plan.backend.cuda().is_some_and(|cuda| cuda.table_pages == PinPages::InPlace);
    if in_place { MemoryLine { held: MemoryHolder::Once, ..line } } else { line }
}

/// Bytes of GPU memory for a cache of rows in addition to the rows and the map: for the rows or partial sums of each
/// batch from the CPU.
#[must_use]
pub fn bytes_beside_gpu_cache(dataset: &Dataset, plan: &RunPlan) -> u64 {
    let with_cache = Caches { rows: 1, ..Caches::default() };
    let of = |caches: Caches| {
        let plan = plan.clone().with_caches(caches);
        let lines = RowTree::of(&plan).memory(dataset, &plan);
        let on_gpu = lines.iter().filter(|line| line.kind == MemoryKind::Device);
        on_gpu.fold(0, |sum: u64, line| sum.saturating_add(line.bytes))
    };
    of(with_cache).saturating_sub(of(Caches::default()))
}

/// Bytes of the training rows in all tables that batches have.
#[must_use]
pub fn training_bytes(dataset: &Dataset, plan: &RunPlan) -> u64 {
    dataset.split(Split::Train).len() as u64 * plan.layout.table_row_bytes() as u64
}

/// Maximum bytes of a batch's rows or sums that the CPU makes in page-locked memory for a slot.
pub(crate) fn upload_room(plan: &RunPlan) -> usize {
    plan.layout.features_bytes().min(plan.slot_room().bytes)
}

/// Maximum bytes of a batch's rows, and of their places, that are copied next to those of a cache on the GPU: once on
/// the GPU, and for each slot in page-locked memory.
fn spliced_room(plan: &RunPlan) -> usize {
    plan.slot_room().nodes.saturating_mul(plan.layout.table_row_bytes() + size_of::<i64>())
}

/// The bytes of a sum that the CPU begins, and of its own row.
pub(crate) fn begun_bytes(plan: &RunPlan) -> PartialSumBytes {
    let own = if plan.layout.aggregation().keeps_own_rows() { plan.layout.row_bytes() } else { 0 };
    PartialSumBytes { sum: plan.layout.dim() * size_of::<f32>(), own }
}

/// Maximum bytes of the CPU's partial sums of a batch, in page-locked memory and on the GPU, for each slot.
pub(crate) fn begun_room(plan: &RunPlan) -> usize {
    let bytes = begun_bytes(plan);
    bytes.room(upload_room(plan).div_ceil((bytes.sum + bytes.own).max(1)))
}

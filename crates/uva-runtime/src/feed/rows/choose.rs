//! The choice of a run's tree of rows, and what a cache adds to it.

use uva_batch::{Aggregation, BatchLayout};
use uva_graph::Dataset;
use uva_rows::kept_row_bytes;

use super::tree::{RowCacheKind, RowTree};
use crate::LoaderOptions;
use crate::backend::{CudaBackend, GatherChoice};
use crate::machine::memory::MemoryKind;
use crate::options::Prepare;
use crate::options::reader::{DiskReader, Features};
use crate::plan::RunPlan;
use crate::sampler::cache::Caches;

/// Maximum memory for rows that are read ahead, unless `host_cache` gives a size. It fits the rows of some batches of
/// usual models, and is little compared to a table that does not fit into memory.
const KEPT_BYTES: u64 = 256 << 20;

impl RowTree {
    /// The tree of the run of this plan.
    #[must_use]
    pub fn of(plan: &RunPlan) -> Self {
        match plan.backend.device_slots() {
            None => on_host(plan),
            Some(cuda) => on_device(plan, cuda),
        }
    }

    /// The tree of a table with these options, with one row for each node in slots of this layout, with or without a
    /// cache of chosen rows. It is for measurements without a run.
    pub(crate) fn of_table(options: &LoaderOptions, layout: &BatchLayout, is_cached: bool) -> Self {
        let cache = is_cached.then_some(RowCacheKind::Chosen);
        cached(cache, stored(options)).widened_for(layout)
    }

    /// Converts the rows to the type in slots of this layout.
    pub(crate) fn widened_for(self, layout: &BatchLayout) -> Self {
        match layout.widened_from() {
            None => self,
            Some(_) => Self::Widened(Box::new(self)),
        }
    }

    /// Puts the cache of rows of these caches, if there is one, before this tree.
    pub(crate) fn behind(self, caches: &Caches) -> Self {
        cached(cache(caches), self)
    }

    /// The tree for a batch that the CPU makes without a cache because it does not fit its slot on a GPU.
    #[must_use]
    pub fn aside(plan: &RunPlan) -> Self {
        shaped(&plan.layout, table(plan).in_place())
    }
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

/// The table, or the tables into which rows are divided, as they are stored.
fn table(plan: &RunPlan) -> RowTree {
    let stored = if plan.divided { RowTree::Remote } else { stored(&plan.options) };
    match plan.layout.row_tables() {
        None => stored,
        Some(tables) => RowTree::Tables(tables, Box::new(stored)),
    }
}

/// A table as it is stored. Without a choice it is read from memory.
fn stored(options: &LoaderOptions) -> RowTree {
    match options.features {
        Features::Disk => RowTree::File(options.reader),
        Features::Auto | Features::Memory if options.copied_files.rows => RowTree::Copied,
        Features::Auto | Features::Memory => RowTree::Mapped,
    }
}

/// The rows as slots in host memory have them.
fn on_host(plan: &RunPlan) -> RowTree {
    match table(plan) {
        // Their rows are read in runs, which are not cached.
        tables @ RowTree::Tables(..) => tables,
        table => {
            let cache = cache(&plan.caches).filter(|_| !plan.divided);
            shaped(&plan.layout, kept(plan, cached(cache, table)))
        }
    }
}

/// The cache of rows.
fn cache(caches: &Caches) -> Option<RowCacheKind> {
    match caches.dynamic {
        _ if caches.rows == 0 => None,
        None => Some(RowCacheKind::Chosen),
        Some(policy) => Some(RowCacheKind::Evicting { policy, rows: caches.rows }),
    }
}

fn cached(cache: Option<RowCacheKind>, of: RowTree) -> RowTree {
    match cache {
        None => of,
        Some(kind) => RowTree::Cached(kind, Box::new(of)),
    }
}

/// Adds rows kept in memory to a table that is read from a file.
fn kept(plan: &RunPlan, of: RowTree) -> RowTree {
    let batches = plan.look_ahead();
    let is_kept = batches > 0 || plan.caches.are_before_disk();
    if !of.reads_disk() || !is_kept || plan.options.prepare == Prepare::Whole {
        return of;
    }
    let row_bytes = plan.layout.table_row_bytes();
    let most = plan.layout.bounds().nodes().saturating_mul(batches + 1);
    let by_default = || most.min((KEPT_BYTES / kept_row_bytes(row_bytes)) as usize);
    let rows = plan.caches.kept_rows.unwrap_or_else(by_default).min(plan.table_rows);
    RowTree::LookAhead { rows, reads_ahead: batches > 0, of: Box::new(of) }
}

/// Rows in the form of slots: unchanged, widened, or summed.
fn shaped(layout: &BatchLayout, of: RowTree) -> RowTree {
    match layout.aggregation() {
        Aggregation::None => of.widened_for(layout),
        _ => RowTree::Summed(Box::new(of)),
    }
}

/// The rows in the form of slots on this GPU.
fn on_device(plan: &RunPlan, cuda: &CudaBackend) -> RowTree {
    let by_cufile = plan.options.features == Features::Disk && plan.options.reader == DiskReader::Cufile;
    let table = table(plan);
    if let RowTree::Tables(count, _) = table {
        let tables = |of| RowTree::Tables(count, Box::new(of));
        let brought = RowTree::Upload(Box::new(table));
        return match cuda.gather {
            GatherChoice::ZeroCopy | GatherChoice::Auto if plan.layout.reads_rows_by_id() => {
                tables(RowTree::Pinned)
            }
            GatherChoice::Device if plan.layout.reads_rows_by_id() => tables(RowTree::Device),
            GatherChoice::Device => {
                RowTree::BySplit { train: Box::new(tables(RowTree::Device)), others: Box::new(brought) }
            }
            _ if by_cufile => tables(RowTree::Direct),
            _ => brought,
        };
    }
    let reads_disk = table.reads_disk();
    let caches = &plan.caches;
    let sums = plan.layout.aggregation() != Aggregation::None;
    // A cache before a file is on this side of the link, any other cache is on the GPU.
    let before_disk = caches.are_before_disk();
    let cached_on_gpu = caches.holds_chosen_rows() && !before_disk && !plan.divided;
    let on_host = || {
        let cache = cache(caches).filter(|_| before_disk);
        Box::new(shaped(&plan.layout, kept(plan, cached(cache, table))))
    };
    let aggregation = plan.options.aggregation;
    let gathers_first = plan.options.gathers_before_sums;
    if sums && gathers_first {
        RowTree::SummedOnDevice(Box::new(gathered(plan, cuda)))
    } else if sums && cached_on_gpu && plan.backend.continues_sums(aggregation, gathers_first) {
        RowTree::Begun(on_host())
    } else if !sums && cached_on_gpu && plan.backend.copies_rows() {
        RowTree::Spliced(on_host())
    } else if sums || plan.divided || reads_disk {
        RowTree::Upload(on_host())
    } else {
        gathered(plan, cuda)
    }
}

/// Rows of a table in memory that are gathered by id into slots on this GPU.
fn gathered(plan: &RunPlan, cuda: &CudaBackend) -> RowTree {
    let staged = || RowTree::Staged(Box::new(stored(&plan.options)));
    match cuda.gather {
        // `Auto` is never granted, and would mean the same.
        GatherChoice::ZeroCopy | GatherChoice::Auto => cached(cache(&plan.caches), RowTree::Pinned),
        GatherChoice::Device => RowTree::Device,
        GatherChoice::Dma | GatherChoice::Cpu => staged(),
        GatherChoice::Split => {
            // Both read the pinned pages.
            let staged = RowTree::Staged(Box::new(RowTree::Mapped));
            RowTree::Split(Box::new(RowTree::Pinned), Box::new(staged))
        }
    }
}

//! The choice of a run's tree of rows, and what a cache adds to it.

use uva_batch::{Aggregation, BatchLayout};
use uva_graph::{Dataset, NodeType};

use super::kept::KeptShares;
use super::tree::{RowCacheKind, RowTree};
use crate::LoaderOptions;
use crate::backend::{CudaBackend, GatherChoice};
use crate::machine::memory::MemoryKind;
use crate::options::reader::{DiskReader, Features};
use crate::plan::RunPlan;
use crate::sampler::cache::Caches;

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
        if let Some(types) = types(plan) {
            return of_types(plan, types, &|_| stored(&plan.options));
        }
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

/// The table, or the tables of a hop set, as they are stored.
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

/// The node types with features, if batches have the rows of types.
fn types(plan: &RunPlan) -> Option<Vec<NodeType>> {
    let layout = &plan.layout;
    if layout.row_tables().is_none() || !layout.reads_rows_by_id() {
        return None;
    }
    Some(layout.metagraph().types().filter(|of| layout.rows_of(*of).is_some()).collect())
}

/// The rows of these types, of each from its own tree, in the form of slots in host memory.
fn of_types(plan: &RunPlan, types: Vec<NodeType>, tree: &dyn Fn(NodeType) -> RowTree) -> RowTree {
    let widened = |of: NodeType| match plan.layout.rows_of(of).and_then(|rows| rows.widened_from) {
        None => tree(of),
        Some(_) => RowTree::Widened(Box::new(tree(of))),
    };
    RowTree::Types(types.into_iter().map(|of| (of, widened(of))).collect())
}

/// The rows of these types as slots in host memory have them.
fn types_on_host(plan: &RunPlan, types: Vec<NodeType>) -> RowTree {
    let stored = stored(&plan.options);
    let Some(kept) = KeptShares::of(plan, &stored, &types) else {
        return of_types(plan, types, &|_| stored.clone());
    };
    of_types(plan, types, &|of| kept.before(of, stored.clone()))
}

/// The rows as slots in host memory have them.
fn on_host(plan: &RunPlan) -> RowTree {
    if let Some(types) = types(plan) {
        return types_on_host(plan, types);
    }
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
    match KeptShares::of(plan, &of, &[NodeType::ONLY]) {
        Some(kept) => kept.before(NodeType::ONLY, of),
        None => of,
    }
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
    if let Some(types) = types(plan) {
        let all = |tree: RowTree| RowTree::Types(types.iter().map(|of| (*of, tree.clone())).collect());
        return match cuda.gather {
            GatherChoice::ZeroCopy | GatherChoice::Auto => all(RowTree::Pinned),
            GatherChoice::Device => all(RowTree::Device),
            _ => RowTree::Upload(Box::new(types_on_host(plan, types))),
        };
    }
    let table = table(plan);
    if let RowTree::Tables(count, _) = table {
        let tables = |of| RowTree::Tables(count, Box::new(of));
        let brought = RowTree::Upload(Box::new(table));
        return match cuda.gather {
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

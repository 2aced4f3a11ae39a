//! The files that CPU threads of a run read in random order, and the bytes that they read.

use uva_graph::{Dataset, RandomFile, RandomValues, Split};

use crate::feed::rows::RowTree;
use crate::options::Prepare;
use crate::plan::RunPlan;

/// Epochs of a run whose consumer requests each pass, so that their number is not known.
const ASSUMED_EPOCHS: u64 = 10;

/// Rows of more bytes are read at the same speed from any page.
const LONG_BYTES: usize = 16 << 10;

/// The bytes of a neighbour list that are read together.
const LINE_BYTES: usize = 64;

/// A file that CPU threads of a run read in random order.
pub(super) struct RandomReads<'d> {
    pub random: RandomFile<'d>,
    /// Bytes that are read together.
    pub row_bytes: usize,
    /// Approximate bytes that the run reads: half of the largest batches.
    pub bytes: u64,
    /// Threads that read at the same time.
    pub threads: usize,
    /// Processes that would each have a copy of the file. 0 if copies of the file are not supported.
    pub copies: u64,
}

impl<'d> RandomReads<'d> {
    /// The files of the run of this plan, whose rows come from memory or from disk already.
    pub fn of(plan: &RunPlan, dataset: &'d Dataset) -> Vec<Self> {
        let files: Vec<_> = dataset.random_files();
        let row_files = files.iter().filter(|file| file.values == RandomValues::Rows).count() as u64;
        let (rows, epochs) = (Reads::of_rows(plan, dataset, row_files), batches(plan));
        let reads = |random: RandomFile<'d>| {
            let Reads { row_bytes, per_batch, threads, copies } = match random.values {
                RandomValues::Rows => rows?,
                RandomValues::Indptr | RandomValues::Indices => {
                    Reads::of_lists(plan, dataset, random.values)?
                }
            };
            Some(Self { random, row_bytes, bytes: epochs.saturating_mul(per_batch / 2), threads, copies })
        };
        files.into_iter().filter(|file| !file.file.bytes().is_empty()).filter_map(reads).collect()
    }
}

/// The reads of a batch from one file. See [`RandomReads`].
#[derive(Clone, Copy)]
struct Reads {
    row_bytes: usize,
    /// Bytes of the largest batch.
    per_batch: u64,
    threads: usize,
    copies: u64,
}

impl Reads {
    /// Those of rows that are in `files` files; `None` if CPU threads do not read rows in random order.
    fn of_rows(plan: &RunPlan, dataset: &Dataset, files: u64) -> Option<Self> {
        let (layout, options) = (&plan.layout, &plan.options);
        if layout.row_tables().is_some() && layout.reads_rows_by_id() {
            // Several tables, which are read where they are.
            return None;
        }
        let tree = RowTree::of(plan);
        let from_memory =
            tree.any(&|tree| matches!(tree, RowTree::Mapped | RowTree::Copied | RowTree::Remote));
        let row_bytes = dataset.table().row_bytes() * options.hops.as_ref().map_or(1, |hops| hops.chunk);
        if !from_memory || tree.any(&|tree| matches!(tree, RowTree::Split(..))) || row_bytes > LONG_BYTES {
            return None;
        }
        let rows = layout.bounds().nodes().min(plan.table_rows) * layout.tables();
        let threads = match options.prepare {
            Prepare::Roles => options.gather_threads,
            Prepare::Whole => options.samplers,
        };
        let copies = u64::from(layout.reads_rows_by_id() && dataset.feature_rows().is_some());
        let per_batch = (rows * dataset.table().row_bytes()) as u64 / files.max(1);
        Some(Self { row_bytes, per_batch, threads, copies })
    }

    /// Those of `indptr.npy` or `indices.npy`; `None` if the CPU does not sample.
    fn of_lists(plan: &RunPlan, dataset: &Dataset, values: RandomValues) -> Option<Self> {
        let csc = dataset.graph()?;
        if plan.backend.gpu_sampler().is_some() {
            return None;
        }
        let layers = &plan.layout.bounds().blocks;
        let lists: usize = layers.iter().map(|layer| layer.destinations).sum();
        let lines = match values {
            // Picks of a long list are in different lines.
            RandomValues::Indices => {
                let list_bytes = csc.edges() * csc.indices.id_bytes() / csc.nodes().max(1);
                let edges = layers.iter().map(|layer| layer.edges).sum::<usize>();
                edges.min(lists * list_bytes.div_ceil(LINE_BYTES))
            }
            RandomValues::Indptr | RandomValues::Rows => lists,
        };
        let samplers = plan.options.samplers;
        let copies = plan.options.sampling_processes();
        let per_batch = (lines * LINE_BYTES) as u64;
        Some(Self { row_bytes: LINE_BYTES, per_batch, threads: samplers, copies: copies as u64 })
    }
}

/// The batches of the run.
fn batches(plan: &RunPlan) -> u64 {
    let (schedule, passes) = (&plan.schedule, plan.schedule.passes());
    let epochs = match passes.steered {
        true => ASSUMED_EPOCHS,
        false => u64::from(passes.epochs.saturating_sub(passes.start.epoch)),
    };
    let batches = |split, used: bool| if used { schedule.batches(split) } else { 0 };
    let per_epoch = schedule.batches(Split::Train) + batches(Split::Valid, passes.validate);
    epochs * per_epoch + batches(Split::Test, passes.test)
}

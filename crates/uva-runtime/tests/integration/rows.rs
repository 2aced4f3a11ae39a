//! Every tree of rows that a run can have is built, and gives the rows of the table, or the sums of gathered rows.
//!
//! `ranks` tests rows of other ranks ([`RowTree::Remote`]).

use crate::{common, stand_in};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use uva_graph::{Dataset, ElementType, Verify};
use uva_propagate::{HopSet, HopType, Layout};
use uva_runtime::backend::{Backend, CufileReport, GatherChoice, SamplerChoice};
use uva_runtime::options::hop_options::HopBatches;
use uva_runtime::plan::RunPlan;
use uva_runtime::sampler::cache::{CacheContents, CachePolicy};
use uva_runtime::tune::planning;
use uva_runtime::{
    Aggregation, Cursor, DiskReader, FeatureType, Features, HostPages, LoaderOptions, LookAhead, Passes,
    RowTree, Runtime,
};

/// Backends of a run: on the CPU, and on the GPU of the stand-in with each gather.
fn backends() -> Vec<Backend> {
    let on_gpu = |gather| stand_in::on_gpu(gather, SamplerChoice::Cpu);
    let gathers = [GatherChoice::ZeroCopy, GatherChoice::Dma, GatherChoice::Device, GatherChoice::Split];
    std::iter::once(Backend::Cpu).chain(gathers.map(on_gpu)).collect()
}

/// The bytes of the rows and the sums of each batch in one epoch, by the batch's hash.
type Made = BTreeMap<u64, (Vec<u8>, Vec<f32>)>;

/// Whether two runs gave the same results. Sums that one adds up in another order may differ in their last bits.
fn are_equal(made: &Made, expected: &Made, is_reordered: bool) -> bool {
    let near = |(a, b): (&f32, &f32)| match is_reordered {
        true => (a - b).abs() <= 1e-5 * (1.0 + b.abs()),
        false => a.to_bits() == b.to_bits(),
    };
    let same = |(hash, (rows, sums)): (&u64, &(Vec<u8>, Vec<f32>))| {
        let (others, other_sums) = &expected[hash];
        rows == others && sums.len() == other_sums.len() && sums.iter().zip(other_sums).all(near)
    };
    made.len() == expected.len() && made.iter().all(same)
}

/// The results of this run; `None` if it is refused.
fn made(dataset: &Arc<Dataset>, plan: RunPlan, contents: CacheContents) -> Option<Made> {
    let mut runtime = Runtime::start_with(Arc::clone(dataset), plan, contents).ok()?;
    let mut made = Made::new();
    while let Some(batch) = runtime.next_batch().unwrap() {
        batch.confirm().unwrap();
        let tables = 0..batch.layout().tables();
        let bytes = tables.flat_map(|table| batch.table(table).bytes.to_vec()).collect();
        let sums = batch.aggregated().map(|sums| sums.values().to_vec());
        made.insert(batch.hash(), (bytes, sums.unwrap_or_default()));
    }
    Some(made)
}

/// The trees of finished runs, each once, and the number of refused runs.
#[derive(Default)]
struct Seen {
    trees: BTreeSet<String>,
    refused: usize,
}

impl Seen {
    /// Runs this plan, if no run with its tree was made yet, and compares the results with `expected`.
    fn check(&mut self, dataset: &Arc<Dataset>, plan: RunPlan, contents: CacheContents, expected: &Made) {
        let backend = plan.backend.clone();
        let Ok(settled) = plan.clone().with_row_places(dataset, &backend) else {
            self.refused += 1;
            return;
        };
        let tree = RowTree::of(&settled.with_caches(contents.caches().clone()));
        let name = format!("{tree:?}");
        if self.trees.contains(&name) {
            return;
        }
        match made(dataset, plan, contents) {
            None => self.refused += 1,
            Some(made) => {
                let is_reordered = matches!(tree, RowTree::Begun(_));
                assert!(are_equal(&made, expected, is_reordered), "{tree}: a batch differs");
                self.trees.insert(name);
            }
        }
    }

    /// The branches and leaves of these trees.
    fn parts(&self) -> BTreeSet<&str> {
        let has =
            |tree: &str, part: &str| tree.split(|c: char| !c.is_alphanumeric()).any(|word| word == part);
        PARTS.into_iter().filter(|part| self.trees.iter().any(|tree| has(tree, part))).collect()
    }
}

const PARTS: [&str; 18] = [
    "Begun",
    "BySplit",
    "Cached",
    "Copied",
    "Device",
    "Direct",
    "File",
    "LookAhead",
    "Mapped",
    "Pinned",
    "Spliced",
    "Split",
    "Staged",
    "Summed",
    "SummedOnDevice",
    "Tables",
    "Upload",
    "Widened",
];

fn options() -> LoaderOptions {
    LoaderOptions {
        fanouts: [4, 3].into(),
        batch_size: 200,
        seed: 5,
        reader: DiskReader::Pread,
        look_ahead: LookAhead::Batches(0),
        ..LoaderOptions::default()
    }
}

const PASSES: Passes =
    Passes { epochs: 1, validate: false, test: false, start: Cursor { epoch: 0, batch: 0 }, steered: false };

/// No cache; fixed rows; rows until others replace them; chosen rows before a file, and others kept.
fn caches(dataset: &Arc<Dataset>, options: &LoaderOptions) -> Vec<CacheContents> {
    let of = |policy: CachePolicy| {
        let (plan, _) = planning::plan(dataset, options, &Backend::Cpu, 20_000, policy, &|_| {}).unwrap();
        CacheContents::of_plan(dataset, &plan).unwrap()
    };
    let chosen = || of(CachePolicy::DEGREE);
    vec![CacheContents::default(), chosen(), of("fifo".parse().unwrap()), chosen().keeping(100)]
}

fn check_tables(path: &Path, seen: &mut Seen) {
    let dataset = Arc::new(Dataset::open(&common::graph(path, 2000, 8.0)).unwrap());
    for aggregation in [Aggregation::None, Aggregation::Mean] {
        let options = LoaderOptions { aggregation, ..options() };
        let plan = |options: &LoaderOptions| RunPlan::new(&dataset, options, PASSES).unwrap();
        let expected = made(&dataset, plan(&options), CacheContents::default()).unwrap();
        let caches = caches(&dataset, &options);
        for backend in backends() {
            for features in [Features::Memory, Features::Disk] {
                for look_ahead in [LookAhead::Batches(0), LookAhead::Batches(2)] {
                    for gathers_before_sums in [false, true] {
                        let options =
                            LoaderOptions { features, look_ahead, gathers_before_sums, ..options.clone() };
                        for contents in &caches {
                            let plan = plan(&options).on(backend.clone());
                            seen.check(&dataset, plan, contents.clone(), &expected);
                        }
                        let options = LoaderOptions { host_pages: HostPages::Huge, ..options };
                        for contents in &caches {
                            let plan = plan(&options).on(backend.clone());
                            seen.check(&dataset, plan, contents.clone(), &expected);
                        }
                    }
                }
            }
        }
    }
}

fn check_widened(path: &Path, seen: &mut Seen) {
    let dataset = Arc::new(Dataset::open(&common::graph_of(path, 2000, 8.0, ElementType::F16)).unwrap());
    let options = LoaderOptions { feature_type: FeatureType::Float32, ..options() };
    let plan = |options: &LoaderOptions| RunPlan::new(&dataset, options, PASSES).unwrap();
    let expected = made(&dataset, plan(&options), CacheContents::default()).unwrap();
    for contents in caches(&dataset, &options) {
        for features in [Features::Memory, Features::Disk] {
            let options = LoaderOptions { features, ..options.clone() };
            seen.check(&dataset, plan(&options), contents.clone(), &expected);
        }
    }
}

fn check_hop_sets(path: &Path, seen: &mut Seen) {
    let graph = common::graph(path, 2000, 8.0);
    let set = super::hops::hop_set(path, &graph, HopType::F32, Layout::Hops);
    let dataset = Arc::new(HopSet::open_dataset(&set, Verify::Stamp).unwrap());
    let hops = HopBatches { tables: vec![0, 2, 5], chunk: 20 };
    let options = options().of_hops(hops);
    let plan = |options: &LoaderOptions| RunPlan::new(&dataset, options, PASSES).unwrap();
    let expected = made(&dataset, plan(&options), CacheContents::default()).unwrap();
    for backend in backends() {
        let on_gpu = backend.device_slots().is_some();
        let options = if on_gpu { options.clone().of_hops_on_gpu() } else { options.clone() };
        for features in [Features::Memory, Features::Disk] {
            let options = LoaderOptions { features, ..options.clone() };
            seen.check(&dataset, plan(&options).on(backend.clone()), CacheContents::default(), &expected);
        }
        let options =
            LoaderOptions { features: Features::Disk, reader: DiskReader::Cufile, ..options.clone() };
        let works = CufileReport { refused: None, compatibility: None };
        let plan = plan(&options).on(backend).by_cufile(works).unwrap();
        seen.check(&dataset, plan, CacheContents::default(), &expected);
    }
}

#[test]
fn every_tree_that_a_run_can_have_brings_the_same_rows() {
    const TEST: &str = "rows::every_tree_that_a_run_can_have_brings_the_same_rows";
    if !cuda_sim::in_process_with_cufile(TEST, &[]) {
        return;
    }
    let mut seen = Seen::default();
    for check in [check_tables, check_widened, check_hop_sets] {
        let temp = tempfile::tempdir().unwrap();
        check(temp.path(), &mut seen);
    }
    println!("{} trees, {} runs refused", seen.trees.len(), seen.refused);
    seen.trees.iter().for_each(|tree| println!("{tree}"));
    assert_eq!(seen.parts(), BTreeSet::from(PARTS));
}

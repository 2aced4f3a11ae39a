//! Batches of hop sets: all their bytes equal those of the files, each training row occurs once per epoch, and workers
//! and layouts change nothing.

use crate::common;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uva_graph::npy::{NpyArray, NpyType};
use uva_graph::{Dataset, ElementType, Verify};
use uva_model::FeatureNorm;
use uva_propagate::{
    Estimate, HopSet, HopType, KeptNodes, Layout, PropagateOptions, PropagateProgress, PropagateWatch,
    RowOrder, parse_operators, propagate,
};
use uva_runtime::options::hop_options::HopBatches;
use uva_runtime::plan::RunPlan;
use uva_runtime::{Features, LoaderOptions, Passes, Runtime, Split};
use uva_sample::rows_hash;

const DIM: usize = 5;

struct Silent;

impl PropagateWatch for Silent {
    fn begins(&mut self, _: &Estimate, _: u64) {}

    fn progress(&mut self, _: PropagateProgress<'_>) {}

    fn stops(&mut self) -> bool {
        false
    }
}

/// A hop set of two operators with three hops each.
pub fn hop_set(directory: &Path, graph: &Path, element: HopType, layout: Layout) -> PathBuf {
    let out = directory.join(format!("{element}-{layout}"));
    let options = PropagateOptions {
        operators: parse_operators("sym,row").unwrap(),
        hops: 3,
        nodes: KeptNodes::Splits,
        element,
        layout,
        row_order: RowOrder::Shuffled,
        seed: 1,
        weighted: false,
        feature_norm: FeatureNorm::None,
        memory: 1 << 30,
        threads: 1,
    };
    propagate(&Dataset::open(graph).unwrap(), &out, &options, false, &mut Silent).unwrap();
    out
}

/// Node, label, and rows of the tables read, for each seed of a batch.
type Rows = Vec<(i64, i64, Vec<Vec<u8>>)>;

struct Made {
    split: Split,
    epoch: u32,
    hash: u64,
    places: Vec<i64>,
    rows: Rows,
}

fn batches(set: &Path, hops: HopBatches, more: LoaderOptions) -> Vec<Made> {
    let dataset = Arc::new(HopSet::open_dataset(set, Verify::Stamp).unwrap());
    let tables = hops.tables.len();
    let options = LoaderOptions { batch_size: 64, seed: 5, input_id: true, ..more }.of_hops(hops);
    let passes = Passes { epochs: 2, validate: true, test: true, ..Passes::default() };
    let plan = RunPlan::new(&dataset, &options, passes).unwrap();
    let mut runtime = Runtime::start(Arc::clone(&dataset), plan).unwrap();
    let mut made = Vec::new();
    while let Some(batch) = runtime.next_batch().unwrap() {
        let uva_runtime::Labels::Single(labels) = batch.labels() else { panic!("labels of classes") };
        assert_eq!((batch.layers(), batch.node_count()), (0, batch.seed_count()));
        assert_eq!(batch.layout().tables(), tables);
        let rows = (0..batch.seed_count())
            .map(|seed| {
                let of_table = |table| {
                    let table = batch.table(table);
                    assert_eq!((table.rows, table.dim), (batch.seed_count(), DIM));
                    assert_eq!(table.bytes.as_ptr() as usize % 64, 0, "a table begins on a cache line");
                    table.bytes[seed * table.row_bytes()..][..table.row_bytes()].to_vec()
                };
                (batch.seeds()[seed], labels[seed], (0..tables).map(of_table).collect())
            })
            .collect();
        let places = batch.input_id().to_vec();
        made.push(Made { split: batch.split(), epoch: batch.epoch(), hash: batch.hash(), places, rows });
    }
    made
}

fn hops(tables: &[usize], chunk: usize) -> HopBatches {
    HopBatches { tables: tables.to_vec(), chunk }
}

#[test]
fn batches_hold_the_bytes_of_the_files_for_every_type_layout_and_chunk() {
    let temp = tempfile::tempdir().unwrap();
    let graph = common::graph_of(temp.path(), 1500, 8.0, ElementType::F32);
    let names = ["x", "sym.1", "sym.2", "sym.3", "row.1", "row.2", "row.3"];
    let tables = [6, 0, 2];
    for element in HopType::ALL {
        let set = hop_set(temp.path(), &graph, element, Layout::Hops);
        let open = |name: &str| NpyArray::open(&set.join(format!("{name}.npy"))).unwrap();
        let (nodes, labels) = (open("node_idx"), open("label"));
        let nodes: &[i64] = nodes.elements(NpyType::I64).unwrap();
        let labels: &[i64] = labels.elements(NpyType::I64).unwrap();
        let files = tables.map(|table| open(names[table]));
        let other = hop_set(temp.path(), &graph, element, Layout::Rows);
        let description = HopSet::open(&set).unwrap();
        for chunk in [1, 10, 100, 100_000] {
            for (set, samplers, feature_slots, features) in [
                (&set, 1, 2, Features::Memory),
                (&set, 3, 2, Features::Disk),
                (&set, 1, 1, Features::Memory),
                (&other, 2, 3, Features::Memory),
                (&other, 1, 2, Features::Disk),
            ] {
                let more = LoaderOptions { samplers, feature_slots, features, ..LoaderOptions::default() };
                let made = batches(set, hops(&tables, chunk), more);
                let what = format!("{element}, chunks of {chunk}, {samplers} workers, {features}");
                for split in Split::ALL {
                    let [first, end] = description.split(split.name());
                    for epoch in 0..if split == Split::Test { 1 } else { 2 } {
                        let of_pass =
                            made.iter().filter(|batch| (batch.split, batch.epoch) == (split, epoch));
                        let mut seen = Vec::new();
                        for batch in of_pass {
                            let ids: Vec<i64> = batch.rows.iter().map(|row| row.0).collect();
                            assert_eq!(batch.hash, rows_hash(&ids), "{what}");
                            for (place, (node, label, rows)) in batch.places.iter().zip(&batch.rows) {
                                let row = first + *place as usize;
                                assert_eq!((*node, *label), (nodes[row], labels[row]), "{what}");
                                for (found, file) in rows.iter().zip(&files) {
                                    let bytes = found.len();
                                    assert_eq!(
                                        found[..],
                                        file.bytes()[row * bytes..][..bytes],
                                        "{what}, {row}"
                                    );
                                }
                                seen.push(*place as usize);
                            }
                        }
                        assert_eq!(seen.is_sorted(), split != Split::Train || chunk > end, "{what}, {split}");
                        seen.sort_unstable();
                        assert!(seen.into_iter().eq(0..end - first), "{what}: every row of {split} once");
                    }
                }
            }
        }
    }
}

#[test]
fn drop_last_drops_the_rows_after_the_last_complete_batch() {
    let temp = tempfile::tempdir().unwrap();
    let graph = common::graph_of(temp.path(), 1500, 8.0, ElementType::F32);
    let set = hop_set(temp.path(), &graph, HopType::F32, Layout::Hops);
    let train = HopSet::open(&set).unwrap().split("train")[1];
    assert_ne!(train % 64, 0);
    let options = LoaderOptions { drop_last: true, ..LoaderOptions::default() };
    let made = batches(&set, hops(&[0], 7), options);
    let trained = made.iter().filter(|batch| batch.split == Split::Train);
    let sizes: Vec<usize> = trained.map(|batch| batch.rows.len()).collect();
    assert_eq!(sizes, vec![64; 2 * (train / 64)]);
}

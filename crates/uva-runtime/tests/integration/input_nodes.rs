//! Nodes given instead of a split.

use std::path::{Path, PathBuf};

use uva_graph::npy::{NpyType, write_array};
use uva_runtime::options::input_nodes::NodesFiles;
use uva_runtime::{
    CheckedFiles, Dataset, InputNodes, LoaderOptions, Runtime, RuntimeBuilder, RuntimeError, Split,
};

use crate::common;

const NODES: usize = 2000;

fn graph(directory: &Path) -> PathBuf {
    common::graph(directory, NODES as u64, 8.0)
}

fn builder(graph: &Path) -> RuntimeBuilder {
    let options = LoaderOptions {
        fanouts: [4, 3].into(),
        batch_size: 64,
        seed: 11,
        samplers: 2,
        input_id: true,
        ..LoaderOptions::default()
    };
    Runtime::builder(graph).options(options).epochs(2).validate(true)
}

/// Hash, seeds and their positions, batch by batch.
fn batches(builder: RuntimeBuilder) -> Vec<(Split, u64, Vec<i64>, Vec<i64>)> {
    let mut runtime = builder.build().unwrap();
    let mut seen = Vec::new();
    while let Some(batch) = runtime.next_batch().unwrap() {
        seen.push((batch.split(), batch.hash(), batch.seeds().to_vec(), batch.input_id().to_vec()));
    }
    seen
}

fn write_anew<T: bytemuck::NoUninit>(path: &Path, kind: NpyType, values: &[T]) {
    std::fs::remove_file(path).ok();
    write_array(path, kind, &[], values).unwrap();
}

/// Every third node, in descending order.
fn ids() -> Vec<i64> {
    (0..NODES as i64).rev().filter(|id| id % 3 == 0).collect()
}

#[test]
fn batches_of_given_nodes_are_those_of_a_dataset_with_that_training_split() {
    let temp = tempfile::tempdir().unwrap();
    let (graph, ids) = (graph(temp.path()), ids());
    let shuffled = batches(builder(&graph).input_nodes(ids.clone()).shuffle(true));
    let kept = batches(builder(&graph).input_nodes(ids.clone()));
    write_anew(&graph.join("train_idx.npy"), NpyType::I64, &ids);
    assert_eq!(shuffled, batches(builder(&graph)));
    assert_eq!(kept, batches(builder(&graph).shuffle(false)));
    let training = |batches: &[(Split, u64, Vec<i64>, Vec<i64>)]| -> Vec<i64> {
        let training = batches.iter().filter(|batch| batch.0 == Split::Train);
        training.flat_map(|batch| batch.2.iter().copied()).take(ids.len()).collect()
    };
    assert_eq!(training(&kept), ids);
    assert_ne!(training(&shuffled), ids);
}

#[test]
fn a_mask_a_file_and_all_are_the_nodes_that_they_name() {
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    let ids: Vec<i64> = ids().into_iter().rev().collect();
    let expected = batches(builder(&graph).input_nodes(&ids[..]));
    let mask: Vec<bool> = (0..NODES).map(|id| id % 3 == 0).collect();
    assert_eq!(expected, batches(builder(&graph).input_nodes(mask.clone())));
    let file = temp.path().join("nodes.npy");
    write_anew(&file, NpyType::I64, &ids);
    assert_eq!(expected, batches(builder(&graph).input_nodes(&*file)));
    let bytes: Vec<u8> = mask.iter().map(|is| u8::from(*is)).collect();
    write_anew(&file, NpyType::Bool, &bytes);
    assert_eq!(expected, batches(builder(&graph).input_nodes(&*file)));
    let every: Vec<i64> = (0..NODES as i64).collect();
    let all = batches(builder(&graph).input_nodes(InputNodes::All));
    assert_eq!(all, batches(builder(&graph).input_nodes(every)));
}

#[test]
fn a_node_that_is_given_again_is_a_seed_of_its_own() {
    let temp = tempfile::tempdir().unwrap();
    // Small, so that a batch has more rows than the graph has nodes, and a block more edges than the graph.
    let graph = common::graph(temp.path(), 40, 8.0);
    let dataset = Dataset::open(&graph).unwrap();
    let (table, row_bytes) = (dataset.features(), dataset.table().row_bytes());
    let given: Vec<i64> = (0..40).chain([3, 3]).chain((0..40).rev()).collect();
    let bounded = LoaderOptions { fanouts: [40, 40].into(), ..LoaderOptions::default() };
    let whole = LoaderOptions { fanouts: [-1, -1].into(), slot_bytes: Some(1 << 20), ..bounded.clone() };
    for (options, shuffled) in [(bounded, false), (whole, true)] {
        let options = LoaderOptions { batch_size: 64, input_id: true, seed: 11, ..options };
        let builder = Runtime::builder(&graph).options(options).epochs(1);
        let mut runtime = builder.input_nodes(&given[..]).shuffle(shuffled).build().unwrap();
        let (mut positions, mut rows, mut edges) = (Vec::new(), 0, 0);
        while let Some(batch) = runtime.next_batch().unwrap() {
            let (seeds, ids) = (batch.seeds(), batch.input_nodes());
            positions.extend_from_slice(batch.input_id());
            for (seed, &position) in seeds.iter().zip(batch.input_id()) {
                assert_eq!(*seed, given[position as usize]);
            }
            for (row, &id) in batch.features().bytes.chunks(row_bytes).zip(ids) {
                assert_eq!(row, &table.bytes[id as usize * row_bytes..][..row_bytes]);
            }
            let block = batch.block(0);
            let list = |at: usize| &block.indices[block.indptr[at] as usize..block.indptr[at + 1] as usize];
            for (at, seed) in seeds.iter().enumerate() {
                let first = seeds.iter().position(|other| other == seed).unwrap();
                assert_eq!(list(at), list(first));
                assert_eq!(list(at).len(), dataset.csc().degree(*seed as usize));
            }
            let sources = list(0).iter().chain(block.indices);
            assert!(
                sources.into_iter().all(|&at| ids[..at as usize].iter().all(|id| *id != ids[at as usize]))
            );
            rows = rows.max(ids.len());
            edges = edges.max(block.indices.len());
        }
        assert!(rows > 40 && edges > dataset.edges(), "{rows} {edges}");
        assert_eq!(positions == (0..82).collect::<Vec<i64>>(), !shuffled);
        positions.sort_unstable();
        assert_eq!(positions, (0..82).collect::<Vec<i64>>());
    }
}

#[test]
fn nodes_that_cannot_be_are_refused_by_the_options_name() {
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    for (nodes, says) in [
        (InputNodes::Ids(vec![]), "no nodes are given"),
        (InputNodes::Mask(vec![false; NODES]), "no nodes are given"),
        (InputNodes::Ids(vec![5, NODES as i64]), "entry 1 is 2000, outside the ids 0 to 1999"),
        (InputNodes::Ids(vec![-1]), "entry 0 is -1, outside"),
        (InputNodes::Mask(vec![true; 7]), "the mask has 7 entries for 2000 nodes"),
    ] {
        let refused = builder(&graph).input_nodes(nodes.clone()).build().unwrap_err();
        assert_eq!((refused.field(), refused.exit_code()), (Some("input_nodes"), 2), "{nodes:?}");
        assert!(refused.to_string().contains(says), "{refused}");
    }
    let file = temp.path().join("nodes.npy");
    write_anew(&file, NpyType::F32, &[1.0_f32, 2.0]);
    let refused = builder(&graph).input_nodes(&*file).build().unwrap_err();
    assert!(
        matches!(&refused, RuntimeError::Input(said) if said.to_string().contains("nodes.npy")),
        "{refused:?}"
    );
}

#[test]
fn a_dataset_with_given_nodes_names_them_and_keeps_the_others() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&graph(temp.path())).unwrap();
    let given = |nodes: Vec<i64>| InputNodes::Ids(nodes).in_place_of(Split::Test, dataset.clone()).unwrap();
    let with = given(vec![7, 3]);
    assert_eq!(
        (with.split(Split::Test), with.split(Split::Train)),
        (&[7, 3][..], dataset.split(Split::Train))
    );
    assert_eq!(with.fingerprint(), dataset.fingerprint());
    assert_eq!(with.without_chosen_nodes().split(Split::Test), dataset.split(Split::Test));
    assert!(dataset.chosen_nodes().is_none() && with.chosen_nodes().unwrap().starts_with("2 nodes, "));
    for other in [vec![3, 7], vec![7], vec![7, 4]] {
        assert_ne!(given(other).chosen_nodes(), with.chosen_nodes());
    }
}

#[test]
fn a_file_changed_under_a_run_is_refused_by_the_next_process_reading_it() {
    let temp = tempfile::tempdir().unwrap();
    let (graph, file) = (graph(temp.path()), temp.path().join("nodes.npy"));
    write_anew(&file, NpyType::I64, &[7_i64, 3]);
    let (dataset, read) =
        NodesFiles::read(std::slice::from_ref(&file), Dataset::open(&graph).unwrap()).unwrap();
    let options = LoaderOptions { input_nodes: Some(read), ..LoaderOptions::default() };
    let sent: LoaderOptions = serde_json::from_value(serde_json::to_value(&options).unwrap()).unwrap();
    assert_eq!(sent, options);
    assert_eq!(sent.open_again(&graph).unwrap().split(Split::Train), dataset.split(Split::Train));
    assert_ne!(options.fingerprint(), LoaderOptions::default().fingerprint());
    write_anew(&file, NpyType::I64, &[3_i64, 7]);
    let refused = sent.open_again(&graph).unwrap_err();
    assert!(
        matches!(&refused, RuntimeError::Input(said) if said.to_string().contains("nodes.npy: it has 2 nodes")),
        "{refused:?}"
    );
}

#[test]
fn a_table_replaced_since_its_check_is_refused_by_the_next_process() {
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    let checked = CheckedFiles::of(&Dataset::open(&graph).unwrap());
    let options = LoaderOptions { checked_files: Some(checked), ..LoaderOptions::default() };
    let sent: LoaderOptions = serde_json::from_value(serde_json::to_value(&options).unwrap()).unwrap();
    assert_eq!(sent, options);
    sent.open_again(&graph).unwrap();
    // The same bytes in another file.
    let table = graph.join("feat.npy");
    std::fs::copy(&table, table.with_extension("new")).unwrap();
    std::fs::rename(table.with_extension("new"), &table).unwrap();
    let refused = sent.open_again(&graph).unwrap_err();
    let says = "feat.npy: it changed while it was read: another file has taken its place";
    assert!(matches!(&refused, RuntimeError::Failed(said) if said.to_string().contains(says)), "{refused:?}");
}

//! Datasets of format 2 written relation by relation: order, reverse edges, shared features, replacement.

use std::path::Path;

use uva_graph::npy::{NpyType, write_array};
use uva_graph::{GraphError, Meta, NodeType, Relation, TypedDataset, Verify, mix, verify};
use uva_io::typed::{EdgeColumn, EdgeColumns, GraphPlan, RelationPlan, Reversal, TypedWriter};

const MEMORY: u64 = 64 << 20;
const WRITES: [&str; 3] = ["author", "writes", "paper"];
const CITES: [&str; 3] = ["paper", "cites", "paper"];

/// 40 papers and 70 authors, and one relation.
fn plan(names: [&str; 3], reversal: Reversal) -> GraphPlan {
    GraphPlan {
        nodes: vec![GraphPlan::node_type("paper", 40), GraphPlan::node_type("author", 70)],
        relations: vec![RelationPlan::new(names, reversal)],
        target: None,
    }
}

/// Edge `e` of 500: a source of `sources` nodes and a destination of 40.
fn edge(e: u64, sources: u64) -> (u64, u64) {
    (mix(e) % sources, mix(e + 1000) % 40)
}

struct Written {
    _directory: tempfile::TempDir,
    dataset: TypedDataset,
}

/// Writes 500 edges with features, weights and times, and opens the result with every check.
fn written(names: [&str; 3], reversal: Reversal, sources: u64) -> Written {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let mut writer = TypedWriter::new(&out, plan(names, reversal), MEMORY).unwrap();
    let features: Vec<f32> = (0..1000_u16).map(f32::from).collect();
    let weights: Vec<f32> = (0..500_u16).map(|e| f32::from(e) + 0.5).collect();
    let times: Vec<i64> = (0..500).map(|e| -(e / 7)).collect();
    let table = EdgeColumns {
        columns: vec![column("weight.npy", NpyType::F32, &[], &weights)],
        features: Some(column("feat.npy", NpyType::F32, &[2], &features)),
        times: Some(column("time.npy", NpyType::I64, &[], &times)),
        edge_ids: true,
    };
    let push: &mut dyn FnMut(&mut uva_graph::csc::CscBuilder) -> Result<(), GraphError> = &mut |lists| {
        (0..500).try_for_each(|e| {
            let (source, destination) = edge(e, sources);
            lists.push(source, destination, 0.0)
        })
    };
    writer.relation(Relation(0), &table, &|_| {}, push).unwrap();
    writer.finish(Meta::default(), &verify::directory).unwrap();
    let dataset = TypedDataset::open_verified(&out, Verify::FullWithFeatures).unwrap();
    Written { _directory: directory, dataset }
}

fn column<'c, T: bytemuck::NoUninit>(
    name: &str,
    kind: NpyType,
    row: &[usize],
    values: &'c [T],
) -> EdgeColumn<'c> {
    EdgeColumn::of_bytes(name, kind, row, bytemuck::cast_slice(values))
}

/// Source, destination and number of every entry of a relation, after checks of its weight, time and features.
fn entries(dataset: &TypedDataset, relation: Relation) -> Vec<(u64, u64, u64)> {
    let csc = dataset.lists(relation);
    let ids = dataset.edge_ids_of(relation).unwrap();
    let (weights, times) = (dataset.weights_of(relation).unwrap(), dataset.edge_times(relation).unwrap());
    let rows = dataset.edge_rows(relation).unwrap();
    assert!(dataset.is_ordered_by_time(relation));
    let mut entries = Vec::new();
    for (owner, pair) in (0_u64..).zip(csc.indptr.windows(2)) {
        let list = pair[0] as usize..pair[1] as usize;
        assert!(times[list.clone()].is_sorted());
        for place in list {
            let number = ids[place] as u64;
            assert_eq!(weights[place], number as f32 + 0.5);
            assert_eq!(times[place], -(number as i64 / 7));
            let row = rows.row_of.map_or(place, |rows| rows[place] as usize) * 8;
            let row: &[f32] = bytemuck::cast_slice(&rows.table.bytes[row..row + 8]);
            assert_eq!(row, [2.0 * number as f32, 2.0 * number as f32 + 1.0]);
            entries.push((csc.indices.get(place) as u64, owner, number));
        }
    }
    entries
}

fn sorted(mut entries: Vec<(u64, u64, u64)>) -> Vec<(u64, u64, u64)> {
    entries.sort_unstable();
    entries
}

fn expected(sources: u64) -> Vec<(u64, u64, u64)> {
    let of_edge = |e| {
        let (source, destination) = edge(e, sources);
        (source, destination, e)
    };
    sorted((0..500).map(of_edge).collect())
}

#[test]
fn values_of_edges_follow_them_into_lists_sorted_by_time() {
    let Written { dataset, .. } = &written(WRITES, Reversal::None, 70);
    assert_eq!(dataset.metagraph().relation_count(), 1);
    assert_eq!(sorted(entries(dataset, Relation(0))), expected(70));
    assert!(dataset.edge_rows(Relation(0)).unwrap().row_of.is_none(), "rows are in the order of the lists");
}

#[test]
fn a_reverse_relation_is_the_transposition_and_shares_features() {
    let Written { dataset, .. } = &written(WRITES, Reversal::Separate, 70);
    let metagraph = dataset.metagraph();
    assert_eq!(metagraph.full_name(Relation(1)), "paper__rev_writes__author");
    assert_eq!(metagraph.reverse(Relation(0)), Some(Relation(1)));
    assert_eq!(metagraph.reverse(Relation(1)), Some(Relation(0)));
    assert_eq!(sorted(entries(dataset, Relation(0))), expected(70));
    let reversed = entries(dataset, Relation(1)).into_iter();
    let back = reversed.map(|(source, destination, number)| (destination, source, number)).collect();
    assert_eq!(sorted(back), expected(70));
    assert!(!dataset.path().join("edges/paper__rev_writes__author/feat.npy").exists());
}

#[test]
fn a_relation_can_have_both_directions_of_each_edge() {
    let Written { dataset, .. } = &written(CITES, Reversal::Same, 40);
    let metagraph = dataset.metagraph();
    assert_eq!((metagraph.relation_count(), metagraph.reverse(Relation(0))), (1, Some(Relation(0))));
    let mut both = expected(40);
    both.extend(expected(40).into_iter().filter(|(s, d, _)| s != d).map(|(s, d, number)| (d, s, number)));
    assert_eq!(sorted(entries(dataset, Relation(0))), sorted(both));
}

fn write_plain(out: &Path, replaces: bool) -> Result<(), GraphError> {
    let plan = plan(WRITES, Reversal::Separate);
    let mut writer = match replaces {
        true => TypedWriter::replacing(out, plan, MEMORY)?,
        false => TypedWriter::new(out, plan, MEMORY)?,
    };
    write_array(&writer.node_file(NodeType(0), "label.npy"), NpyType::I64, &[], &[0_i64; 40])?;
    let table = EdgeColumns::default();
    writer.relation(Relation(0), &table, &|_| {}, &mut |lists| lists.push(3, 9, 0.0))?;
    writer.finish(Meta::default(), &verify::directory)
}

#[test]
fn an_existing_dataset_is_replaced_only_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    write_plain(&out, false).unwrap();
    let refused = write_plain(&out, false).unwrap_err().to_string();
    assert!(refused.contains("exists already"), "{refused}");
    // Without edge values there are no numbers either.
    let relation = out.join("edges/paper__rev_writes__author");
    assert_eq!(crate::common::names(&relation), ["indices.npy", "indptr.npy"]);
    write_plain(&out, true).unwrap();
    assert_eq!(crate::common::names(directory.path()), ["out"]);
    std::fs::write(out.join("nodes/paper/thesis.tex"), "years").unwrap();
    let refused = write_plain(&out, true).unwrap_err().to_string();
    assert!(refused.contains("nodes/paper/thesis.tex in it is not a file of a dataset"), "{refused}");
}

#[test]
fn a_column_of_another_length_is_refused_and_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let mut writer = TypedWriter::new(&out, plan(WRITES, Reversal::None), MEMORY).unwrap();
    let columns = vec![column("weight.npy", NpyType::F32, &[], &[1.0_f32; 2])];
    let table = EdgeColumns { columns, ..EdgeColumns::default() };
    let refused = writer
        .relation(Relation(0), &table, &|_| {}, &mut |lists| lists.push(3, 9, 0.0))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("author__writes__paper has 1 edges"), "{refused}");
    drop(writer);
    assert!(crate::common::names(directory.path()).is_empty());
}

//! `--from igb` of heterogeneous graphs.

use uva_graph::csc::SelfLoops;
use uva_graph::{NodeType, Relation, Split, TypedDataset};
use uva_io::import::{Scoped, SplitRule};

use super::*;

/// Five papers, two authors and an institute, next to a type without features.
fn write(place: &Place) {
    igb::write(place);
    let file = |name: &str| format!("tiny/processed/{name}.npy");
    place.npy(&file("author/node_feat"), NpyType::F32, &[1], &[1_f32, 2.0]);
    place.npy(&file("institute/node_feat"), NpyType::F32, &[3], &[1_f32, 2.0, 3.0]);
    place.npy(&file("fos/node_id"), NpyType::I64, &[], &[1_i64]);
    let written = [3_i64, 1, 0, 1, 3, 0];
    place.npy(&file("paper__written_by__author/edge_index"), NpyType::I64, &[2], &written);
    place.npy(&file("author__affiliated_to__institute/edge_index"), NpyType::I32, &[2], &[1_i32, 0]);
}

fn variant(name: &str) -> ImportOptions {
    ImportOptions { variant: Some(name.to_owned()), ..ImportOptions::default() }
}

fn imported(place: &Place, options: &ImportOptions) -> (TypedDataset, Vec<String>) {
    let notes = place.notes_of("igb", "tiny", options);
    (TypedDataset::open_verified(&place.path("out"), Verify::FullWithFeatures).unwrap(), notes)
}

fn lists_of(dataset: &TypedDataset, relation: u16) -> Vec<Vec<i64>> {
    let lists = dataset.lists(Relation(relation));
    let list = |pair: &[i64]| (pair[0]..pair[1]).map(|place| lists.indices.get(place as usize)).collect();
    lists.indptr.windows(2).map(list).collect()
}

#[test]
fn types_and_relations_are_found_and_get_reverse_edges() {
    let place = Place::new();
    write(&place);
    let (dataset, notes) = imported(&place, &variant("typed"));
    let metagraph = dataset.metagraph();
    let types: Vec<&str> = metagraph.types().map(|of| metagraph.type_name(of)).collect();
    assert_eq!((types, dataset.target()), (vec!["paper", "author", "institute"], Some(NodeType(0))));
    let relations: Vec<&str> = metagraph.relations().map(|relation| metagraph.full_name(relation)).collect();
    let expected = [
        "paper__cites__paper",
        "paper__written_by__author",
        "author__affiliated_to__institute",
        "author__rev_written_by__paper",
        "institute__rev_affiliated_to__author",
    ];
    assert_eq!(relations, expected);
    assert_eq!(lists_of(&dataset, 0), [vec![1, 4, 4], vec![0], vec![2], vec![], vec![0, 0]]);
    assert_eq!(lists_of(&dataset, 1), [vec![3], vec![3, 0]]);
    assert_eq!(lists_of(&dataset, 3), [vec![1], vec![], vec![], vec![0, 1], vec![]]);
    assert!(matches!(dataset.labels_of(NodeType(0)), Labels::Single([0, 18, 3, 3, -1])));
    assert_eq!(dataset.classes_of(NodeType(0)), 19);
    assert_eq!(Split::ALL.map(|split| dataset.split_of(NodeType(0), split).len()), [3, 1, 1]);
    assert_eq!(dataset.rows(NodeType(2)).unwrap().dim, 3);
    assert!(notes.iter().any(|note| note.ends_with("fos is not read")), "{notes:?}");
    // Without the variant, the graph of papers is the same as ever.
    let alone = place.import("igb", "tiny", &ImportOptions::default()).unwrap();
    assert_eq!((alone.nodes(), alone.edges()), (5, 8));
    let notes = place.notes("igb", "tiny");
    assert_eq!(notes.last().unwrap(), "`variant=typed` reads all types and relations");
}

#[test]
fn mlperf_has_both_directions_with_loops_and_splits_of_a_directory() {
    let place = Place::new();
    write(&place);
    place.npy("splits/train_idx.npy", NpyType::I64, &[], &[4_i64, 2]);
    place.npy("splits/valid_idx.npy", NpyType::I32, &[], &[0_i32]);
    let mut options = variant("mlperf");
    options.edge_list.arrays = Some(place.path("splits"));
    let (dataset, _) = imported(&place, &options);
    let mut cites = lists_of(&dataset, 0);
    cites.iter_mut().for_each(|list| list.sort_unstable());
    // The source has (4, 0), (1, 0), (2, 2) and (0, 4).
    assert_eq!(cites, [vec![0, 0, 1, 4, 4], vec![0, 1, 1], vec![2, 2], vec![3, 3], vec![0, 0, 4, 4]]);
    let metagraph = dataset.metagraph();
    assert_eq!(metagraph.reverse(Relation(0)), Some(Relation(0)));
    assert_eq!(metagraph.relation_count(), 5);
    assert_eq!(dataset.classes_of(NodeType(0)), 2983);
    assert_eq!(Split::ALL.map(|split| dataset.split_of(NodeType(0), split)), [&[4, 2][..], &[0], &[]]);
    let (coarse, _) = imported(&place, &variant("mlperf-19"));
    assert_eq!((coarse.classes_of(NodeType(0)), lists_of(&coarse, 1)), (19, lists_of(&dataset, 1)));
}

#[test]
fn options_of_typed_graphs_apply_to_igb_by_name() {
    let place = Place::new();
    write(&place);
    let options = ImportOptions {
        reverse: Some(Scoped::of_names(true, "written_by")),
        self_loops: Some(SelfLoops::Add.into()),
        float8: Some(Scoped::of_names(uva_io::import::Float8 { saturate: false }, "author")),
        split: SplitRule::from_text("random:0.4,0.2,0.4"),
        ..variant("typed")
    };
    let (dataset, _) = imported(&place, &options);
    assert_eq!(dataset.metagraph().relation_count(), 4);
    assert_eq!(lists_of(&dataset, 0)[3], [3], "a loop was added");
    assert_eq!(dataset.rows(NodeType(1)).unwrap().element, uva_graph::ElementType::E4m3);
    assert_eq!(Split::ALL.map(|split| dataset.split_of(NodeType(0), split).len()).iter().sum::<usize>(), 4);
}

#[test]
fn tables_of_large_graphs_have_no_header() {
    let place = Place::new();
    write(&place);
    let rows: Vec<f32> = (0..2 * 1024).map(|i| i as f32).collect();
    place.write("tiny/processed/author/node_feat.npy", bytemuck::cast_slice(&rows));
    let (dataset, _) = imported(&place, &variant("typed"));
    assert_eq!(dataset.rows(NodeType(1)).unwrap().dim, 1024);
}

#[test]
fn wrong_files_and_options_are_refused_with_type_or_relation() {
    let refused = |change: &dyn Fn(&Place), options: &ImportOptions, part: &str| {
        let place = Place::new();
        write(&place);
        change(&place);
        let message = place.refusal("igb", "tiny", options);
        assert!(message.contains(part), "{message} instead of {part}");
    };
    let typed = variant("typed");
    let file = "tiny/processed/paper__written_by__author/edge_index.npy";
    refused(
        &|p| p.npy(file, NpyType::I64, &[2], &[0_i64, 1, 4, 2]),
        &typed,
        "paper__written_by__author/edge_index.npy: entry 3 at offset 152, the destination of edge 1, is 2, outside the \
         ids 0 to 1 (node_feat.npy of author has 2 rows)",
    );
    refused(&|p| p.npy(file, NpyType::I64, &[3], &[0_i64, 1, 2]), &typed, "[edges, 2]");
    refused(
        &|p| fs::remove_file(p.path("tiny/processed/author/node_feat.npy")).unwrap(),
        &typed,
        "there is no directory author with node_feat.npy next to it",
    );
    let cites = "tiny/processed/paper__cites__paper";
    refused(
        &|p| fs::remove_dir_all(p.path(cites)).unwrap(),
        &variant("mlperf"),
        "needs the directory paper__cites",
    );
    let reverse = ImportOptions { reverse: Some(false.into()), ..variant("mlperf") };
    refused(&|_| {}, &reverse, "`reverse`: not supported with `variant=mlperf`");
    let mut arrays = ImportOptions::default();
    arrays.edge_list.arrays = Some(PathBuf::from("splits"));
    refused(&|_| {}, &arrays, "`arrays`: only valid with `variant=typed`");
    let arrays = ImportOptions { edge_list: arrays.edge_list, ..variant("typed") };
    refused(&|_| {}, &arrays, "`arrays`: splits has no train_idx.npy");
    let reverse = ImportOptions { reverse: Some(false.into()), ..ImportOptions::default() };
    refused(&|_| {}, &reverse, "`reverse`: only valid for typed graphs");
}

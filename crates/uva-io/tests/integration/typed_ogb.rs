//! `--from ogb` of typed graphs, such as ogbn-mag.

use uva_graph::{NodeType, Relation, Split, TypedDataset};
use uva_io::import::Scoped;

use super::*;

/// A directory like `ogbn_mag`.
fn benchmark(place: &Place) {
    let file = |name: &str, text: &str| place.write(&format!("ogbn_mag/{name}.csv.gz"), gz(text));
    file("raw/num-node-dict", "author,field_of_study,paper\n3,2,4\n");
    file("raw/triplet-type-list", "author,writes,paper\npaper,cites,paper\npaper,has topic,field_of_study\n");
    file("raw/nodetype-has-label", "author,field_of_study,paper\nFalse,False,True\n");
    for (relation, edges, count) in [
        ("author___writes___paper", "2,3\n0,3\n1,0\n", "3\n"),
        ("paper___cites___paper", "1,0\n2,2\n", "2\n"),
        ("paper___has topic___field_of_study", "3,1\n0,1\n", "2\n"),
    ] {
        file(&format!("raw/relations/{relation}/edge"), edges);
        file(&format!("raw/relations/{relation}/num-edge-list"), count);
    }
    file("raw/node-feat/paper/node-feat", "0.5,-1e-3\n1,2\n3.25,4\n0,7\n");
    file("raw/node-feat/paper/node_year", "2001\n2002\n2003\n2004\n");
    file("raw/node-label/paper/node-label", "1\n0\n\n2\n");
    file("split/time/paper/train", "3\n0\n");
    file("split/time/paper/valid", "1\n");
    file("split/time/paper/test", "2\n");
}

fn imported(place: &Place, options: &ImportOptions) -> (TypedDataset, Vec<String>) {
    let out = place.path("out");
    let _ = fs::remove_dir_all(&out);
    let notes = std::cell::RefCell::new(Vec::new());
    let note = |line: &str| notes.borrow_mut().push(line.to_owned());
    let watch = ImportWatch { note: &note, ..ImportWatch::NONE };
    importer("ogb").run(&place.path("ogbn_mag"), &out, options, &watch).unwrap();
    (TypedDataset::open_verified(&out, Verify::FullWithFeatures).unwrap(), notes.into_inner())
}

fn lists_of(dataset: &TypedDataset, relation: u16) -> Vec<Vec<i64>> {
    let lists = dataset.lists(Relation(relation));
    let list = |pair: &[i64]| (pair[0]..pair[1]).map(|place| lists.indices.get(place as usize)).collect();
    lists.indptr.windows(2).map(list).collect()
}

#[test]
fn a_typed_graph_gets_the_reverse_edges_that_ogb_adds() {
    let place = Place::new();
    benchmark(&place);
    let (dataset, notes) = imported(&place, &ImportOptions::default());
    let metagraph = dataset.metagraph();
    let relations: Vec<&str> = metagraph.relations().map(|relation| metagraph.full_name(relation)).collect();
    let expected = [
        "author__writes__paper",
        "paper__cites__paper",
        "paper__has-topic__field_of_study",
        "paper__rev_writes__author",
        "field_of_study__rev_has-topic__paper",
    ];
    assert_eq!(relations, expected);
    assert_eq!(lists_of(&dataset, 0), [vec![1], vec![], vec![], vec![2, 0]]);
    assert_eq!(lists_of(&dataset, 1), [vec![1], vec![0], vec![2], vec![]]);
    assert_eq!(lists_of(&dataset, 3), [vec![3], vec![0], vec![3]]);
    let paper = NodeType(2);
    assert_eq!(dataset.target(), Some(paper));
    assert!(matches!(dataset.labels_of(paper), Labels::Single([1, 0, -1, 2])));
    assert_eq!(Split::ALL.map(|split| dataset.split_of(paper, split)), [&[3, 0][..], &[1], &[2]]);
    let rows: &[f32] = bytemuck::cast_slice(dataset.rows(paper).unwrap().bytes);
    assert_eq!(rows, [0.5, -0.001, 1.0, 2.0, 3.25, 4.0, 0.0, 7.0]);
    assert!(dataset.rows(NodeType(0)).is_none());
    assert!(notes.iter().any(|note| note.ends_with("node_year.csv.gz is not read")), "{notes:?}");
    assert!(notes.contains(&"relation has topic becomes has-topic".to_owned()), "{notes:?}");
    let (alone, _) =
        imported(&place, &ImportOptions { reverse: Some(false.into()), ..ImportOptions::default() });
    assert_eq!((alone.metagraph().relation_count(), alone.edges()), (3, 7));
    assert_eq!(lists_of(&alone, 1), [vec![1], vec![], vec![2], vec![]]);
}

#[test]
fn times_and_reverses_of_a_typed_graph_are_chosen_by_name() {
    let place = Place::new();
    benchmark(&place);
    let time = Some("node_year".to_owned());
    let reverse = Some(Scoped::of_names(true, "writes"));
    let (dataset, notes) = imported(&place, &ImportOptions { time, reverse, ..ImportOptions::default() });
    assert_eq!(dataset.node_times(NodeType(2)), Some(&[2001, 2002, 2003, 2004][..]));
    assert!(!notes.iter().any(|note| note.contains("node_year")), "{notes:?}");
    let metagraph = dataset.metagraph();
    assert_eq!(
        (metagraph.relation_count(), metagraph.full_name(Relation(3))),
        (4, "paper__rev_writes__author")
    );
    assert_eq!(lists_of(&dataset, 1), [vec![1], vec![], vec![2], vec![]]);
    let no_time = ImportOptions { time: Some("year".to_owned()), ..ImportOptions::default() };
    let message = place.refusal("ogb", "ogbn_mag", &no_time);
    assert!(message.contains("`time`: no node type has the file year.csv.gz"), "{message}");
    place.write("ogbn_mag/raw/node-feat/paper/node_year.csv.gz", gz("2001\nlast\n"));
    let time = Some("node_year".to_owned());
    let message = place.refusal("ogb", "ogbn_mag", &ImportOptions { time, ..ImportOptions::default() });
    assert!(message.contains("line 2 is 'last': a time has to be an integer"), "{message}");
}

/// The graph of [`benchmark`] in archives, and some arrays in another form.
fn archives(place: &Place, compressed: bool) {
    let count = |counts: &[i64]| npy(NpyType::I64, &[], counts);
    let write = |name: &str, arrays: &[(&str, Vec<u8>)]| {
        place.write(&format!("archives/raw/{name}.npz"), npz(arrays, compressed));
    };
    let types = [("author", 3), ("field_of_study", 2), ("paper", 4)];
    write("num_nodes_dict", &types.map(|(name, nodes)| (name, count(&[nodes]))));
    let relations = [
        ("author___writes___paper", 3, vec![2_i64, 0, 1, 3, 3, 0]),
        ("paper___cites___paper", 2, vec![1, 2, 0, 2]),
        ("paper___has topic___field_of_study", 2, vec![3, 0, 1, 1]),
    ];
    write("num_edges_dict", &relations.each_ref().map(|(name, edges, _)| (*name, count(&[*edges]))));
    let ends =
        relations.each_ref().map(|(name, edges, ends)| (*name, npy(NpyType::I64, &[*edges as usize], ends)));
    write("edge_index_dict", &ends);
    let rows = [0.5_f32, -0.001, 1.0, 2.0, 3.25, 4.0, 0.0, 7.0];
    write("node_feat_dict", &[("paper", npy(NpyType::F32, &[2], &rows))]);
    write("node_year", &[("paper", npy(NpyType::I64, &[1], &[2001_i64, 2002, 2003, 2004]))]);
    write("edge_reltype", &[("paper___cites___paper", npy(NpyType::I64, &[1], &[0_i64, 1]))]);
    write("node-label", &[("paper", npy(NpyType::F32, &[1], &[1_f32, 0.0, f32::NAN, 2.0]))]);
    for (name, text) in [("train", "3\n0\n"), ("valid", "1\n"), ("test", "2\n")] {
        place.write(&format!("archives/split/time/paper/{name}.csv.gz"), gz(text));
    }
}

#[test]
fn archives_of_a_typed_graph_give_what_its_lines_give() {
    let place = Place::new();
    benchmark(&place);
    let options = ImportOptions {
        time: Some("node_year".to_owned()),
        name: Some("mag".to_owned()),
        ..ImportOptions::default()
    };
    imported(&place, &options);
    let wanted = typed_npy::files(&place.path("out"));
    for compressed in [true, false] {
        archives(&place, compressed);
        let notes = std::cell::RefCell::new(Vec::new());
        let note = |line: &str| notes.borrow_mut().push(line.to_owned());
        let watch = ImportWatch { note: &note, ..ImportWatch::NONE };
        let _ = fs::remove_dir_all(place.path("out"));
        importer("ogb").run(&place.path("archives"), &place.path("out"), &options, &watch).unwrap();
        assert_eq!(typed_npy::files(&place.path("out")), wanted);
        let notes = notes.into_inner();
        assert!(notes.iter().any(|note| note.ends_with("raw: edge_reltype.npz is not read")), "{notes:?}");
    }
    // Narrow features keep their type.
    let rows = npy(NpyType::F16, &[1], &[0x3c00_u16, 0, 0, 0]);
    place.write("archives/raw/node_feat_dict.npz", npz(&[("paper", rows)], true));
    let _ = fs::remove_dir_all(place.path("out"));
    importer("ogb").run(&place.path("archives"), &place.path("out"), &options, &ImportWatch::NONE).unwrap();
    let dataset = TypedDataset::open(&place.path("out")).unwrap();
    assert_eq!(dataset.rows(NodeType(2)).unwrap().element, uva_graph::ElementType::F16);
}

#[test]
fn wrong_archives_are_refused_with_their_array() {
    let refusal = |archive: &str, name: &str, bytes: Vec<u8>, options: &ImportOptions| {
        let place = Place::new();
        archives(&place, true);
        place.write(&format!("archives/raw/{archive}.npz"), npz(&[(name, bytes)], true));
        place.refusal("ogb", "archives", options)
    };
    let plain = ImportOptions::default();
    let integers = |values: &[i64]| npy(NpyType::I64, &[], values);
    for (archive, name, bytes, says) in [
        (
            "num_nodes_dict",
            "paper",
            integers(&[2, 2]),
            "num_nodes_dict.npz: it counts 2 graphs, but 1 are required",
        ),
        ("num_nodes_dict", "paper", integers(&[-1]), "num_nodes_dict.npz/paper.npy: entry 0"),
        ("num_nodes_dict", "paper", integers(&[4]), "raw/num_nodes_dict.npz has no type author"),
        (
            "num_edges_dict",
            "paper___cites",
            integers(&[2]),
            "\"paper___cites\" is not SOURCE___RELATION___DESTINATION",
        ),
        (
            "edge_index_dict",
            "paper___cites___paper",
            integers(&[2]),
            "it has no array author___writes___paper",
        ),
        ("node-label", "paper", integers(&[1]), "node-label.npz/paper.npy: the shape is [1]"),
        ("node_feat_dict", "paper", integers(&[1]), "node_feat_dict.npz/paper.npy: the shape is [1]"),
    ] {
        let message = refusal(archive, name, bytes, &plain);
        assert!(message.contains(says), "{message} instead of {says}");
    }
    let ends = npy(NpyType::I64, &[3], &[2_i64, 3, 1, 3, 3, 0]);
    let message = refusal("edge_index_dict", "author___writes___paper", ends, &plain);
    assert!(message.contains("the source of edge 1, is 3, outside the ids 0 to 2"), "{message}");
    let time = ImportOptions { time: Some("node_age".to_owned()), ..plain };
    let message = refusal("other", "paper", integers(&[1]), &time);
    assert!(message.contains("`time`: ") && message.contains("node_age.npz does not exist"), "{message}");
}

#[test]
fn wrong_typed_files_are_refused_with_their_line() {
    let refusal = |file: &str, text: &str| {
        let place = Place::new();
        benchmark(&place);
        place.write(&format!("ogbn_mag/{file}.csv.gz"), gz(text));
        place.refusal("ogb", "ogbn_mag", &ImportOptions::default())
    };
    let cases = [
        (
            "raw/relations/author___writes___paper/edge",
            "2,3\n3,0\n1,0\n",
            "line 2 is '3,0': its source is 3, outside the ids 0 to 2",
        ),
        ("raw/relations/author___writes___paper/edge", "2,3\n", "it counts 1 edges, but 3 are required"),
        ("raw/node-label/paper/node-label", "1\n", "it counts 1 rows, but 4 are required"),
        ("raw/triplet-type-list", "author,writes\n", "it counts 2 names in a line, but 3 are required"),
        ("raw/triplet-type-list", "author,writes,papr\n", "has no type papr"),
        ("raw/num-node-dict", "author,paper\n3,x\n", "\"x\" is not a number of nodes"),
        ("split/time/paper/train", "4\n", "it is outside the ids 0 to 3"),
    ];
    for (file, text, says) in cases {
        let message = refusal(file, text);
        assert!(message.contains(says), "{message}");
    }
}

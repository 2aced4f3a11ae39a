//! `--from csv` and `--from parquet` of typed graphs.

use uva_graph::{NodeType, Relation, Split, TypedDataset};

use uva_io::import::Scoped;

use super::*;

fn opened(place: &Place) -> TypedDataset {
    TypedDataset::open_verified(&place.path("out"), Verify::FullWithFeatures).unwrap()
}

fn lists_of(dataset: &TypedDataset, relation: u16) -> Vec<Vec<i64>> {
    let lists = dataset.lists(Relation(relation));
    let list = |pair: &[i64]| (pair[0]..pair[1]).map(|place| lists.indices.get(place as usize)).collect();
    lists.indptr.windows(2).map(list).collect()
}

fn names_of(dataset: &TypedDataset) -> [Vec<&str>; 2] {
    let metagraph = dataset.metagraph();
    [
        metagraph.types().map(|of| metagraph.type_name(of)).collect(),
        metagraph.relations().map(|relation| metagraph.full_name(relation)).collect(),
    ]
}

/// Papers with a table, and authors that only the edges name.
fn library(place: &Place) {
    let nodes = "id,year,label,split\n10,1.5,x,train\n20,2,y,test\n30,3,,valid\n";
    place.write("graph/nodes/paper.csv", nodes);
    place.write("graph/edges/author__writes__paper.csv", "src,dst,weight\nann,20,0.5\nbob,10,1\nann,10,2\n");
    place.write("graph/edges/paper__cites__paper.csv.gz", gz("src,dst\n10,20\n20,20\n"));
}

#[test]
fn tables_of_types_and_relations_become_a_typed_graph() {
    let place = Place::new();
    library(&place);
    let options = ImportOptions { reverse: Some(Scoped::of_names(true, "writes")), ..Default::default() };
    place.notes_of("csv", "graph", &options);
    let dataset = opened(&place);
    let relations = ["author__writes__paper", "paper__cites__paper", "paper__rev_writes__author"];
    assert_eq!(names_of(&dataset), [vec!["author", "paper"], relations.to_vec()]);
    assert_eq!(lists_of(&dataset, 0), [vec![1, 0], vec![0], vec![]]);
    assert_eq!(lists_of(&dataset, 1), [vec![], vec![0, 1], vec![]]);
    assert_eq!(lists_of(&dataset, 2), [vec![0, 1], vec![0]]);
    assert_eq!(dataset.weights_of(Relation(0)), Some(&[1.0, 2.0, 0.5][..]));
    let paper = NodeType(1);
    assert_eq!((dataset.target(), dataset.rows(NodeType(0)).is_none()), (Some(paper), true));
    assert!(matches!(dataset.labels_of(paper), Labels::Single([0, 1, -1])));
    assert_eq!(dataset.meta().class_names, Some(vec!["x".to_owned(), "y".to_owned()]));
    let rows: &[f32] = bytemuck::cast_slice(dataset.rows(paper).unwrap().bytes);
    assert_eq!(rows, [1.5, 2.0, 3.0]);
    assert_eq!(Split::ALL.map(|split| dataset.split_of(paper, split)), [&[0][..], &[2], &[1]]);
    let names = fs::read_to_string(place.path("out/nodes/author/node_names.txt")).unwrap();
    assert_eq!(names, "ann\nbob\n");
    assert!(place.path("out/nodes/paper/node_id.npy").exists());
    let left = names_in(&place.path("out/edges/author__writes__paper"));
    assert_eq!(left, ["indices.npy", "indptr.npy", "weight.npy"]);
}

fn names_in(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn wrong_typed_tables_are_refused_with_type_or_relation() {
    let refused = |change: &dyn Fn(&Place), options: &ImportOptions, part: &str| {
        let place = Place::new();
        library(&place);
        change(&place);
        let message = place.refusal("csv", "graph", options);
        assert!(message.contains(part), "{message} instead of {part}");
    };
    let plain = ImportOptions::default();
    let writes = "graph/edges/author__writes__paper.csv";
    refused(
        &|place| drop(place.write(writes, "src,dst\nann,40\n")),
        &plain,
        "its destination is 40, but no node has this id: the table of paper has the ids",
    );
    refused(
        &|place| drop(place.write("graph/edges/cites.csv", "src,dst\n1,2\n")),
        &plain,
        "SOURCE__RELATION__DEST",
    );
    let unknown = |name: &str| ImportOptions {
        reverse: Some(Scoped::of_names(true, name)),
        ..ImportOptions::default()
    };
    refused(
        &|_| {},
        &unknown("wries"),
        "`reverse`: there is no relation \"wries\", did you mean \"writes\"?",
    );
    let mut column = ImportOptions::default();
    column.tables.label = Some("field".to_owned());
    refused(&|_| {}, &column, "`label`: no table of nodes has a column field");
    let dedup = ImportOptions { deduplicate: Some(true.into()), ..ImportOptions::default() };
    refused(&|_| {}, &dedup, "author__writes__paper.csv");
    let empty = |place: &Place| {
        fs::remove_dir_all(place.path("graph/edges")).unwrap();
        fs::create_dir(place.path("graph/edges")).unwrap();
    };
    refused(&empty, &plain, "has no tables (.csv");
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_tables_of_types_have_ids_and_values_of_their_own() {
    use super::parquet::{Column, edges, nodes, plain, table};

    let place = Place::new();
    place.write("graph/nodes/thing.parquet", nodes(plain()));
    place.write("graph/edges/thing__to__thing.parquet", edges(plain()));
    let made =
        "required binary src (UTF8); required int64 dst; required double weight; required float edge_attr_0;";
    let columns = [
        Column::Text(&["a", "d"], &[]),
        Column::Long(&[9, 7], &[]),
        Column::Double(&[0.5, 2.0], &[]),
        Column::Float(&[3.0, 4.0]),
    ];
    place.write("graph/edges/thing__by__maker.parquet/part-0.parquet", table(made, plain(), &[&columns]));
    place.notes("parquet", "graph");
    let dataset = opened(&place);
    let relations = vec!["thing__by__maker", "thing__to__thing"];
    assert_eq!(names_of(&dataset), [vec!["maker", "thing"], relations]);
    // d, c, b, a are 0 to 3, and makers 7 and 9 are 0 and 1.
    assert_eq!(lists_of(&dataset, 0), [vec![0], vec![3]]);
    assert_eq!(lists_of(&dataset, 1), [vec![], vec![2, 3], vec![3], vec![0]]);
    assert_eq!(dataset.weights_of(Relation(0)), Some(&[2.0, 0.5][..]));
    let rows: &[f32] = bytemuck::cast_slice(dataset.edge_rows(Relation(0)).unwrap().table.bytes);
    assert_eq!(rows, [4.0, 3.0]);
    let thing = NodeType(1);
    assert!(matches!(dataset.labels_of(thing), Labels::Single([2, -1, 0, 1])));
    assert_eq!(dataset.rows(thing).unwrap().dim, 2);
    let wrong = [Column::Long(&[1], &[]), Column::Long(&[9], &[])];
    let numbers = "required int64 src; required int64 dst;";
    place.write("graph/edges/thing__by__maker.parquet/part-0.parquet", table(numbers, plain(), &[&wrong]));
    let message = place.refusal("parquet", "graph", &ImportOptions::default());
    assert!(message.contains("it has to be text, as other ids of thing are"), "{message}");
}

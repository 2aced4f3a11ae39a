//! `--from nt`: N-Triples with labels and splits, and the graphs AIFB and MUTAG.

use std::collections::BTreeMap;

use uva_graph::csc::SelfLoops;
use uva_graph::{NodeType, Relation, Split, TypedDataset};
use uva_io::import::{LabelTables, Literals, Scoped, SplitRule};

use super::*;

const TRIPLES: &str = "# People\n<http://a/p2> <http://v#memberOf> <http://a/g1> .\n\n\
                       <http://a/p1>\t<http://v#memberOf>  _:b1 . \n_:b1 <http://v#name> \"A .\"@en .\n\
                       <http://a/p1> <http://w/name> \"7\"^^<http://x#int>.\n";

fn imported(place: &Place, name: &str, options: &ImportOptions) -> Result<TypedDataset, GraphError> {
    let out = place.path("out");
    let _ = fs::remove_dir_all(&out);
    importer("nt").run(&place.path(name), &out, options, &ImportWatch::NONE)?;
    Ok(TypedDataset::open_verified(&out, Verify::FullWithFeatures).unwrap())
}

/// Destination and source of every edge of a relation.
fn pairs(dataset: &TypedDataset, relation: u16) -> Vec<(usize, i64)> {
    let lists = dataset.lists(Relation(relation));
    let list = |node: usize| lists.indptr[node]..lists.indptr[node + 1];
    let pairs = (0..lists.nodes()).flat_map(|node| list(node).map(move |place| (node, place)));
    pairs.map(|(node, place)| (node, lists.indices.get(place as usize))).collect()
}

#[test]
fn triples_become_relations_in_the_order_of_their_iris() {
    let place = Place::new();
    place.write("graph/people.nt.gz", gz(TRIPLES));
    place.write("graph/trainingSet.tsv", "person\tid\tgroup\nhttp://a/p2\t1\tx\nhttp://a/p1\t2\ta\n");
    place.write("graph/testSet.tsv", "person\tid\tgroup\nhttp://a/g1\t3\tx\n");
    let dataset = imported(&place, "graph", &ImportOptions::default()).unwrap();
    let metagraph = dataset.metagraph();
    let relations: Vec<&str> = metagraph.relations().map(|relation| metagraph.full_name(relation)).collect();
    assert_eq!(relations, ["entity__memberOf__entity", "entity__name__entity", "entity__name-2__entity"]);
    let names = fs::read_to_string(place.path("out/nodes/entity/node_names.txt")).unwrap();
    let expected =
        ["\"7\"^^<http://x#int>", "\"A .\"@en", "<http://a/g1>", "<http://a/p1>", "<http://a/p2>", "_:b1"];
    assert_eq!(names.lines().collect::<Vec<_>>(), expected);
    assert_eq!(pairs(&dataset, 0), [(2, 4), (5, 3)]);
    assert_eq!((pairs(&dataset, 1), pairs(&dataset, 2)), (vec![(1, 5)], vec![(0, 3)]));
    let entity = NodeType::ONLY;
    assert_eq!(dataset.split_of(entity, Split::Train), [4, 3]);
    assert_eq!(dataset.split_of(entity, Split::Test), [2]);
    assert!(matches!(dataset.labels_of(entity), Labels::Single([-1, -1, 1, 0, 1, -1])));
    assert_eq!(dataset.meta().class_names, Some(vec!["a".to_owned(), "x".to_owned()]));
    let iri = &dataset.meta().typed.as_ref().unwrap().edges[2].other["source_name"];
    assert_eq!(iri, "http://w/name");
    assert_eq!(dataset.rows(entity).map(|rows| rows.rows), None);
    let reversed = ImportOptions { reverse: Some(true.into()), ..ImportOptions::default() };
    let both = imported(&place, "graph/people.nt.gz", &reversed).unwrap();
    assert_eq!((both.metagraph().relation_count(), pairs(&both, 3)), (6, vec![(3, 5), (4, 2)]));
}

#[test]
fn literals_are_dropped_with_their_triples() {
    let place = Place::new();
    place.write("graph.nt", TRIPLES);
    let literals = Some(Literals::Drop);
    let dataset = imported(&place, "graph.nt", &ImportOptions { literals, ..Default::default() }).unwrap();
    let names = fs::read_to_string(place.path("out/nodes/entity/node_names.txt")).unwrap();
    assert_eq!(names, "<http://a/g1>\n<http://a/p1>\n<http://a/p2>\n_:b1\n");
    assert_eq!((dataset.metagraph().relation_count(), pairs(&dataset, 0)), (1, vec![(0, 2), (3, 1)]));
    place.write("graph.nt", "<http://a/p1> <http://w/name> \"7\".\n");
    let message = place.refusal("nt", "graph.nt", &ImportOptions { literals, ..Default::default() });
    assert!(message.contains("has no triples"), "{message}");
}

#[test]
fn classes_come_from_a_table_and_from_named_columns() {
    let place = Place::new();
    place.write("graph/people.nt", TRIPLES);
    place.write("all.tsv", "group\tnumber\tperson\nx\t1\thttp://a/p2\na\t2\thttp://a/p1\n\n");
    let labels = |columns: Option<[&str; 2]>| {
        let columns = columns.map(|columns| columns.map(str::to_owned));
        let labels = LabelTables { file: Some(place.path("all.tsv")), columns };
        ImportOptions { labels, ..ImportOptions::default() }
    };
    let named = labels(Some(["person", "group"]));
    for source in ["graph/people.nt", "graph"] {
        let dataset = imported(&place, source, &named).unwrap();
        assert!(matches!(dataset.labels_of(NodeType::ONLY), Labels::Single([-1, -1, -1, 0, 1, -1])));
        assert!(dataset.split_of(NodeType::ONLY, Split::Train).is_empty());
    }
    // The splits name entities that the table has, and others.
    place.write("graph/trainingSet.tsv", "group\tperson\nx\thttp://a/p2\nb\thttp://a/g1\n");
    let dataset = imported(&place, "graph", &named).unwrap();
    assert!(matches!(dataset.labels_of(NodeType::ONLY), Labels::Single([-1, -1, 1, 0, 2, -1])));
    assert_eq!(dataset.split_of(NodeType::ONLY, Split::Train), [4, 2]);
    let by_rule = ImportOptions { split: SplitRule::from_text("random:0.5,0.25"), ..named.clone() };
    assert_eq!(imported(&place, "graph", &by_rule).unwrap().split_of(NodeType::ONLY, Split::Train).len(), 2);

    let refused = |options: &ImportOptions, part: &str| {
        let message = place.refusal("nt", "graph", options);
        assert!(message.contains(part), "{message}");
    };
    refused(
        &labels(Some(["person", "team"])),
        "trainingSet.tsv: line 1 is 'group\tperson': it has no column team",
    );
    refused(&labels(None), "trainingSet.tsv: line 2 is 'x\thttp://a/p2': no triple has the entity x");
    place.write("graph/trainingSet.tsv", "group\tperson\na\thttp://a/p2\n");
    refused(&named, "all.tsv: line 2 is 'x\t1\thttp://a/p2': http://a/p2 has the class x here, and a before");
    place.write("all.tsv", "person\tgroup\tnumber\nhttp://a/p2\n");
    refused(&named, "all.tsv: line 2 is 'http://a/p2': it has one column");
    place.write("all.tsv", "person\tname\tgroup\nhttp://a/p2\tme\n");
    refused(&named, "it has 2 columns, fewer than the first line");
}

#[test]
fn relations_of_triples_are_changed_by_name() {
    let place = Place::new();
    place.write("graph.nt", "<a> <k#x> <b> .\n<a> <k#x> <b> .\n<b> <k#y> <b> .\n");
    let options = ImportOptions {
        deduplicate: Some(Scoped::of_names(true, "x")),
        self_loops: Some(Scoped::of_names(SelfLoops::Remove, "y")),
        reverse: Some(Scoped::of_names(true, "x")),
        ..Default::default()
    };
    let dataset = imported(&place, "graph.nt", &options).unwrap();
    assert_eq!([0, 1, 2].map(|relation| pairs(&dataset, relation)), [vec![(1, 0)], vec![], vec![(0, 1)]]);
}

#[test]
fn wrong_lines_are_refused_with_their_number() {
    let refusal = |text: &str| {
        let place = Place::new();
        place.write("graph.nt", text);
        place.refusal("nt", "graph.nt", &ImportOptions::default())
    };
    for (text, says) in [
        ("<a> <b> <c>\n", "line 1 is '<a> <b> <c>': a triple ends with a full stop"),
        ("<a> <b> <c> .\n<a> <b> .\n", "line 2 is '<a> <b> .': a triple has three parts"),
        ("a <b> <c> .\n", "a subject is <IRI> or _:name"),
        ("<a> <b> <c> <g> .\n", "an object is <IRI>, _:name or a text in quotes"),
        ("\n# nothing\n", "has no triples"),
    ] {
        let message = refusal(text);
        assert!(message.contains(says), "{message}");
    }
    let place = Place::new();
    place.write("graph/a.nt", "<a> <b> <c> .\n");
    place.write("graph/testSet.tsv", "x\ty\nother\t1\n");
    let message = place.refusal("nt", "graph", &ImportOptions::default());
    assert!(
        message.contains("testSet.tsv: line 2 is 'other\t1': no triple has the entity other"),
        "{message}"
    );
    place.write("graph/b.nt", "<a> <b> <c> .\n");
    assert!(place.refusal("nt", "graph", &ImportOptions::default()).contains("expected one file of triples"));
}

/// Nodes, relations and edges of a published graph; its edges, read by plain code, are the relations'.
fn published(name: &str, file: &str, counts: [usize; 3], splits: [usize; 2], classes: usize) {
    let Some(source) = shared(&format!("typed/{name}")) else { return };
    let place = Place::new();
    let out = place.path("out");
    importer("nt").run(&source, &out, &ImportOptions::default(), &ImportWatch::NONE).unwrap();
    let dataset = TypedDataset::open_verified(&out, Verify::FullWithFeatures).unwrap();
    let found = [dataset.nodes(), dataset.metagraph().relation_count(), dataset.edges()];
    assert_eq!((found, dataset.classes_of(NodeType::ONLY)), (counts, classes));
    let of = |split| dataset.split_of(NodeType::ONLY, split).len();
    assert_eq!([of(Split::Train), of(Split::Test)], splits);
    let mut text = String::new();
    std::io::Read::read_to_string(
        &mut flate2::read::GzDecoder::new(fs::File::open(source.join(file)).unwrap()),
        &mut text,
    )
    .unwrap();
    let names = fs::read_to_string(out.join("nodes/entity/node_names.txt")).unwrap();
    let names: Vec<&str> = names.lines().collect();
    let mut wanted: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let mut parts = line.strip_suffix('.').unwrap().trim_end().splitn(3, ' ');
        let [subject, predicate, object] = [(); 3].map(|()| parts.next().unwrap());
        wanted.entry(predicate).or_default().push((object, subject));
    }
    for (relation, mut edges) in (0..).zip(wanted.into_values()) {
        let mut found: Vec<(&str, &str)> = pairs(&dataset, relation)
            .into_iter()
            .map(|(node, neighbour)| (names[node], names[neighbour as usize]))
            .collect();
        found.sort_unstable();
        edges.sort_unstable();
        assert!(found == edges, "relation {relation} of {name} has other edges");
    }
}

#[test]
fn aifb_and_mutag_have_their_published_numbers() {
    published("aifb", "aifb_stripped.nt.gz", [8285, 45, 29_043], [140, 36], 4);
    published("mutag", "mutag_stripped.nt.gz", [23_644, 23, 74_227], [272, 68], 2);
}

//! `--from csv`.

use proptest::prelude::*;
use uva_graph::{Meta, Split};
use uva_io::import::TableColumns;

use super::*;

const NODES: &str = "name,age,field,height,split\n\
                     carol,30,biology,1.5,train\n\
                     \"bob, jr\",41,art,2,valid\n\
                     \"al \"\"ice\"\"\",52,,-3e1,test\n\
                     007,63,biology,4,\n";

const EDGES: &str = "source,target,weight,since\r\n\
                     carol,\"bob, jr\",0.5,1999\r\n\
                     007,carol,2,2000\r\n\
                     \"al \"\"ice\"\"\",carol,3,2001\r\n";

fn labelled(column: &str) -> ImportOptions {
    let tables = TableColumns { label: Some(column.to_owned()), node_id: None };
    ImportOptions { tables, ..Default::default() }
}

fn names_of(dataset: &Dataset) -> Option<Vec<String>> {
    Meta::read(dataset.path()).unwrap().class_names
}

#[test]
fn tables_of_text_become_a_dataset_plain_and_compressed() {
    for compressed in [false, true] {
        let place = Place::new();
        // A byte order mark is not part of the first column's name.
        for (name, text) in [("nodes.csv", format!("\u{feff}{NODES}")), ("edges.csv", EDGES.to_owned())] {
            match compressed {
                true => place.write(&format!("graph/{name}.gz"), gz(&text)),
                false => place.write(&format!("graph/{name}"), text),
            };
        }
        let dataset = place.import("csv", "graph", &labelled("field")).unwrap();
        // carol, bob, alice and 007 are 0 to 3.
        assert_eq!(lists(&dataset), [vec![3, 2], vec![0], vec![], vec![]]);
        assert_eq!(dataset.weights(), Some(&[2.0, 3.0, 0.5][..]));
        let edge_features: &[f32] = bytemuck::cast_slice(dataset.edge_features().unwrap().bytes);
        assert_eq!(edge_features, [2000.0, 2001.0, 1999.0]);
        assert_eq!(floats(&dataset), [30.0, 1.5, 41.0, 2.0, 52.0, -30.0, 63.0, 4.0]);
        assert_eq!((labels(&dataset), dataset.classes()), (&[1, 0, -1, 1][..], 2));
        assert_eq!(names_of(&dataset).unwrap(), ["art", "biology"]);
        assert_eq!(Split::ALL.map(|split| dataset.split(split).to_vec()), [vec![0], vec![1], vec![2]]);
        let node_names = fs::read_to_string(place.path("out/node_names.txt")).unwrap();
        assert_eq!(node_names, "carol\nbob, jr\nal \"ice\"\n007\n");
    }
}

#[test]
fn every_column_is_read_or_named_in_a_line() {
    let place = Place::new();
    place.write("graph/nodes.csv", ",key,y,label,size,bio,empty,ID\n0,a,1,0,2.5,7,,5\n1,b,0,1,3.5,x,,6\n");
    place.write("graph/edges.csv", "from,to,kind\na,b,follows\n");
    place.write("graph/node.csv", "id\n");
    let options = ImportOptions {
        tables: TableColumns { node_id: Some("key".to_owned()), label: None },
        ..Default::default()
    };
    let notes = place.notes_of("csv", "graph", &options);
    for line in [
        "graph: node.csv is not read",
        "edges.csv: kind (text: line 2 has 'follows') is not read",
        "nodes.csv: features of the nodes are 1 column of numbers: size",
        "nodes.csv: column 1 (without a name) is not read",
        "nodes.csv: y is not read",
        "nodes.csv: bio (text: line 3 has 'x') is not read",
        "nodes.csv: empty (no values) is not read",
        "nodes.csv: ID is not read",
    ] {
        assert!(notes.iter().any(|note| note.ends_with(line)), "{line}: {notes:?}");
    }
    // Columns by their place.
    place.write("plain/nodes.csv", "who,size\na,1\nb,2\n");
    place.write("plain/edges.csv", "x,y\na,b\n");
    let notes = place.notes("csv", "plain");
    for part in
        ["the first two columns, x and y, are source and destination", "the first column, who, has the ids"]
    {
        assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:?}");
    }
}

#[test]
fn integer_ids_are_numbers_and_other_ids_are_names() {
    let place = Place::new();
    place.write("graph/nodes.csv", "Id,x\n20,1\n-3,2\n");
    place.write("graph/edges.csv", "src,dst\n20, -3\n\n");
    let dataset = place.import("csv", "graph", &ImportOptions::default()).unwrap();
    assert_eq!(lists(&dataset), [vec![], vec![0]]);
    assert!(place.path("out/node_id.npy").exists());
    // Leading zeros are part of a name: 07 and 7 are two nodes.
    place.write("graph/nodes.csv", "Id,x\n07,1\n7,2\n");
    place.write("graph/edges.csv", "src,dst\n7,07\n");
    let dataset = place.import("csv", "graph", &ImportOptions::default()).unwrap();
    assert_eq!(lists(&dataset), [vec![1], vec![]]);
    // Without a table of nodes they are the ids that occur.
    place.write("edges.csv", "src,dst\n5,a\na,7\n");
    assert_eq!(
        lists(&place.import("csv", "edges.csv", &ImportOptions::default()).unwrap()),
        [vec![], vec![0], vec![1]]
    );
}

#[test]
fn what_does_not_fit_is_refused_with_file_line_and_column() {
    let nodes = "id,x,label\na,1,0\nb,2,1\n";
    let cases: &[(&str, &str, &str)] = &[
        (
            nodes,
            "src,dst\na,b\na,c\n",
            "edges.csv: line 3, column dst: its destination is 'c', but no node has this name",
        ),
        (nodes, "src,dst\n\na,\n", "edges.csv: line 3, column dst: the id is missing"),
        (nodes, "src,dst\na,b\nb\n", "edges.csv: line 3: it has 1 fields and the header 2"),
        (nodes, "src,dst\na,b,\n", "edges.csv: line 2: it has 3 fields and the header 2"),
        (nodes, "src,dst\n\"a,b\n", "edges.csv: line 2: a field has an opening quote without a closing one"),
        (nodes, "src,dst\n\"a\"b,b\n", "edges.csv: line 2: it has text after the closing quote"),
        (nodes, "src,dst,weight\na,b,heavy\n", "column weight: its type is text: line 2 has 'heavy'"),
        (nodes, "src,dst,weight\na,b,1\na,b,\n", "line 3, column weight: the weight is missing"),
        (nodes, "src,dst,src\na,b,a\n", "edges.csv: line 1: two columns are called 'src'"),
        (nodes, "0,1\n1,2\n", "edges.csv: line 1: it has numbers: the first line must name the columns"),
        (nodes, "src;dst\na;b\n", "columns are separated by commas, not by ';'"),
        (
            nodes,
            "src,age\na,1\n",
            "it has no column dst or destination or target or dst_id or to: it has src, age",
        ),
        (nodes, "", "edges.csv: line 1: it is empty"),
        ("id,x\na,1\na,2\n", "src,dst\n", "nodes.csv: line 3, column id: 'a' is the id of an earlier node"),
        (
            "id,x\n1,1\n2,2\n",
            "src,dst\n1,2\n1,two\n",
            "edges.csv: line 3, column dst: 'two' is not an integer",
        ),
        // A quoted end of line: rows are not lines.
        (
            "id,note,x\na,\"1\n2\",1\nb,,\n",
            "src,dst\n",
            "nodes.csv: line 4, column x: the feature is missing",
        ),
        (
            "id,x\na,1\nb,nan\n",
            "src,dst\n",
            "nodes.csv/x: row 1, column 0, is NaN: features have to be finite",
        ),
        ("id,x,y\na,1,0.5\n", "src,dst\n", "nodes.csv: line 2, column y: invalid class"),
        (
            "id,x,split\na,1,training\n",
            "src,dst\n",
            "nodes.csv: line 2, column split: invalid split 'training'",
        ),
        ("id,x\n\u{e9},1\n", "src,dst\n\u{e8},a\n", "its source is 'è', but no node has this name"),
    ];
    for (nodes, edges, part) in cases {
        let place = Place::new();
        place.write("graph/nodes.csv", nodes);
        place.write("graph/edges.csv", edges);
        let message = place.refusal("csv", "graph", &ImportOptions::default());
        assert!(message.contains(part), "{message} instead of {part}");
    }
    let place = Place::new();
    place.write("graph/nodes.csv", b"id,x\n\xe9,1\n");
    place.write("graph/edges.csv", "src,dst\n");
    assert!(
        place
            .refusal("csv", "graph", &ImportOptions::default())
            .contains("nodes.csv: line 2: it is not UTF-8")
    );
    place.write("graph/nodes.csv", nodes);
    let message = place.refusal("csv", "graph", &labelled("field"));
    assert!(
        message.contains("`label`: ") && message.contains("no column field: it has id, x, label"),
        "{message}"
    );
    let regression = ImportOptions { regression: Some(true.into()), ..labelled("id") };
    let message = place.refusal("csv", "graph", &regression);
    assert!(message.contains("column id: its type is text: line 2 has 'a'"), "{message}");
    place.write("graph/nodes.csv.gz", gz(nodes));
    assert!(place.refusal("csv", "graph", &ImportOptions::default()).contains("remove one"));
}

#[test]
fn names_of_classes_come_back_from_every_export() {
    let place = Place::new();
    place.write("graph/nodes.csv", NODES);
    place.write("graph/edges.csv", EDGES);
    let dataset = place.import("csv", "graph", &labelled("field")).unwrap();
    for exporter in uva_io::export::EXPORTERS {
        let out = place.path(exporter.name);
        let no = |_: &str| ();
        exporter.run(&dataset, &out, Default::default(), &|_| {}, &no).unwrap();
        let from = importer(exporter.name);
        let back = place.path(&format!("{}-back", exporter.name));
        let mut options = ImportOptions::default();
        if exporter.name == "edgelist" {
            options.edge_list.ids = uva_io::import::Ids::Name;
            options.edge_list.third_column = Some(uva_io::import::ThirdColumn::Weight);
            options.edge_list.separator = uva_io::import::Separator::from_text("tab");
        }
        from.run(&out, &back, &options, &ImportWatch::NONE).unwrap();
        let back = Dataset::open_verified(&back, Verify::FullWithFeatures).unwrap();
        assert_eq!(names_of(&back).unwrap(), ["art", "biology"], "{}", exporter.name);
    }
}

#[test]
fn another_number_of_names_than_of_classes_is_refused() {
    let place = Place::new();
    place.write("graph/nodes.csv", NODES);
    place.write("graph/edges.csv", EDGES);
    place.import("csv", "graph", &labelled("field")).unwrap();
    let meta = fs::read_to_string(place.path("out/meta.json")).unwrap();
    place.write("out/meta.json", meta.replace("\"art\",", ""));
    let message = Dataset::open(&place.path("out")).unwrap_err().to_string();
    assert!(message.contains("\"class_names\" has 1 names, but there are 2 classes"), "{message}");
}

/// A field with quotes, or without if they are not needed.
fn field(text: &str, quoted: bool) -> String {
    match quoted || text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The content of a table is restored: names, features, names of classes, edges and weights.
    #[test]
    fn what_is_in_the_tables_comes_back(
        nodes in proptest::collection::btree_map("[ a-c,\"0é\n]{1,4}x", ("[a-c ,\"]{0,2}", any::<i16>(), any::<bool>()), 1..8),
        pairs in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<i16>()), 0..12),
    ) {
        // Names of nodes are stored one per line.
        let nodes: Vec<(String, (String, i16, bool))> =
            nodes.into_iter().filter(|(name, _)| !name.contains('\n')).collect();
        prop_assume!(!nodes.is_empty());
        let place = Place::new();
        let mut text = "id,class,size\r\n".to_owned();
        for (name, (class, size, quoted)) in &nodes {
            let size = f32::from(*size) / 8.0;
            text += &format!("{},{},{size}\r\n", field(name, *quoted), field(class, *quoted));
        }
        place.write("graph/nodes.csv", text);
        let edges: Vec<(usize, usize, f32)> = pairs
            .iter()
            .map(|(from, to, weight)| (from.index(nodes.len()), to.index(nodes.len()), f32::from(*weight) / 4.0))
            .collect();
        let mut text = "src,dst,weight\n".to_owned();
        for (from, to, weight) in &edges {
            text += &format!("{},{},{weight}\n", field(&nodes[*from].0, false), field(&nodes[*to].0, true));
        }
        place.write("graph/edges.csv", text);
        if edges.is_empty() {
            // A column of weights without a value has no type.
            place.write("graph/edges.csv", "src,dst\n");
        }
        let dataset = place.import("csv", "graph", &ImportOptions::default()).unwrap();
        let names = fs::read_to_string(place.path("out/node_names.txt")).unwrap();
        prop_assert!(names.strip_suffix("\n").unwrap().split('\n').eq(nodes.iter().map(|(name, _)| name.as_str())));
        let sizes: Vec<f32> = nodes.iter().map(|(_, (_, size, _))| f32::from(*size) / 8.0).collect();
        prop_assert_eq!(floats(&dataset), sizes);
        let classes = names_of(&dataset).unwrap_or_default();
        let class = |label: i64| usize::try_from(label).map_or("", |label| classes[label].as_str());
        let found: Vec<&str> = labels(&dataset).iter().map(|&label| class(label)).collect();
        // Blanks alone are not a name.
        let written = |class: &str| if class.trim().is_empty() { String::new() } else { class.to_owned() };
        prop_assert!(found.iter().copied().eq(nodes.iter().map(|(_, (class, ..))| written(class))));
        prop_assert!(classes.is_sorted());
        let mut expected: Vec<Vec<(i64, f32)>> = vec![Vec::new(); nodes.len()];
        edges.iter().for_each(|&(from, to, weight)| expected[to].push((from as i64, weight)));
        let mut weights = dataset.weights().unwrap_or_default().iter().copied();
        let found: Vec<Vec<(i64, f32)>> = lists(&dataset)
            .into_iter()
            .map(|list| list.into_iter().map(|from| (from, weights.next().unwrap_or(0.0))).collect())
            .collect();
        prop_assert_eq!(found, expected);
    }
}

//! Generated sources: an import equals its source or is refused, and each omission has a message.

use std::collections::BTreeSet;

use proptest::prelude::*;
use uva_io::import::{EdgeList, Ids, Separator};

use super::*;

/// Names of nodes: words that look like something else, and pieces of them.
fn name() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "a", "b", "source", "target", "#", "%x", "Smith, J", "New York", "x\ty", "p|q", "a;b", "\"", "5\"",
        "\"a\"", "1", "-2", "Zürich", " ", "\u{a0}", "--", "\\", "",
    ]);
    prop::collection::vec(words, 1..3).prop_map(|words| words.concat())
}

/// A column as RFC 4180 quotes it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn edges_of(place: &Place, dataset: &Dataset) -> Vec<(String, String)> {
    let names = fs::read_to_string(place.path("out/node_names.txt")).unwrap();
    let names: Vec<&str> = names.split('\n').collect();
    let lists = lists(dataset).into_iter().enumerate();
    let mut edges: Vec<(String, String)> = lists
        .flat_map(|(to, list)| list.into_iter().map(move |from| (from as usize, to)))
        .map(|(from, to)| (names[from].to_owned(), names[to].to_owned()))
        .collect();
    edges.sort_unstable();
    edges
}

/// Imports a list of names, and compares the result with the edges of the list. A message must name each missing edge.
fn check_names(
    text: &str,
    edges: &[(String, String)],
    separator: Option<Separator>,
) -> Result<(), TestCaseError> {
    let place = Place::new();
    place.write("graph.txt", text);
    let edge_list = EdgeList { ids: Ids::Name, separator, ..EdgeList::default() };
    let options = ImportOptions { edge_list, ..ImportOptions::default() };
    let dataset = match place.import("edgelist", "graph.txt", &options) {
        Ok(dataset) => dataset,
        Err(error) => {
            prop_assert!(error.is_bad_input() && error.to_string().contains("graph.txt"), "{error}");
            return Ok(());
        }
    };
    let mut wanted = edges.to_vec();
    wanted.sort_unstable();
    let found = edges_of(&place, &dataset);
    if found != wanted {
        let missing: Vec<_> = wanted.iter().filter(|edge| !found.contains(edge)).collect();
        let notes = place.notes_of("edgelist", "graph.txt", &options);
        let said = notes.iter().any(|note| note.contains("as a header") || note.contains("comment"));
        let only_fewer = found.iter().all(|edge| wanted.contains(edge));
        prop_assert!(
            only_fewer && said,
            "{text:?}: {missing:?} are missing, {found:?} found, said {notes:?}"
        );
    }
    Ok(())
}

/// A small dataset with all that a dataset may have.
#[derive(Debug, Clone)]
struct Kind {
    nodes: usize,
    edges: usize,
    seed: u64,
    features: NpyType,
    labels: u8,
    weights: bool,
    edge_features: Option<NpyType>,
    edge_types: bool,
    ids: u8,
    original_ids: bool,
}

fn kind() -> impl Strategy<Value = Kind> {
    let types = vec![NpyType::F32, NpyType::F16, NpyType::U8, NpyType::I8];
    let of_edges = prop::option::of(prop::sample::select(types.clone()));
    (
        1_usize..7,
        0_usize..12,
        any::<u64>(),
        prop::sample::select(types),
        0_u8..6,
        any::<bool>(),
        of_edges,
        0_u8..4,
        any::<[bool; 2]>(),
    )
        .prop_map(|(nodes, edges, seed, features, labels, weights, edge_features, ids, both)| {
            let [edge_types, original_ids] = both;
            Kind {
                nodes,
                edges,
                seed,
                features,
                labels,
                weights,
                edge_features,
                edge_types,
                ids,
                original_ids,
            }
        })
}

impl Kind {
    fn random(&self, at: usize) -> u64 {
        uva_graph::mix(self.seed ^ uva_graph::mix(at as u64))
    }

    /// Writes a table with this many finite values of a type.
    fn table(&self, place: &Place, name: &str, kind: NpyType, rows: usize, columns: usize) {
        let bytes: Vec<u8> =
            (0..rows * columns * kind.bytes()).map(|at| self.random(at + 1000) as u8 & 0x3f).collect();
        match kind.bytes() {
            1 => place.npy(name, kind, &[columns], &bytes),
            2 => place.npy(
                name,
                kind,
                &[columns],
                &bytes.as_chunks::<2>().0.iter().map(|&two| u16::from_le_bytes(two)).collect::<Vec<_>>(),
            ),
            _ => place.npy(
                name,
                kind,
                &[columns],
                &bytes.as_chunks::<4>().0.iter().map(|&four| u32::from_le_bytes(four)).collect::<Vec<_>>(),
            ),
        }
    }

    /// Writes its arrays into `source`, edges as a list, and returns the edges.
    fn write(&self, place: &Place) -> Vec<(i64, i64)> {
        let nodes = self.nodes as u64;
        let edges: Vec<(i64, i64)> = (0..self.edges)
            .map(|at| ((self.random(2 * at) % nodes) as i64, (self.random(2 * at + 1) % nodes) as i64))
            .collect();
        let (from, to): (Vec<i64>, Vec<i64>) = edges.iter().copied().unzip();
        place.npy("source/src.npy", NpyType::I64, &[], &from);
        place.npy("source/dst.npy", NpyType::I64, &[], &to);
        self.table(place, "source/feat.npy", self.features, self.nodes, 3);
        if let Some(kind) = self.edge_features {
            self.table(place, "source/edge_feat.npy", kind, self.edges, 2);
        }
        if self.weights {
            let weights: Vec<f32> = (0..self.edges).map(|at| self.random(at) as f32 / 1e19 - 0.5).collect();
            place.npy("source/weight.npy", NpyType::F32, &[], &weights);
        }
        if self.edge_types {
            let types: Vec<i64> = (0..self.edges).map(|at| self.random(at) as i64 & 0xffff).collect();
            place.npy("source/edge_type.npy", NpyType::I64, &[], &types);
        }
        let many: Vec<u8> = (0..3 * self.nodes).map(|at| self.random(at) as u8 & 1).collect();
        let label = "source/label.npy";
        match self.labels {
            0 => {}
            1 => place.npy(
                label,
                NpyType::I64,
                &[],
                &(0..nodes as i64).map(|node| node % 3 - 1).collect::<Vec<_>>(),
            ),
            2 => place.npy(label, NpyType::U8, &[3], &many),
            3 => place.npy(label, NpyType::F32, &[], &(0..nodes).map(|node| node as f32).collect::<Vec<_>>()),
            4 => place.npy(
                label,
                NpyType::F32,
                &[3],
                &many.iter().map(|&mark| f32::from(mark)).collect::<Vec<_>>(),
            ),
            _ => place.npy(
                label,
                NpyType::F32,
                &[1],
                &(0..nodes).map(|node| node as f32 + 0.5).collect::<Vec<_>>(),
            ),
        }
        for (at, split) in ["train", "valid", "test"].into_iter().enumerate() {
            let ids: Vec<i64> =
                (0..nodes as i64).filter(|&node| self.random(node as usize + 7) % 4 == at as u64).collect();
            place.npy(&format!("source/{split}_idx.npy"), NpyType::I64, &[], &ids);
        }
        if self.ids & 1 == 1 {
            let ids: Vec<i64> = (0..nodes as i64).map(|node| 100 - 7 * node).collect();
            place.npy("source/node_id.npy", NpyType::I64, &[], &ids);
        }
        if self.ids & 2 == 2 {
            let names = ["#a", "source", "x\ty", "\"q\"", " b ", "Smith, J", "ü"];
            place.write("source/node_names.txt", names[..self.nodes].join("\n") + "\n");
        }
        if self.original_ids {
            place.npy("source/orig_id.npy", NpyType::I64, &[], &(0..nodes as i64).rev().collect::<Vec<_>>());
        }
        place.write("source/meta.json", r#"{"name": "x", "mine": [1]}"#);
        edges
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn edge_lists_of_any_names_and_separators_are_read_or_refused(
        names in prop::collection::vec((name(), name()), 1..6),
        separator in prop::sample::select(vec!["\t", ",", ";", "|", " "]),
        quotes in any::<bool>(),
        given in any::<bool>(),
    ) {
        let written = |name: &String| if quotes { quoted(name) } else { name.clone() };
        let bad = |name: &String| {
            let raw = name.trim() != name || name.contains(separator) || name.contains('"') || name.contains('\t');
            name.is_empty() || (!quotes && (raw || (separator == " " && name.contains(char::is_whitespace))))
        };
        let edges: Vec<(String, String)> =
            names.into_iter().filter(|(from, to)| !bad(from) && !bad(to)).collect();
        let text: String =
            edges.iter().map(|(from, to)| format!("{}{separator}{}\n", written(from), written(to))).collect();
        let given = given.then(|| Separator::from_text(separator).unwrap());
        check_names(&text, &edges, given)?;
    }

    #[test]
    fn datasets_come_back_from_every_target(kind in kind()) {
        let place = Place::new();
        let edges = kind.write(&place);
        let options = ImportOptions { regression: (kind.labels > 2).then(|| true.into()), ..ImportOptions::default() };
        let notes = place.notes_of("npy", "source", &options);
        let dataset = place.import("npy", "source", &options).unwrap();
        // All edges of the source, and no others.
        let mut wanted: Vec<Vec<i64>> = vec![Vec::new(); kind.nodes];
        edges.iter().for_each(|&(from, to)| wanted[to as usize].push(from));
        prop_assert_eq!(lists(&dataset), wanted);
        let graph: BTreeSet<String> = ["src.npy", "dst.npy"].map(str::to_owned).into();
        for name in names(&place.path("source")).into_iter().filter(|name| !graph.contains(name)) {
            let (before, after) = (fs::read(place.path("source").join(&name)), fs::read(place.path("out").join(&name)));
            let moved = ["weight.npy", "edge_feat.npy", "edge_type.npy", "meta.json"].contains(&name.as_str());
            prop_assert!(moved || before.unwrap() == after.unwrap(), "{} differs, said {:?}", name, notes);
        }
        // Rows and weights follow their edges.
        let mut order: Vec<usize> = (0..kind.edges).collect();
        order.sort_by_key(|&edge| edges[edge].1);
        if let (Some(element), Some(table)) = (kind.edge_features, dataset.edge_features()) {
            let row_bytes = 2 * element.bytes();
            let source = fs::read(place.path("source/edge_feat.npy")).unwrap();
            let rows = &source[source.len() - kind.edges * row_bytes..];
            let wanted: Vec<u8> =
                order.iter().flat_map(|&edge| rows[edge * row_bytes..][..row_bytes].to_vec()).collect();
            prop_assert_eq!(table.bytes, &wanted[..]);
        }
        let types: Vec<u16> = order.iter().map(|&edge| kind.random(edge) as u16).collect();
        prop_assert_eq!(dataset.edge_types(), kind.edge_types.then_some(&types[..]));
        drop(dataset);
        fs::rename(place.path("out"), place.path("dataset")).unwrap();
        for exporter in uva_io::export::EXPORTERS {
            let said = export::there_and_back(&place, &place.path("dataset"), exporter.name, false);
            let lost = kind.edge_types && exporter.name == "graphbolt";
            prop_assert_eq!(said, if lost { vec!["edge_type.npy is not exported"] } else { Vec::new() });
        }
    }
}

#[cfg(feature = "parquet")]
proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn parquet_columns_are_features_in_order_or_named_in_a_line(
        numbers in prop::collection::btree_set(0_u32..120, 1..6),
        width in 0_usize..4,
        stem in prop::sample::select(vec!["feat_", "x", "node_feat_", "features."]),
        others in prop::collection::btree_set("[g-m]{2,5}", 0..3),
        shuffle in any::<u64>(),
    ) {
        let mut columns: Vec<(String, Option<u32>)> =
            numbers.iter().map(|&number| (format!("{stem}{number:0width$}"), Some(number))).collect();
        columns.extend(others.iter().map(|name| (name.clone(), None)));
        columns.sort_by_key(|(name, _)| uva_graph::mix(shuffle ^ name.len() as u64 ^ u64::from(name.as_bytes()[name.len() - 1])));
        let place = Place::new();
        place.write("graph/edges.parquet", parquet::numbered("required int64 src; required int64 dst;", &[]));
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        place.write("graph/nodes.parquet", parquet::numbered("required int64 id;", &names));
        let dataset = place.import("parquet", "graph", &ImportOptions::default()).unwrap();
        let mut order: Vec<(u32, usize)> =
            columns.iter().enumerate().filter_map(|(at, (_, number))| Some(((*number)?, at))).collect();
        order.sort_unstable();
        let row: Vec<f32> = order.iter().map(|&(_, at)| at as f32).collect();
        prop_assert_eq!(&floats(&dataset)[..row.len()], &row[..]);
        let notes = place.notes("parquet", "graph");
        for name in &others {
            let line = format!("nodes.parquet: {name} is not read");
            prop_assert!(notes.iter().any(|note| note.ends_with(&line)), "{} in {:?}", name, notes);
        }
    }
}

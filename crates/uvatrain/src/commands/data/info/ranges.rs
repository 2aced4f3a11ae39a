//! The contents of the graph, or of one part, in a partition with ranges.

use std::path::Path;

use serde::Serialize;
use uva_graph::ranges::{RangeGraph, RangeRows};
use uva_graph::{RangesOf, Split, Verify};
use uva_runtime::spec::ByteSize;

use crate::flags::data::InfoFlags;
use crate::ui::table::TextTable;
use crate::ui::{format, out};

/// The kind and the contents of the directory.
#[derive(Serialize)]
struct Facts {
    /// `range_graph` or `range_part`.
    kind: &'static str,
    path: String,
    ranges: RangesOf,
    /// Whether all edges, or all feature values, were checked.
    verified: bool,
    #[serde(flatten)]
    content: Content,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content {
    Graph { nodes: usize, edges: usize, classes: usize, splits: [usize; 3], bytes: u64 },
    Part { rows: usize, feature_dim: usize, feature_type: &'static str, edge_rows: Option<usize>, bytes: u64 },
}

/// Opens the directory, checks it, and prints its contents.
pub fn run(flags: &InfoFlags, of: &RangesOf) -> anyhow::Result<()> {
    let path: &Path = &flags.data;
    let content = match of.part {
        None => {
            let how = if flags.verify { Verify::Full } else { Verify::Stamp };
            let graph = RangeGraph::open(path, how)?;
            let (csc, labels) = (graph.csc(), graph.labels());
            let splits = Split::ALL.map(|split| graph.split(split).len());
            let bytes = 8 * (csc.indptr.len() + csc.nodes() + splits.iter().sum::<usize>())
                + csc.edges() * csc.indices.id_bytes()
                + graph.edge_value_bytes()
                + labels.bytes().len();
            let (nodes, edges, classes) = (csc.nodes(), csc.edges(), graph.classes());
            Content::Graph { nodes, edges, classes, splits, bytes: bytes as u64 }
        }
        Some(_) => {
            let part = RangeRows::open(path)?;
            if flags.verify {
                part.check_finite()?;
            }
            let (features, edges) = (part.features(), part.edge_features());
            let bytes = features.bytes.len() + edges.map_or(0, |table| table.bytes.len());
            Content::Part {
                rows: features.rows,
                feature_dim: features.dim,
                feature_type: features.element.name(),
                edge_rows: edges.map(|table| table.rows),
                bytes: bytes as u64,
            }
        }
    };
    let kind = if of.part.is_none() { "range_graph" } else { "range_part" };
    let path = path.display().to_string();
    let facts = Facts { kind, path, ranges: of.clone(), verified: flags.verify, content };
    if flags.json { out::json(&facts) } else { out::text(&facts.table()) }
}

impl Facts {
    fn table(&self) -> String {
        let mut table = TextTable::of_facts();
        let mut fact = |name: &str, value: String| table.row(&[name.to_owned(), value]);
        let count = |n: usize| format::count(n as u64);
        let RangesOf { part, parts, first, nodes, dataset, fingerprint, .. } = &self.ranges;
        match part {
            None => fact("graph", format!("of {dataset} in {parts} parts in ranges ({})", self.path)),
            Some(part) => {
                fact(
                    "part",
                    format!("{part} of 0 to {}, of {dataset} ({})", parts.saturating_sub(1), self.path),
                );
                fact(
                    "ids",
                    format!(
                        "{} up to {}, without that one",
                        format::count(*first),
                        format::count(first.saturating_add(*nodes))
                    ),
                );
            }
        }
        let size = match &self.content {
            Content::Graph { nodes, edges, classes, splits, bytes } => {
                fact("nodes", count(*nodes));
                fact("edges", count(*edges));
                fact("classes", classes.to_string());
                for (name, nodes) in ["train", "validation", "test"].into_iter().zip(splits) {
                    fact(name, format!("{} nodes", count(*nodes)));
                }
                fact("features", "none here: each part has those of its own ids".to_owned());
                *bytes
            }
            Content::Part { rows, feature_dim, feature_type, edge_rows, bytes } => {
                fact("features", format!("{} rows of {feature_dim} × {feature_type}", count(*rows)));
                if let Some(rows) = edge_rows {
                    fact("edge features", format!("{} rows", count(*rows)));
                }
                *bytes
            }
        };
        fact("in memory", ByteSize::from_bytes(size).to_string());
        fact("divided from", format!("{dataset} (fingerprint {fingerprint})"));
        let checked = match (self.verified, part) {
            (true, None) => "edges, labels and splits",
            (true, Some(_)) => "shapes, and that values are finite; hashes: info --verify of the partition",
            (false, _) => "shapes and sizes; the rest: info --verify, also of the partition",
        };
        fact("checked", checked.to_owned());
        table.render()
    }
}

//! `uvatrain info`: the contents of a dataset, a typed dataset, a hop set or a partition.

mod checks;
mod degrees;
mod hop_set;
mod partition;
mod ranges;
mod typed;

use serde::Serialize;
use uva_files::quote::listed;
use uva_graph::partition_map::is_partition;
use uva_graph::{Dataset, Labels, Meta, PartOf, RandomFile, Split, Verification, Verify};
use uva_mem::FileInMemory;

use self::checks::checked;
use self::degrees::ListLengths;
use crate::exit;
use crate::flags::data::InfoFlags;
use crate::ui::table::TextTable;
use crate::ui::{format, out};
use uva_runtime::spec::ByteSize;

/// Opens the dataset, hop set or partition, checks it, and prints its contents.
pub fn run(flags: &InfoFlags) -> anyhow::Result<()> {
    if let Some(shown) = hop_set::run(flags) {
        return shown;
    }
    if is_partition(&flags.data) {
        return partition::run(flags);
    }
    if flags.source.is_some() {
        let message = "--source: only valid with a partition, whose parts are compared with it";
        return Err(exit::usage(message).into());
    }
    if flags.data.is_dir() {
        let meta = Meta::read(&flags.data)?;
        if let Some(of) = &meta.ranges {
            return ranges::run(flags, of);
        }
        if meta.typed.is_some() {
            return typed::run(flags);
        }
    }
    let how = if flags.verify { Verify::FullWithFeatures } else { Verify::Stamp };
    let dataset = Dataset::open_verified(&flags.data, how)?;
    let facts = Facts::of(&dataset);
    if flags.json { out::json(&facts) } else { out::text(&facts.table()) }
}

/// The whole output of `info`, in the shape of its JSON.
#[derive(Serialize)]
struct Facts {
    name: String,
    path: String,
    nodes: usize,
    edges: usize,
    average_degree: f64,
    max_degree: i64,
    isolated_nodes: usize,
    reordered: bool,
    /// The part of a partitioned dataset that this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<PartOf>,
    feature_dim: usize,
    feature_type: &'static str,
    feature_row_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    edge_features: Option<EdgeFeatures>,
    /// Edge types: the largest + 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    edge_types: Option<usize>,
    classes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    class_names: Option<Vec<String>>,
    multi_label: bool,
    labelled_nodes: usize,
    /// Numbers to predict for a node, for regression.
    #[serde(skip_serializing_if = "Option::is_none")]
    target_columns: Option<usize>,
    /// Whether there are labels at all.
    #[serde(skip)]
    has_labels: bool,
    splits: Splits,
    /// Splits with nodes in common.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    overlaps: Vec<OverlapFacts>,
    /// Bytes of the arrays in memory once read.
    memory_bytes: u64,
    graph_bytes: u64,
    feature_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    licence: Option<String>,
    /// The files that batches read in random order.
    files_in_memory: Vec<InMemory>,
    fingerprint: String,
    verification: Verification,
}

#[derive(Serialize)]
struct EdgeFeatures {
    dim: usize,
    #[serde(rename = "type")]
    element: &'static str,
    row_bytes: usize,
    bytes: u64,
}

#[derive(Serialize)]
struct Splits {
    train: usize,
    valid: usize,
    test: usize,
}

/// The part of a file that is in memory.
#[derive(Serialize)]
struct InMemory {
    file: String,
    share: f64,
    /// The fraction of it on 2 MiB pages.
    huge_share: Option<f64>,
}

#[derive(Serialize)]
struct OverlapFacts {
    splits: [&'static str; 2],
    nodes: usize,
    #[serde(skip)]
    line: String,
}

impl InMemory {
    /// `None` if the system does not report it.
    fn of(random: &RandomFile<'_>) -> Option<Self> {
        let FileInMemory { share, huge_share } = random.file.in_memory().ok()?;
        Some(Self { file: random.name(), share, huge_share })
    }

    fn line(&self) -> String {
        let huge = self.huge_share.map(|huge| format!(", {} on 2 MiB pages", format::percent(huge)));
        format!("{}: {}{}", self.file, format::percent(self.share), huge.unwrap_or_default())
    }
}

impl Facts {
    fn of(dataset: &Dataset) -> Facts {
        let (csc, features, labels) = (dataset.csc(), dataset.features(), dataset.labels());
        let degrees = ListLengths::of(csc);
        let graph_bytes = csc.indptr.len() as u64 * 8
            + csc.edges() as u64 * csc.indices.id_bytes() as u64
            + csc.original_ids.map_or(0, |ids| ids.len() as u64 * 8)
            + csc.degrees.map_or(0, |degrees| degrees.len() as u64 * 4);
        let feature_bytes = features.bytes.len() as u64;
        let edge_features = dataset.edge_features().map(|table| EdgeFeatures {
            dim: table.dim,
            element: table.element.name(),
            row_bytes: table.row_bytes(),
            bytes: table.bytes.len() as u64,
        });
        let edge_feature_bytes = edge_features.as_ref().map_or(0, |table| table.bytes);
        let edge_types = dataset
            .edge_types()
            .map(|types| types.iter().max().map_or(0, |&largest| usize::from(largest) + 1));
        let split_nodes: usize = Split::ALL.iter().map(|split| dataset.split(*split).len()).sum();
        let (multi_label, labelled_nodes) = match labels {
            Labels::Absent => (false, 0),
            Labels::Single(values) => (false, values.iter().filter(|label| **label >= 0).count()),
            Labels::Multi { .. } => (true, dataset.nodes()),
            Labels::Regression { .. } => (false, dataset.nodes()),
        };
        Facts {
            name: dataset.name().to_owned(),
            path: dataset.path().display().to_string(),
            nodes: dataset.nodes(),
            edges: dataset.edges(),
            average_degree: dataset.edges() as f64 / dataset.nodes().max(1) as f64,
            max_degree: degrees.max,
            isolated_nodes: degrees.isolated,
            reordered: csc.original_ids.is_some() && dataset.part().is_none(),
            part: dataset.part().cloned(),
            feature_dim: features.dim,
            feature_type: features.element.name(),
            feature_row_bytes: features.row_bytes(),
            edge_features,
            edge_types,
            classes: dataset.classes(),
            class_names: dataset.meta().class_names.clone(),
            multi_label,
            labelled_nodes,
            target_columns: labels.regression_columns(),
            has_labels: labels.are_there(),
            splits: Splits {
                train: dataset.split(Split::Train).len(),
                valid: dataset.split(Split::Valid).len(),
                test: dataset.split(Split::Test).len(),
            },
            overlaps: (dataset.overlaps().iter())
                .map(|overlap| OverlapFacts {
                    splits: overlap.splits.map(Split::name),
                    nodes: overlap.nodes,
                    line: overlap.to_string(),
                })
                .collect(),
            memory_bytes: graph_bytes
                + feature_bytes
                + edge_feature_bytes
                + dataset.edge_types().map_or(0, size_of_val) as u64
                + labels.bytes().len() as u64
                + split_nodes as u64 * 8,
            graph_bytes,
            feature_bytes,
            licence: dataset.meta().licence.clone(),
            files_in_memory: dataset.random_files().iter().filter_map(InMemory::of).collect(),
            fingerprint: dataset.fingerprint(),
            verification: dataset.verification().clone(),
        }
    }

    fn table(&self) -> String {
        let mut table = TextTable::of_facts();
        let mut fact = |name: &str, value: String| table.row(&[name.to_owned(), value]);
        let count = |n: usize| format::count(n as u64);
        let share = |n: usize| format::percent(n as f64 / self.nodes.max(1) as f64);
        let size = |bytes: u64| ByteSize::from_bytes(bytes).to_string();
        fact("dataset", format!("{} ({})", self.name, self.path));
        fact("nodes", count(self.nodes));
        fact("edges", format!("{} (an undirected edge counts twice)", count(self.edges)));
        fact(
            "in-degree",
            format!(
                "{:.1} on average, {} at most",
                self.average_degree,
                format::count(self.max_degree as u64)
            ),
        );
        fact(
            "isolated",
            format!(
                "{} nodes ({}) without in-neighbours",
                count(self.isolated_nodes),
                share(self.isolated_nodes)
            ),
        );
        if self.reordered {
            fact("order", "reordered; the original ids are kept".to_owned());
        }
        if let Some(part) = &self.part {
            let PartOf { number, parts, hops, method, halo, dataset, fingerprint, .. } = part;
            fact(
                "part",
                format!(
                    "{number} of 0 to {}, whole within {hops} in-hops of its training nodes",
                    parts.saturating_sub(1)
                ),
            );
            fact("halo", format!("{} nodes that other parts own", format::count(*halo)));
            fact("cut from", format!("{dataset} (fingerprint {fingerprint}), by {method}"));
        }
        fact(
            "features",
            format!(
                "{} × {}, {} bytes a row",
                self.feature_dim,
                self.feature_type,
                count(self.feature_row_bytes)
            ),
        );
        if let Some(EdgeFeatures { dim, element, row_bytes, .. }) = self.edge_features {
            fact("edge features", format!("{dim} × {element}, {} bytes an edge", count(row_bytes)));
        }
        if let Some(types) = self.edge_types {
            fact("edge types", format!("{}, 2 bytes an edge", count(types)));
        }
        let kind = if self.multi_label { "several a node" } else { "one a node" };
        match self.target_columns {
            Some(columns) => fact("targets", format!("{columns} × f32 a node, for regression")),
            None if !self.has_labels => fact("labels", "none".to_owned()),
            None => fact(
                "classes",
                format!("{}, {kind}; {} nodes have a label", self.classes, count(self.labelled_nodes)),
            ),
        }
        if let Some(names) = &self.class_names {
            fact("class names", listed(names));
        }
        let splits =
            [("train", self.splits.train), ("validation", self.splits.valid), ("test", self.splits.test)];
        for (name, nodes) in splits {
            fact(name, format!("{} nodes ({})", count(nodes), share(nodes)));
        }
        for overlap in &self.overlaps {
            fact("overlap", overlap.line.clone());
        }
        fact(
            "in memory",
            format!(
                "{} (graph {}, features {})",
                size(self.memory_bytes),
                size(self.graph_bytes),
                size(self.feature_bytes)
            ),
        );
        for (index, file) in self.files_in_memory.iter().enumerate() {
            fact(if index == 0 { "page cache" } else { "" }, file.line());
        }
        if let Some(licence) = &self.licence {
            fact("licence", licence.clone());
        }
        fact("fingerprint", self.fingerprint.clone());
        fact("checked", checked(&self.verification));
        table.render()
    }
}

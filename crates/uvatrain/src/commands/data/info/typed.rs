//! The contents of a typed dataset: types, relations, and what a batch would lack.

use serde::Serialize;
use uva_files::quote::listed;
use uva_graph::{Labels, Metagraph, NodeType, Relation, Split, TypedDataset, Verification, Verify};
use uva_runtime::spec::ByteSize;

use super::checks::checked;
use super::degrees::ListLengths;
use crate::flags::data::InfoFlags;
use crate::ui::table::TextTable;
use crate::ui::{format, out};

/// The hops after which a type counts as not reached: more than most models have layers.
const HOPS: usize = 3;

/// Bytes of the offset of a list in a block.
const OFFSET_BYTES: u64 = 4;

/// The whole output of `info` of a typed dataset, in the shape of its JSON.
#[derive(Serialize)]
struct Facts {
    name: String,
    path: String,
    version: u64,
    layout: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    nodes: usize,
    edges: usize,
    types: Vec<TypeFacts>,
    relations: Vec<RelationFacts>,
    /// Bytes of the arrays in memory once read.
    memory_bytes: u64,
    graph_bytes: u64,
    feature_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    licence: Option<String>,
    fingerprint: String,
    verification: Verification,
    #[serde(skip)]
    notes: Vec<String>,
}

#[derive(Serialize)]
struct TypeFacts {
    #[serde(rename = "type")]
    name: String,
    nodes: usize,
    feature_dim: Option<usize>,
    feature_type: Option<&'static str>,
    feature_row_bytes: usize,
    classes: usize,
    labelled_nodes: usize,
    splits: Splits,
    time: Option<Times>,
    reordered: bool,
    /// Hops from the target against the edges; absent if the target does not reach the type.
    hops_from_target: Option<usize>,
    /// Names of the user's own arrays.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_arrays: Vec<String>,
}

#[derive(Serialize)]
struct Splits {
    train: usize,
    valid: usize,
    test: usize,
}

#[derive(Clone, Copy, Serialize)]
struct Times {
    min: i64,
    max: i64,
}

#[derive(Serialize)]
struct RelationFacts {
    #[serde(rename = "type")]
    names: [String; 3],
    #[serde(skip)]
    full_name: String,
    edges: usize,
    average_degree: f64,
    max_degree: i64,
    /// Nodes of the destination type without neighbours.
    empty_lists: usize,
    weight: bool,
    time: Option<Times>,
    /// `time`, if the entries of each list ascend by time.
    order: Option<&'static str>,
    /// The full name of the reverse.
    reverse: Option<String>,
    feature_dim: Option<usize>,
}

/// Opens the dataset, checks it, and prints its contents.
pub fn run(flags: &InfoFlags) -> anyhow::Result<()> {
    let how = if flags.verify { Verify::FullWithFeatures } else { Verify::Stamp };
    let facts = Facts::of(&TypedDataset::open_verified(&flags.data, how)?);
    if flags.json { out::json(&facts) } else { out::text(&facts.text()) }
}

impl Times {
    /// `None` if there are no times.
    fn of(times: Option<&[i64]>) -> Option<Self> {
        let times = times?;
        Some(Self { min: *times.iter().min()?, max: *times.iter().max()? })
    }
}

impl TypeFacts {
    fn of(dataset: &TypedDataset, node_type: NodeType, hops_from_target: Option<usize>) -> Self {
        let nodes = dataset.nodes_of(node_type);
        let rows = dataset.rows(node_type);
        let labelled_nodes = match dataset.labels_of(node_type) {
            Labels::Absent => 0,
            Labels::Single(values) => values.iter().filter(|label| **label >= 0).count(),
            Labels::Multi { .. } | Labels::Regression { .. } => nodes,
        };
        let [train, valid, test] = Split::ALL.map(|split| dataset.split_of(node_type, split).len());
        Self {
            name: dataset.metagraph().type_name(node_type).to_owned(),
            nodes,
            feature_dim: rows.map(|rows| rows.dim),
            feature_type: rows.map(|rows| rows.element.name()),
            feature_row_bytes: rows.map_or(0, |rows| rows.row_bytes()),
            classes: dataset.classes_of(node_type),
            labelled_nodes,
            splits: Splits { train, valid, test },
            time: Times::of(dataset.node_times(node_type)),
            reordered: dataset.original_ids_of(node_type).is_some(),
            hops_from_target,
            other_arrays: dataset.other_arrays_of(node_type),
        }
    }

    fn features(&self) -> String {
        match (self.feature_dim, self.feature_type) {
            (Some(dim), Some(element)) => format!("{dim} × {element}"),
            _ => "none".to_owned(),
        }
    }

    /// Nodes of the splits that the type has.
    fn splits(&self) -> String {
        let Splits { train, valid, test } = self.splits;
        match [train, valid, test] {
            [0, 0, 0] => String::new(),
            sizes => sizes.map(|nodes| format::count(nodes as u64)).join(" / "),
        }
    }
}

impl RelationFacts {
    fn of(dataset: &TypedDataset, relation: Relation) -> Self {
        let (metagraph, lists) = (dataset.metagraph(), dataset.lists(relation));
        let degrees = ListLengths::of(lists);
        Self {
            names: metagraph.names(relation).map(str::to_owned),
            full_name: metagraph.full_name(relation).to_owned(),
            edges: lists.edges(),
            average_degree: lists.edges() as f64 / lists.nodes().max(1) as f64,
            max_degree: degrees.max,
            empty_lists: degrees.isolated,
            weight: dataset.weights_of(relation).is_some(),
            time: Times::of(dataset.edge_times(relation)),
            order: dataset.is_ordered_by_time(relation).then_some("time"),
            reverse: metagraph.reverse(relation).map(|reverse| metagraph.full_name(reverse).to_owned()),
            feature_dim: dataset.edge_rows(relation).map(|rows| rows.table.dim),
        }
    }

    /// What the edges have.
    fn content(&self) -> String {
        let features = self.feature_dim.map(|dim| format!("features {dim}"));
        let order = if self.order.is_some() { "time, ascending" } else { "time" };
        let reverse = self.reverse.as_ref().map(|reverse| format!("reverse {reverse}"));
        let has = [
            self.weight.then(|| "weight".to_owned()),
            self.time.is_some().then(|| order.to_owned()),
            features,
            reverse,
        ];
        has.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

impl Facts {
    fn of(dataset: &TypedDataset) -> Self {
        let metagraph = dataset.metagraph();
        let hops = match dataset.target() {
            Some(target) => metagraph.hops_from(target),
            None => vec![None; metagraph.type_count()],
        };
        let types: Vec<_> = metagraph
            .types()
            .zip(&hops)
            .map(|(node_type, hops)| TypeFacts::of(dataset, node_type, *hops))
            .collect();
        let relations: Vec<_> =
            metagraph.relations().map(|relation| RelationFacts::of(dataset, relation)).collect();
        let graph_bytes = metagraph.relations().map(|relation| graph_bytes(dataset, relation)).sum::<u64>()
            + metagraph.types().map(|node_type| of_slice(dataset.original_ids_of(node_type))).sum::<u64>();
        let feature_bytes = metagraph.types().map(|node_type| row_bytes(dataset, node_type)).sum();
        Self {
            name: dataset.name().to_owned(),
            path: dataset.path().display().to_string(),
            version: uva_graph::typed_meta::TYPED_VERSION,
            layout: "relation",
            target: dataset.target().map(|target| metagraph.type_name(target).to_owned()),
            nodes: dataset.nodes(),
            edges: dataset.edges(),
            notes: notes(metagraph, dataset.target(), &types, &relations),
            types,
            relations,
            memory_bytes: graph_bytes + feature_bytes + other_bytes(dataset),
            graph_bytes,
            feature_bytes,
            licence: dataset.meta().licence.clone(),
            fingerprint: dataset.fingerprint(),
            verification: dataset.verification().clone(),
        }
    }

    fn text(&self) -> String {
        let mut table = TextTable::of_facts();
        let mut fact = |name: &str, value: String| table.row(&[name.to_owned(), value]);
        let size = |bytes: u64| ByteSize::from_bytes(bytes).to_string();
        fact("dataset", format!("{} ({})", self.name, self.path));
        fact(
            "format",
            format!(
                "version {}, {} types, {} relations",
                self.version,
                self.types.len(),
                self.relations.len()
            ),
        );
        fact("target", self.target.clone().unwrap_or_else(|| "none".to_owned()));
        fact("nodes", format::count(self.nodes as u64));
        fact("edges", format!("{} (an undirected edge counts twice)", format::count(self.edges as u64)));
        fact(
            "in memory",
            format!(
                "{} (graph {}, features {})",
                size(self.memory_bytes),
                size(self.graph_bytes),
                size(self.feature_bytes)
            ),
        );
        if let Some(licence) = &self.licence {
            fact("licence", licence.clone());
        }
        fact("fingerprint", self.fingerprint.clone());
        fact("checked", checked(&self.verification));
        for note in &self.notes {
            fact("note", note.clone());
        }
        format!("{}\n{}\n{}", table.render(), self.table_of_types(), self.table_of_relations())
    }

    fn table_of_types(&self) -> String {
        let mut table = TextTable::with_heading(&[
            "type",
            "nodes",
            "features",
            "classes",
            "train / valid / test",
            "time",
            "hops",
        ]);
        for facts in &self.types {
            table.row(&[
                facts.name.clone(),
                format::count(facts.nodes as u64),
                facts.features(),
                facts.classes.to_string(),
                facts.splits(),
                facts.time.map_or_else(String::new, |Times { min, max }| format!("{min} to {max}")),
                facts.hops_from_target.map_or_else(|| "-".to_owned(), |hops| hops.to_string()),
            ]);
        }
        table.render()
    }

    fn table_of_relations(&self) -> String {
        let mut table =
            TextTable::with_heading(&["relation", "edges", "mean degree", "largest", "empty lists", "has"]);
        for facts in &self.relations {
            table.row(&[
                facts.full_name.clone(),
                format::count(facts.edges as u64),
                format!("{:.1}", facts.average_degree),
                format::count(facts.max_degree as u64),
                format::count(facts.empty_lists as u64),
                facts.content(),
            ]);
        }
        table.render()
    }
}

/// What a user may not expect of batches.
fn notes(
    metagraph: &Metagraph,
    target: Option<NodeType>,
    types: &[TypeFacts],
    relations: &[RelationFacts],
) -> Vec<String> {
    let mut notes = Vec::new();
    match target {
        Some(target) if metagraph.into_type(target).is_empty() => {
            let name = metagraph.type_name(target);
            notes.push(format!("no relation leads into {name}: batches of {name} have no edges"));
        }
        Some(target) => {
            let name = metagraph.type_name(target);
            let far = types.iter().filter(|facts| facts.hops_from_target.is_none_or(|hops| hops > HOPS));
            notes
                .extend(far.map(|facts| format!("{} is not reached from {name} in {HOPS} hops", facts.name)));
        }
        None => {
            notes.push("there is no target: name the type of the seeds as \"target\" in meta.json".to_owned())
        }
    }
    notes.extend(of_offsets(metagraph, types, relations));
    let featureless = types.iter().filter(|facts| facts.feature_dim.is_none() && facts.nodes > 0);
    notes.extend(featureless.map(|facts| format!("{} has no features", facts.name)));
    let other = types.iter().filter(|facts| !facts.other_arrays.is_empty());
    notes.extend(
        other.map(|facts| format!("{} also has {}, not in batches", facts.name, listed(&facts.other_arrays))),
    );
    // Relations without time matter where others have it.
    if relations.iter().any(|facts| facts.time.is_some()) {
        let timeless = relations.iter().filter(|facts| facts.time.is_none());
        notes.extend(
            timeless.map(|facts| format!("{} has no time: its entries are always visible", facts.full_name)),
        );
    }
    notes
}

/// The offsets of blocks, where they are more than the edges: each relation has a list for every node of a layer that it
/// leads into.
fn of_offsets(metagraph: &Metagraph, types: &[TypeFacts], relations: &[RelationFacts]) -> Option<String> {
    let lists = |relation: Relation| types[metagraph.destination(relation).index()].nodes as u64;
    let lists: u64 = metagraph.relations().map(lists).sum();
    let edges: u64 = relations.iter().map(|facts| facts.edges as u64).sum();
    let size = ByteSize::from_bytes(lists * OFFSET_BYTES);
    (lists > edges).then(|| {
        format!(
            "a layer of all nodes has {} lists ({size} of offsets) and {} edges: most lists of its relations are empty",
            format::count(lists),
            format::count(edges)
        )
    })
}

fn of_slice<T>(values: Option<&[T]>) -> u64 {
    values.map_or(0, |values| size_of_val(values) as u64)
}

fn graph_bytes(dataset: &TypedDataset, relation: Relation) -> u64 {
    let lists = dataset.lists(relation);
    of_slice(Some(lists.indptr)) + (lists.edges() * lists.indices.id_bytes()) as u64
}

fn row_bytes(dataset: &TypedDataset, node_type: NodeType) -> u64 {
    of_slice(dataset.rows(node_type).map(|rows| rows.bytes))
}

/// Bytes of the arrays that belong neither to the graph nor to the features of nodes.
fn other_bytes(dataset: &TypedDataset) -> u64 {
    let metagraph = dataset.metagraph();
    let of_type = |node_type: NodeType| {
        let splits = Split::ALL.map(|split| of_slice(Some(dataset.split_of(node_type, split))));
        let times = of_slice(dataset.node_times(node_type));
        dataset.labels_of(node_type).bytes().len() as u64 + splits.into_iter().sum::<u64>() + times
    };
    let of_relation = |relation: Relation| {
        // Rows of another relation count there.
        let own = dataset.edge_rows(relation).filter(|rows| rows.row_of.is_none());
        of_slice(own.map(|rows| rows.table.bytes))
            + of_slice(dataset.weights_of(relation))
            + of_slice(dataset.edge_times(relation))
            + of_slice(dataset.edge_ids_of(relation))
    };
    metagraph.types().map(of_type).sum::<u64>() + metagraph.relations().map(of_relation).sum::<u64>()
}

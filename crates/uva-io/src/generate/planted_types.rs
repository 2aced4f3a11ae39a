//! The common part of all generators of typed graphs: writing lists, features, labels and splits to files.
//!
//! The first type has the labels and splits. Features of a node are the centre of its class plus noise, as in graphs of
//! one type, or noise alone.

use std::path::Path;
use std::time::Instant;

use rayon::prelude::*;
use serde_json::{Map, Value};
use uva_files::disk_space::{self, BytesOnDisk};
use uva_files::progress::in_steps;
use uva_graph::csc::Ends;
use uva_graph::npy::{NpyType, NpyWriter};
use uva_graph::{GraphError, NodeType, Progress, Relation, Split, Summary, mix, names, verify};

use super::draws::random::{GeneratorPurpose, RandomStream};
use super::estimate::{GeneratorEstimate, id_bytes};
use super::options::common::Common;
use super::planted::{Threads, feature_row, lists_of, meta, noisy_label, write_features};
use crate::typed::{EdgeColumns, GraphPlan, RelationPlan, Reversal, TypedWriter};

/// Memory for the edges of a relation while its lists are made.
const EDGE_MEMORY: u64 = 1 << 30;

/// A node type of a generated graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlantedType {
    /// Its name.
    pub name: &'static str,
    /// The number of its nodes.
    pub nodes: u64,
    /// Whether its nodes have features.
    pub has_features: bool,
}

/// The end of a relation whose nodes have the lists that are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrawnAt {
    /// Each destination has a list of sources.
    Destinations,
    /// Each source has a list of destinations.
    Sources,
}

/// A relation of a generated graph.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlantedRelation {
    /// Source, name and destination.
    pub names: [&'static str; 3],
    /// The end that has the lists.
    pub drawn_at: DrawnAt,
    /// Mean length of a list, without reverse edges.
    pub mean: f64,
    /// The reverse edges.
    pub reversal: Reversal,
}

/// The decisions of a generator of typed graphs, node by node: each depends on the options and the node alone.
pub trait PlantedTypes: Sync {
    /// The node types, the one with labels and splits first.
    fn types(&self) -> Vec<PlantedType>;
    /// The relations.
    fn relations(&self) -> Vec<PlantedRelation>;
    /// Appends the neighbours of `node`, of the end that has the lists, ascending and without repeats.
    fn neighbours_of(&self, relation: usize, node: u64, list: &mut Vec<u64>);
    /// The class that the features of a node show; `None` if they are noise.
    fn shown_class(&self, node_type: usize, node: u64) -> Option<u64>;
    /// Distance of a class centre from 0 in each dimension of the features.
    fn signal(&self) -> f64;
    /// The class of a node of the first type.
    fn class_of(&self, node: u64) -> u64;
    /// The split that contains a node of the first type.
    fn split_of(&self, node: u64) -> Option<Split>;
    /// The shape's own options, for `meta.json`.
    fn description(&self) -> Map<String, Value>;
    /// Accuracies of the best possible classifiers: what they see, and how often they are right.
    fn best_accuracies(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// The seed of a node type or relation: that of the graph for the first.
pub(super) fn seed_of(seed: u64, number: usize) -> u64 {
    // mix(0) is 0.
    seed ^ mix(number as u64)
}

/// The cost of generating a typed graph, from its types and relations.
pub(super) fn estimate(
    common: &Common,
    types: &[PlantedType],
    relations: &[PlantedRelation],
) -> GeneratorEstimate {
    let row_bytes = (common.feature_dim * common.feature_element.bytes()) as u64;
    let nodes_of =
        |name: &str| types.iter().find(|planted| planted.name == name).map_or(0, |found| found.nodes);
    let featured: u64 =
        types.iter().filter(|planted| planted.has_features).map(|planted| planted.nodes).sum();
    let labels = types[0].nodes * 16;
    let (mut edges, mut lists, mut largest) = (0, 0, 0);
    for PlantedRelation { names: [source, _, destination], drawn_at, mean, reversal } in relations {
        let [sources, destinations] = [source, destination].map(|name| nodes_of(name));
        let owners = match drawn_at {
            DrawnAt::Destinations => destinations,
            DrawnAt::Sources => sources,
        };
        let drawn = (mean * owners as f64) as u64;
        let (list_nodes, entries, id_bytes) = match reversal {
            Reversal::None => (destinations, drawn, drawn * id_bytes(sources)),
            Reversal::Same => (destinations, 2 * drawn, 2 * drawn * id_bytes(sources)),
            Reversal::Separate => {
                (destinations + sources, 2 * drawn, drawn * (id_bytes(sources) + id_bytes(destinations)))
            }
        };
        edges += entries;
        lists += list_nodes * 8 + id_bytes;
        largest = largest.max(entries);
    }
    GeneratorEstimate {
        nodes: types.iter().map(|planted| planted.nodes).sum(),
        edges,
        disk_bytes: (lists + labels).saturating_add(featured.saturating_mul(row_bytes)),
        memory_bytes: GeneratorEstimate::of(&Common { nodes: types[0].nodes, ..common.clone() })
            .memory_bytes
            .saturating_add(EDGE_MEMORY.min(16 * largest)),
    }
}

/// Writes the typed graph of `shape`, whose generator is called `kind`, to the directory `out`. `common` has been
/// checked.
pub(super) fn write(
    out: &Path,
    kind: &str,
    common: &Common,
    shape: &dyn PlantedTypes,
    progress: &dyn Fn(Progress),
) -> Result<Summary, GraphError> {
    let start = Instant::now();
    let (types, relations) = (shape.types(), shape.relations());
    let mut nodes: Vec<_> =
        types.iter().map(|planted| GraphPlan::node_type(planted.name, planted.nodes)).collect();
    nodes[0].classes = Some(common.classes);
    for (entry, _) in nodes.iter_mut().zip(&types).filter(|(_, planted)| planted.has_features) {
        entry.feat_dtype = Some(common.feature_element.name().to_owned());
    }
    let plan = GraphPlan {
        nodes,
        relations: relations
            .iter()
            .map(|planted| RelationPlan::new(planted.names, planted.reversal))
            .collect(),
        target: Some(types[0].name.to_owned()),
    };
    let mut writer = TypedWriter::new(out, plan, EDGE_MEMORY)?;
    let needs = estimate(common, &types, &relations).disk_bytes;
    let what = format!(
        "it takes {}: use a directory on another disk, or generate a smaller dataset",
        BytesOnDisk(needs)
    );
    disk_space::check(out, needs, what)?;
    let threads = Threads::new(out, common)?;
    for (number, planted) in relations.iter().enumerate() {
        write_relation(&mut writer, number, planted, shape, &threads, progress)?;
    }
    for (number, planted) in types.iter().enumerate().filter(|(_, planted)| planted.has_features) {
        let (seed, element) = (seed_of(common.seed, number), common.feature_element);
        let row_of = |node: u64, row: &mut [u8]| {
            let centre = shape.shown_class(number, node);
            let centre = centre.map(|class| RandomStream::new(seed, GeneratorPurpose::ClassCentre, class));
            let noise = RandomStream::new(seed, GeneratorPurpose::Features, node);
            feature_row(element, shape.signal() as f32, centre, noise, row);
        };
        let path = writer.node_file(NodeType(number as u16), names::FEATURES);
        write_features(&path, planted.nodes, common, &threads, &row_of, progress)?;
    }
    let split_sizes = write_labels_and_splits(&writer, types[0].nodes, common, shape, &threads, progress)?;
    let edges = edges_in(&writer)?;
    writer.finish(meta(kind, common, shape.description(), out), &verify::directory)?;
    Ok(Summary {
        nodes: types.iter().map(|planted| planted.nodes).sum(),
        edges,
        feature_dim: common.feature_dim as u64,
        classes: common.classes,
        split_sizes,
        seconds: start.elapsed().as_secs_f64(),
    })
}

fn write_relation(
    writer: &mut TypedWriter,
    number: usize,
    planted: &PlantedRelation,
    shape: &dyn PlantedTypes,
    threads: &Threads,
    progress: &dyn Fn(Progress),
) -> Result<(), GraphError> {
    let relation = Relation(number as u16);
    let Ends { sources, destinations } = writer.ends(relation);
    let owners = match planted.drawn_at {
        DrawnAt::Destinations => destinations,
        DrawnAt::Sources => sources,
    };
    let bytes = (planted.mean * 8.0) as usize + 32;
    writer.relation(relation, &EdgeColumns::default(), progress, &mut |builder| {
        in_steps("edges", owners, bytes, progress, |nodes| {
            let lists = lists_of(&nodes, threads, &|node, list| shape.neighbours_of(number, node, list));
            let lengths = lists.iter().flat_map(|(lengths, _)| lengths);
            let mut neighbours = lists.iter().flat_map(|(_, neighbours)| neighbours);
            for (node, &length) in nodes.zip(lengths) {
                for &neighbour in neighbours.by_ref().take(length as usize) {
                    let (source, destination) = match planted.drawn_at {
                        DrawnAt::Destinations => (neighbour, node),
                        DrawnAt::Sources => (node, neighbour),
                    };
                    builder.push(source, destination, 0.0)?;
                }
            }
            Ok(())
        })
    })?;
    Ok(())
}

/// The number of edges of all relations.
fn edges_in(writer: &TypedWriter) -> Result<u64, GraphError> {
    let mut edges = 0;
    for relation in writer.metagraph().relations() {
        let indices = uva_graph::npy::NpyArray::open(&writer.relation_file(relation, names::INDICES))?;
        edges += indices.shape()[0] as u64;
    }
    Ok(edges)
}

/// Writes labels and splits of the first type. Returns the sizes of the splits.
fn write_labels_and_splits(
    writer: &TypedWriter,
    nodes: u64,
    common: &Common,
    shape: &dyn PlantedTypes,
    threads: &Threads,
    progress: &dyn Fn(Progress),
) -> Result<[u64; 3], GraphError> {
    let create = |name: &str| NpyWriter::create(&writer.node_file(NodeType(0), name), NpyType::I64, &[]);
    let mut labels = create(names::LABELS)?;
    let [train, valid, test] = Split::ALL.map(|split| create(split.file_name()));
    let mut splits = [train?, valid?, test?];
    in_steps("labels", nodes, 64, progress, |nodes| {
        let labelled: Vec<(i64, Option<Split>)> = threads.install(|| {
            let labelled = nodes.clone().into_par_iter();
            labelled
                .map(|node| (noisy_label(common, node, shape.class_of(node)), shape.split_of(node)))
                .collect()
        });
        labels.write(&labelled.iter().map(|(label, _)| *label).collect::<Vec<i64>>())?;
        for (writer, split) in splits.iter_mut().zip(Split::ALL) {
            let of_split = nodes.clone().zip(&labelled).filter(|(_, labelled)| labelled.1 == Some(split));
            writer.write(&of_split.map(|(node, _)| node.cast_signed()).collect::<Vec<i64>>())?;
        }
        Ok::<_, GraphError>(())
    })?;
    labels.finish()?;
    let [train, valid, test] = splits;
    Ok([train.finish()?, valid.finish()?, test.finish()?])
}

//! The heterogeneous graphs of the Illinois Graph Benchmark: a directory for each node type with `node_feat.npy`, and for
//! each relation, `S__R__D`, with `edge_index.npy`, of the form that the homogeneous graphs have.
//!
//! Papers are the first type, and the others follow in the order of their names. Only papers have labels. Relations are
//! in the order of their ends. The variant `mlperf` has the citations as MLPerf's reference trains them: every self-loop
//! is removed, each paper gets one, and then both directions of each edge are kept, so that each paper has two.

use std::path::{Path, PathBuf};

use serde_json::json;
use uva_graph::csc::Changes;
use uva_graph::npy::{NpyArray, NpyType, NpyWriter, write_array};
use uva_graph::typed_meta::{NodeTypeMeta, RelationMeta};
use uva_graph::{ElementType, GraphError, Meta, NodeType, Relation, Split, names};

use super::files::{ClassSet, RAW_COLUMNS, labelled, splits, table};
use crate::import::formats::npy::typed::{ArrayFiles, SourceArrays};
use crate::import::options::{Float8, ImportOptions};
use crate::import::reading::features::{FeatureWriter, feature_type};
use crate::import::reading::nodes::{NodeRange, end_in_pairs};
use crate::import::reading::stream::ArrayStream;
use crate::import::reading::unread_parts;
use crate::import::request::{ImportRequest, ImportWatch};
use crate::import::writing::output::{CHUNK, feature_columns, label_columns, next_classes};
use crate::import::writing::type_names::TypeNames;
use crate::import::writing::typed_changes::{RelationChanges, ReverseRule, TypedChanges};
use crate::import::writing::typed_output::{self, RelationSizes, TypedSizes};
use crate::typed::{EdgeColumns, GraphPlan, RelationPlan, Reversal, TypedWriter};

const PAPER: &str = "paper";
const CITES: [&str; 3] = [PAPER, "cites", PAPER];

/// A node type.
struct IgbType {
    name: String,
    features: ArrayStream,
    nodes: u64,
    columns: u64,
}

impl IgbType {
    fn open(processed: &Path, name: String) -> Result<Self, GraphError> {
        let features = table(&processed.join(&name).join("node_feat.npy"), &[RAW_COLUMNS])?;
        let nodes = features.shape().first().map_or(0, |&rows| rows as u64);
        let columns = feature_columns(&features, Some(nodes))?;
        Ok(Self { name, features, nodes, columns })
    }

    fn ids(&self) -> NodeRange {
        NodeRange::new(self.nodes, format!("node_feat.npy of {} has {} rows", self.name, self.nodes))
    }
}

/// A relation.
struct IgbRelation {
    names: [String; 3],
    /// The places of the types at its ends.
    ends: [usize; 2],
    edges: ArrayStream,
}

impl IgbRelation {
    fn open(path: &Path, names: [String; 3], types: &[IgbType]) -> Result<Self, GraphError> {
        let end = |name: &String| {
            types.iter().position(|of| of.name == *name).ok_or_else(|| {
                let message = format!(
                    "{}: there is no directory {name} with node_feat.npy next to it: add it, or move the relation \
                     elsewhere",
                    path.display()
                );
                GraphError::usage("SRC", message)
            })
        };
        let ends = [end(&names[0])?, end(&names[2])?];
        let edges = ArrayStream::open(&path.join("edge_index.npy"))?;
        match *edges.shape() {
            [_, 2] => Ok(Self { names, ends, edges }),
            _ => Err(edges.wrong_shape("[edges, 2]: pairs of source and destination")),
        }
    }

    fn is_citations(&self) -> bool {
        self.names == CITES
    }

    fn count(&self) -> u64 {
        self.edges.shape()[0] as u64
    }

    /// Passes both ends of each edge, checked.
    fn each_edge(
        &mut self,
        types: [&NodeRange; 2],
        watch: &ImportWatch<'_>,
        push: &mut dyn FnMut(u64, u64) -> Result<(), GraphError>,
    ) -> Result<(), GraphError> {
        loop {
            let ids = self.edges.integers(2 * CHUNK)?;
            if ids.is_empty() {
                return Ok(());
            }
            let end = |position: u64| types[usize::from(!position.is_multiple_of(2))];
            self.edges.check_each_id(&ids, end, end_in_pairs)?;
            for &[source, destination] in ids.as_chunks::<2>().0 {
                push(source.cast_unsigned(), destination.cast_unsigned())?;
            }
            let (done, total) = (self.edges.position() / 2, self.count());
            (watch.progress)(uva_graph::Progress { stage: "edges", done, total });
        }
    }
}

/// Imports a typed graph. `as_mlperf`: with the citations of MLPerf's reference.
pub(super) fn import(
    request: &ImportRequest<'_>,
    processed: &Path,
    set: ClassSet,
    as_mlperf: bool,
) -> Result<(), GraphError> {
    let (types, relations) = found(processed, request.watch)?;
    let labels = table(&processed.join(PAPER).join(set.file()), &[])?;
    let papers = types[0].nodes;
    if label_columns(&labels, papers)?.is_some() {
        return Err(labels.wrong_shape(format!("[{papers}], one class a paper")));
    }
    let mut type_names = TypeNames::default();
    let note = request.watch.note;
    let mut nodes: Vec<NodeTypeMeta> =
        types.iter().map(|of| type_names.node_type(&of.name, of.nodes, note)).collect();
    nodes[0].classes = Some(set.classes());
    let relation_meta = |of: &IgbRelation| {
        let [source, destination] = of.ends.map(|end| nodes[end].name.as_str());
        type_names.relation([source, &of.names[1], destination], note)
    };
    let edges: Vec<RelationMeta> = relations.iter().map(relation_meta).collect();
    let changes = changes(request, (&nodes, &edges, &relations), as_mlperf)?;

    let mut sizes = TypedSizes::default();
    for ((of, entry), float8) in types.iter().zip(&mut nodes).zip(&changes.float8) {
        let element =
            if float8.is_some() { ElementType::E4m3 } else { feature_type(of.features.kind(), None).0 };
        entry.feat_dtype = Some(element.name().to_owned());
        sizes.nodes = sizes.nodes.saturating_add(of.nodes);
        let row_bytes = of.columns.saturating_mul(element.bytes() as u64);
        sizes.node_bytes = sizes.node_bytes.saturating_add(of.nodes.saturating_mul(row_bytes));
    }
    // A label, and a place in about one split.
    sizes.node_bytes = sizes.node_bytes.saturating_add(papers.saturating_mul(16));
    let mut planned = Vec::new();
    for ((of, mut meta), change) in relations.iter().zip(edges).zip(&changes.relations) {
        let [sources, lists] = of.ends.map(|end| types[end].nodes);
        let both = as_mlperf && of.is_citations();
        let entries = if both { 2 * of.count().saturating_add(papers) } else { of.count() };
        let of_relation = RelationSizes { lists, entries, ..RelationSizes::default() };
        sizes.relations.push(of_relation.changed(sources, *change));
        if both {
            meta.reverse = Some(meta.names.clone());
        }
        planned.push(RelationPlan { meta, reversal: change.reversal });
    }
    let target = Some(nodes[0].name.clone());
    let mut writer = typed_output::begin(request, GraphPlan { nodes, relations: planned, target }, &sizes)?;
    let ids: Vec<NodeRange> = types.iter().map(IgbType::ids).collect();
    for ((number, of), change) in (0..).zip(relations).zip(&changes.relations) {
        let ends = of.ends.map(|end| &ids[end]);
        let both = as_mlperf && of.is_citations();
        write_edges(request, &mut writer, (Relation(number), of), ends, (change.changes, both))?;
    }
    for ((number, of), float8) in (0..).zip(types).zip(changes.float8) {
        write_features(&writer.node_file(NodeType(number), names::FEATURES), of, float8, request.watch)?;
    }
    let mut meta = Meta { licence: Some("ODC-By-1.0".to_owned()), ..Meta::default() };
    meta.other.insert("source".to_owned(), json!("igb"));
    write_labels(&writer, labels, set)?;
    write_splits(request, &writer, (papers, labelled(papers, set)), &mut meta)?;
    typed_output::finish(request, writer, meta)
}

/// The types and relations in the directory; a line about each part that is not read.
fn found(processed: &Path, watch: &ImportWatch<'_>) -> Result<(Vec<IgbType>, Vec<IgbRelation>), GraphError> {
    let is_directory = |name: &str| processed.join(name).is_dir();
    let mut type_names = vec![PAPER.to_owned()];
    let (mut relation_names, mut left) = (Vec::new(), Vec::new());
    for name in unread_parts::files(processed, "", |name| !is_directory(name) || name == PAPER)? {
        let parts: Vec<String> = name.split("__").map(str::to_owned).collect();
        match <[String; 3]>::try_from(parts) {
            Ok(names) => relation_names.push(names),
            Err(_) if processed.join(&name).join("node_feat.npy").exists() => type_names.push(name),
            Err(_) => left.push(name),
        }
    }
    unread_parts::say(watch.note, processed, &left);
    let mut types = Vec::with_capacity(type_names.len());
    for name in type_names {
        let directory = processed.join(&name);
        let is_read = |file: &str| file == "node_feat.npy" || file.starts_with("node_label_");
        unread_parts::say(watch.note, &directory, &unread_parts::files(&directory, ".npy", is_read)?);
        types.push(IgbType::open(processed, name)?);
    }
    let mut relations = Vec::with_capacity(relation_names.len());
    for names in relation_names {
        let directory: PathBuf = processed.join(names.join("__"));
        let left = unread_parts::files(&directory, ".npy", |file| file == "edge_index.npy")?;
        unread_parts::say(watch.note, &directory, &left);
        relations.push(IgbRelation::open(&directory, names, &types)?);
    }
    if relations.is_empty() {
        let message =
            format!("{} has no directory of a relation, such as {}", processed.display(), CITES.join("__"));
        return Err(GraphError::usage("SRC", message));
    }
    relations.sort_by(|one, other| (one.ends, &one.names[1]).cmp(&(other.ends, &other.names[1])));
    Ok((types, relations))
}

/// The changes of types and relations. MLPerf's citations are made here, not by options.
fn changes(
    request: &ImportRequest<'_>,
    (nodes, edges, relations): (&[NodeTypeMeta], &[RelationMeta], &[IgbRelation]),
    as_mlperf: bool,
) -> Result<TypedChanges, GraphError> {
    let options = request.options;
    if !as_mlperf {
        return TypedChanges::of(options, nodes, edges, ReverseRule::ByDefault);
    }
    let given = [
        ("symmetrise", options.symmetrise.is_some()),
        ("dedup", options.deduplicate.is_some()),
        ("self_loops", options.self_loops.is_some()),
        ("reverse", options.reverse.is_some()),
    ];
    if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        let message = "not supported with `variant=mlperf`, which has the edges of MLPerf's reference: choose \
                       `variant=typed`";
        return Err(GraphError::usage(option, message));
    }
    let Some(citations) = relations.iter().position(IgbRelation::is_citations) else {
        let message = format!("mlperf needs the directory {}, which SRC does not have", CITES.join("__"));
        return Err(GraphError::usage("variant", message));
    };
    let mut changes = TypedChanges::of(options, nodes, edges, ReverseRule::ByDefault)?;
    changes.relations[citations] = RelationChanges { reversal: Reversal::None, changes: Changes::NONE };
    Ok(changes)
}

fn write_edges(
    request: &ImportRequest<'_>,
    writer: &mut TypedWriter,
    (relation, mut of): (Relation, IgbRelation),
    ends: [&NodeRange; 2],
    (changes, as_mlperf): (Changes, bool),
) -> Result<(), GraphError> {
    let (table, watch) = (EdgeColumns::default(), request.watch);
    writer.relation_with(relation, changes, &table, watch.progress, &mut |lists| {
        if !as_mlperf {
            return of
                .each_edge(ends, watch, &mut |source, destination| lists.push(source, destination, 0.0));
        }
        of.each_edge(ends, watch, &mut |source, destination| {
            if source == destination {
                return Ok(());
            }
            lists.push(source, destination, 0.0)?;
            lists.push(destination, source, 0.0)
        })?;
        (0..ends[0].count).try_for_each(|paper| {
            lists.push(paper, paper, 0.0)?;
            lists.push(paper, paper, 0.0)
        })
    })?;
    Ok(())
}

fn write_features(
    path: &Path,
    of: IgbType,
    float8: Option<Float8>,
    watch: &ImportWatch<'_>,
) -> Result<(), GraphError> {
    let IgbType { mut features, columns, .. } = of;
    let kind = (features.kind(), None);
    let mut writer = FeatureWriter::create(path, features.as_features(), kind, columns as usize, float8)?;
    if let Some(line) = writer.conversion() {
        (watch.note)(&line);
    }
    loop {
        let chunk = features.bytes(CHUNK)?;
        if chunk.is_empty() {
            break;
        }
        writer.write(chunk)?;
        let (done, total) = (features.position(), features.len());
        (watch.progress)(uva_graph::Progress { stage: "features", done, total });
    }
    if let Some(line) = writer.finish()?.1 {
        (watch.note)(&line);
    }
    Ok(())
}

fn write_labels(writer: &TypedWriter, mut labels: ArrayStream, set: ClassSet) -> Result<(), GraphError> {
    let path = writer.node_file(NodeType(0), names::LABELS);
    let mut classes = NpyWriter::create(&path, NpyType::I64, &[])?;
    loop {
        let chunk = next_classes(&mut labels, Some(set.classes()))?;
        if chunk.is_empty() {
            return classes.finish().map(drop);
        }
        classes.write(&chunk)?;
    }
}

/// The splits by the options' rule, of the options' directory, or of IGB's own loader.
fn write_splits(
    request: &ImportRequest<'_>,
    writer: &TypedWriter,
    (papers, labelled): (u64, u64),
    meta: &mut Meta,
) -> Result<(), GraphError> {
    let ImportOptions { split, edge_list, .. } = request.options;
    let count = usize::try_from(papers).unwrap_or(usize::MAX);
    if split.is_some() {
        let labels = NpyArray::open(&writer.node_file(NodeType(0), names::LABELS))?;
        let labels = Some(labels.elements::<i64>(NpyType::I64)?);
        return typed_output::split_by_rule(request, writer, NodeType(0), (count, labels), meta);
    }
    let splits = match &edge_list.arrays {
        Some(directory) => {
            let entry = GraphPlan::node_type(PAPER, papers);
            let source = SourceArrays::of_type(directory.clone(), ArrayFiles::Directory, &entry);
            let splits = source.optional_splits(count)?;
            if splits.iter().all(Option::is_none) {
                let message =
                    format!("{} has no train_idx.npy, valid_idx.npy or test_idx.npy", directory.display());
                return Err(GraphError::usage("arrays", message));
            }
            splits
        }
        None => splits(labelled).map(Some),
    };
    for (split, ids) in Split::ALL.into_iter().zip(splits) {
        if let Some(ids) = ids {
            write_array(&writer.node_file(NodeType(0), split.file_name()), NpyType::I64, &[], &ids)?;
        }
    }
    Ok(())
}

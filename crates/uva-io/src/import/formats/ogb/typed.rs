//! Typed graphs of OGB, such as ogbn-mag: a directory for each relation and each type with features, labels or splits.
//!
//! | file | what |
//! |---|---|
//! | `raw/num-node-dict.csv.gz` | a line with the node types and one with the numbers of their nodes |
//! | `raw/triplet-type-list.csv.gz` | source, name and destination of a relation in each line |
//! | `raw/relations/S___R___D/edge.csv.gz`, `num-edge-list.csv.gz` | the edges, and their number |
//! | `raw/node-feat/T/node-feat.csv.gz`, `raw/node-label/T/node-label.csv.gz` | as in a graph of one type |
//! | `split/SCHEME/T/train.csv.gz`, … | node ids, a line each |

use std::path::{Path, PathBuf};

use serde_json::json;
use uva_graph::npy::{NpyType, write_array};
use uva_graph::{ElementType, GraphError, Meta, NodeType, Relation, Split, names};

use super::csv::{columns, feature_rows, label_rows, push_edges};
use super::raw::{OgbProblem, count, ids_of};
use super::splits::{scheme, split_ids};
use crate::import::reading::features::{FeatureSource, FeatureWriter};
use crate::import::reading::text::{LineError, each_line};
use crate::import::reading::unread_parts;
use crate::import::request::ImportRequest;
use crate::import::writing::type_names::TypeNames;
use crate::import::writing::typed_output::{self, RelationSizes, TypedSizes};
use crate::typed::{EdgeColumns, GraphPlan, Reversal, TypedWriter};

/// The list of relations, which only typed graphs have.
pub(super) const RELATIONS: &str = "raw/triplet-type-list.csv.gz";
const TYPES: &str = "raw/num-node-dict.csv.gz";

/// The splits of a node type, those that it has.
type TypeSplits = [Option<Vec<i64>>; 3];

/// A node type.
struct OgbType {
    name: String,
    nodes: u64,
    features: Option<PathBuf>,
    columns: usize,
    labels: Option<PathBuf>,
}

/// A relation.
struct OgbRelation {
    names: [String; 3],
    ends: [u64; 2],
    edges: PathBuf,
    count: u64,
}

/// Imports a typed graph. Reverse edges are added as OGB's and DGL's scripts do, unless the options say otherwise.
pub(super) fn import(request: &ImportRequest<'_>) -> Result<(), GraphError> {
    typed_output::refuse_changes(request.options)?;
    let types = types(request)?;
    let relations = relations(request, &types)?;
    let adds_reverse = request.options.reverse.unwrap_or(true);
    let reversal = |relation: &OgbRelation| match (adds_reverse, relation.names[0] == relation.names[2]) {
        (false, _) => Reversal::None,
        (true, true) => Reversal::Same,
        (true, false) => Reversal::Separate,
    };
    let mut sizes = TypedSizes { nodes: types.iter().map(|of| of.nodes).sum(), ..TypedSizes::default() };
    let mut type_names = TypeNames::default();
    let mut nodes = Vec::new();
    for OgbType { name, nodes: count, features, columns, labels } in &types {
        let mut entry = type_names.node_type(name, *count, request.watch.note);
        let element = if request.options.float8.is_some() { ElementType::E4m3 } else { ElementType::F32 };
        entry.feat_dtype = features.as_ref().map(|_| element.name().to_owned());
        sizes.node_bytes += count * (features.as_ref().map_or(0, |_| 4 * *columns as u64));
        sizes.node_bytes += labels.as_ref().map_or(0, |_| 16 * count);
        nodes.push(entry);
    }
    let renamed = |name: &str| {
        let at = types.iter().position(|of| of.name == name).unwrap_or(0);
        nodes[at].name.clone()
    };
    let mut planned = Vec::new();
    for relation in &relations {
        let [source, name, destination] = &relation.names;
        let reversal = reversal(relation);
        let names = [&*renamed(source), name, &*renamed(destination)];
        let plan = type_names.relation(names, reversal, request.watch.note);
        let (lists, directions) = match reversal {
            Reversal::None => (relation.ends[1], 1),
            Reversal::Same => (relation.ends[1], 2),
            Reversal::Separate => (relation.ends[0] + relation.ends[1], 2),
        };
        sizes.relations.push(RelationSizes {
            lists,
            entries: directions * relation.count,
            ..RelationSizes::default()
        });
        planned.push(plan);
    }
    let (scheme, splits) = splits(request, &types)?;
    let with_splits: Vec<usize> =
        (0..types.len()).filter(|&at| splits[at].iter().any(Option::is_some)).collect();
    let target = match with_splits[..] {
        [only] => Some(nodes[only].name.clone()),
        _ => None,
    };
    if request.options.split.is_some() {
        return Err(GraphError::usage("split", "not supported with a typed graph of ogb"));
    }
    let plan = GraphPlan { nodes, relations: planned, target };
    let mut writer = typed_output::begin(request, plan, &sizes)?;
    for (number, of) in (0..).zip(&types) {
        write_nodes(request, &writer, NodeType(number), of, &splits[usize::from(number)])?;
    }
    for (number, relation) in (0..).zip(&relations) {
        write_edges(request, &mut writer, Relation(number), relation)?;
    }
    let mut meta = Meta::default();
    meta.other.insert("source".to_owned(), json!("ogb"));
    meta.other.insert("split".to_owned(), json!(scheme));
    typed_output::finish(request, writer, meta)
}

/// The comma-separated fields of every line.
fn fields(path: &Path) -> Result<Vec<Vec<String>>, GraphError> {
    let mut lines = Vec::new();
    each_line(path, &|_| {}, |_, text| {
        let text = std::str::from_utf8(text).map_err(|_| LineError::Line("it is not UTF-8".to_owned()))?;
        lines.push(text.split(',').map(|field| field.trim().to_owned()).collect());
        Ok(())
    })?;
    Ok(lines)
}

fn types(request: &ImportRequest<'_>) -> Result<Vec<OgbType>, GraphError> {
    let path = request.file(TYPES);
    let lines = fields(&path)?;
    let wrong = |found: usize| {
        GraphError::invalid(&path, OgbProblem::Count { what: "lines", found: found as u64, needed: 2 })
    };
    let [type_names, counts] = &lines[..] else { return Err(wrong(lines.len())) };
    let mut types = Vec::new();
    for (name, count) in type_names.iter().zip(counts) {
        let nodes = count.parse().map_err(|_| {
            GraphError::usage("SRC", format!("{}: \"{count}\" is not a number of nodes", path.display()))
        })?;
        let of = |group: &str, file: &str| request.file(group).join(name).join(file);
        let directory = request.file("raw/node-feat").join(name);
        if directory.is_dir() {
            let left = unread_parts::files(&directory, ".csv.gz", |file| {
                ["node-feat.csv.gz", "num-node-list.csv.gz"].contains(&file)
            })?;
            unread_parts::say(request.watch.note, &directory, &left);
        }
        let [features, labels] =
            [of("raw/node-feat", "node-feat.csv.gz"), of("raw/node-label", "node-label.csv.gz")]
                .map(|path| path.is_file().then_some(path));
        let columns = features.as_deref().map_or(Ok(0), columns)?;
        types.push(OgbType { name: name.clone(), nodes, features, columns, labels });
    }
    Ok(types)
}

fn relations(request: &ImportRequest<'_>, types: &[OgbType]) -> Result<Vec<OgbRelation>, GraphError> {
    let path = request.file(RELATIONS);
    let relation = |line: Vec<String>| {
        let names: [String; 3] = line.try_into().map_err(|line: Vec<String>| {
            let problem = OgbProblem::Count { what: "names in a line", found: line.len() as u64, needed: 3 };
            GraphError::invalid(&path, problem)
        })?;
        let nodes = |name: &String| {
            let found = types.iter().find(|of| of.name == *name).map(|of| of.nodes);
            found.ok_or_else(|| {
                GraphError::usage("SRC", format!("{}: {TYPES} has no type {name}", path.display()))
            })
        };
        let ends = [nodes(&names[0])?, nodes(&names[2])?];
        let directory = request.file("raw/relations").join(names.join("___"));
        let counts = directory.join("num-edge-list.csv.gz");
        let count = count(&counts, "edges")?
            .ok_or_else(|| GraphError::io(&counts, "open")(std::io::ErrorKind::NotFound.into()))?;
        Ok(OgbRelation { names, ends, edges: directory.join("edge.csv.gz"), count })
    };
    fields(&path)?.into_iter().map(relation).collect()
}

/// The splits of each type, and the name of their scheme.
fn splits(request: &ImportRequest<'_>, types: &[OgbType]) -> Result<(String, Vec<TypeSplits>), GraphError> {
    let (name, directory) = scheme(request)?;
    let mut splits = Vec::new();
    for of in types {
        let mut of_type = [None, None, None];
        for (split, ids) in Split::ALL.into_iter().zip(&mut of_type) {
            let path = directory.join(&of.name).join(format!("{}.csv.gz", split.name()));
            if path.is_file() {
                *ids = Some(split_ids(&path, of.nodes)?);
            }
        }
        splits.push(of_type);
    }
    Ok((name, splits))
}

fn write_nodes(
    request: &ImportRequest<'_>,
    writer: &TypedWriter,
    node_type: NodeType,
    of: &OgbType,
    splits: &TypeSplits,
) -> Result<(), GraphError> {
    let file = |name: &str| writer.node_file(node_type, name);
    let check = |path: &Path, rows: u64| match rows == of.nodes {
        true => Ok(()),
        false => {
            let problem = OgbProblem::Count { what: "rows", found: rows, needed: of.nodes };
            Err(GraphError::invalid(path, problem))
        }
    };
    if let Some(path) = &of.labels {
        let rows = label_rows(path, columns(path)?, &file(names::LABELS), request.watch.note)?;
        check(path, rows)?;
    }
    for (split, ids) in Split::ALL.into_iter().zip(splits) {
        if let Some(ids) = ids {
            write_array(&file(split.file_name()), NpyType::I64, &[], ids)?;
        }
    }
    if let Some(path) = &of.features {
        let source = FeatureSource { place: path.clone(), data_offset: None };
        let (kind, float8) = ((NpyType::F32, None), request.options.float8);
        let mut features = FeatureWriter::create(&file(names::FEATURES), source, kind, of.columns, float8)?;
        let (rows, rounded) = feature_rows(path, of.columns, &mut features, request.watch)?;
        check(path, rows)?;
        if rounded > 0 {
            let line = format!("{}: {rounded} features are rounded, or 0, as float32", path.display());
            (request.watch.note)(&line);
        }
        if let Some(line) = features.finish()?.1 {
            (request.watch.note)(&line);
        }
    }
    Ok(())
}

fn write_edges(
    request: &ImportRequest<'_>,
    writer: &mut TypedWriter,
    relation: Relation,
    of: &OgbRelation,
) -> Result<(), GraphError> {
    let table = EdgeColumns::default();
    let ends = of.ends.map(ids_of);
    writer.relation(relation, &table, request.watch.progress, &mut |lists| {
        let found = push_edges(&of.edges, lists, &ends, request.watch)?;
        match found == of.count {
            true => Ok(()),
            false => {
                let problem = OgbProblem::Count { what: "edges", found, needed: of.count };
                Err(GraphError::invalid(&of.edges, problem))
            }
        }
    })?;
    Ok(())
}

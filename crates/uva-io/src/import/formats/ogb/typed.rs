//! Typed graphs of OGB, such as ogbn-mag: a directory for each relation and each type with features, labels or splits.
//!
//! | file | what |
//! |---|---|
//! | `raw/num-node-dict.csv.gz` | a line with the node types and one with the numbers of their nodes |
//! | `raw/triplet-type-list.csv.gz` | source, name and destination of a relation in each line |
//! | `raw/relations/S___R___D/edge.csv.gz`, `num-edge-list.csv.gz` | the edges, and their number |
//! | `raw/node-feat/T/node-feat.csv.gz`, `raw/node-label/T/node-label.csv.gz` | as in a graph of one type |
//! | `raw/node-feat/T/NAME.csv.gz` | times, if `time=NAME` |
//! | `split/SCHEME/T/train.csv.gz`, … | node ids, a line each |
//!
//! In place of the files in `raw` there may be [`archives`].

use std::path::Path;

use serde_json::json;
use uva_graph::csc::Changes;
use uva_graph::npy::{NpyType, write_array};
use uva_graph::typed_meta::{NodeTypeMeta, RelationMeta};
use uva_graph::{ElementType, GraphError, Meta, NodeType, Relation, Split, names};

use super::archives;
use super::raw::{OgbProblem, count, ids_of};
use super::splits::{scheme, split_ids};
use super::values::{OgbFeatures, OgbRelation, OgbType, OgbValues};
use crate::import::options::Float8;
use crate::import::reading::features::feature_type;
use crate::import::reading::text::{LineError, each_line};
use crate::import::reading::unread_parts;
use crate::import::request::ImportRequest;
use crate::import::writing::type_names::TypeNames;
use crate::import::writing::typed_changes::{ReverseRule, TypedChanges};
use crate::import::writing::typed_output::{self, RelationSizes, TypedSizes};
use crate::typed::{EdgeColumns, GraphPlan, RelationPlan, TypedWriter};

/// The list of relations, which only typed graphs have.
pub(super) const RELATIONS: &str = "raw/triplet-type-list.csv.gz";
const TYPES: &str = "raw/num-node-dict.csv.gz";

/// The splits of a node type, those that it has.
type TypeSplits = [Option<Vec<i64>>; 3];

/// Imports a typed graph. Reverse edges are added as OGB's and DGL's scripts do, unless the options say otherwise.
pub(super) fn import(request: &ImportRequest<'_>) -> Result<(), GraphError> {
    let (types, relations) = match request.file(archives::EDGES).exists() {
        true => archives::found(request)?,
        false => {
            let types = types(request)?;
            let relations = relations(request, &types)?;
            (types, relations)
        }
    };
    let mut type_names = TypeNames::default();
    let note = request.watch.note;
    let mut nodes: Vec<NodeTypeMeta> =
        types.iter().map(|of| type_names.node_type(&of.name, of.nodes, note)).collect();
    let renamed = |name: &str| {
        let at = types.iter().position(|of| of.name == name).unwrap_or(0);
        nodes[at].name.as_str()
    };
    let edges = relations.iter().map(|OgbRelation { names: [source, name, destination], .. }| {
        type_names.relation([renamed(source), name, renamed(destination)], note)
    });
    let edges: Vec<RelationMeta> = edges.collect();
    let changes = TypedChanges::of(request.options, &nodes, &edges, ReverseRule::ByDefault)?;
    let mut sizes = TypedSizes::default();
    for ((of, entry), float8) in types.iter().zip(&mut nodes).zip(&changes.float8) {
        let element = |features: &OgbFeatures| match float8 {
            Some(_) => ElementType::E4m3,
            None => feature_type(features.kind, None).0,
        };
        entry.feat_dtype = of.features.as_ref().map(|features| element(features).name().to_owned());
        let row_bytes = |features: &OgbFeatures| (element(features).bytes() * features.columns) as u64;
        let row_bytes = of.features.as_ref().map_or(0, row_bytes);
        let row_bytes = row_bytes + of.labels.as_ref().map_or(0, |_| 16) + of.times.as_ref().map_or(0, |_| 8);
        sizes.nodes = sizes.nodes.saturating_add(of.nodes);
        sizes.node_bytes = sizes.node_bytes.saturating_add(of.nodes.saturating_mul(row_bytes));
    }
    let mut planned = Vec::new();
    for ((relation, meta), change) in relations.iter().zip(edges).zip(&changes.relations) {
        let [sources, lists] = relation.ends;
        let of_relation = RelationSizes { lists, entries: relation.count, ..RelationSizes::default() };
        sizes.relations.push(of_relation.changed(sources, *change));
        planned.push(RelationPlan { meta, reversal: change.reversal });
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
        let (splits, float8) = (&splits[usize::from(number)], changes.float8[usize::from(number)]);
        write_nodes(request, &writer, NodeType(number), of, (splits, float8))?;
    }
    for ((number, relation), change) in (0..).zip(&relations).zip(&changes.relations) {
        write_edges(request, &mut writer, Relation(number), relation, change.changes)?;
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
    let time_file = request.options.time.as_ref().map(|name| format!("{name}.csv.gz"));
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
                    || time_file.as_deref() == Some(file)
            })?;
            unread_parts::say(request.watch.note, &directory, &left);
        }
        let [features, labels] =
            [of("raw/node-feat", "node-feat.csv.gz"), of("raw/node-label", "node-label.csv.gz")]
                .map(|path| path.is_file().then_some(OgbValues::Lines(path)));
        let features = features.map(|values| OgbFeatures::of(values, nodes)).transpose()?;
        let times = time_file.as_ref().map(|file| directory.join(file)).filter(|path| path.is_file());
        let times = times.map(OgbValues::Lines);
        types.push(OgbType { name: name.clone(), nodes, features, labels, times });
    }
    if let Some(file) = time_file.filter(|_| types.iter().all(|of| of.times.is_none())) {
        let message = format!("no node type has the file {file} in raw/node-feat");
        return Err(GraphError::usage("time", message));
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
        Ok(OgbRelation { names, ends, edges: OgbValues::Lines(directory.join("edge.csv.gz")), count })
    };
    fields(&path)?.into_iter().map(relation).collect()
}

/// The splits of each type, and the name of their scheme.
fn splits(request: &ImportRequest<'_>, types: &[OgbType]) -> Result<(String, Vec<TypeSplits>), GraphError> {
    let (name, directory) = scheme(request)?;
    // A PyTorch file may contain code.
    let of_torch = unread_parts::files(&directory, ".pt", |_| false)?;
    unread_parts::say(request.watch.note, &directory, &of_torch);
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
    (splits, float8): (&TypeSplits, Option<Float8>),
) -> Result<(), GraphError> {
    let file = |name: &str| writer.node_file(node_type, name);
    let check = |path: &Path, rows: u64| match rows == of.nodes {
        true => Ok(()),
        false => {
            let problem = OgbProblem::Count { what: "rows", found: rows, needed: of.nodes };
            Err(GraphError::invalid(path, problem))
        }
    };
    if let Some(labels) = &of.labels {
        let rows = labels.write_labels(&file(names::LABELS), of.nodes, request.watch.note)?;
        check(&labels.place(), rows)?;
    }
    if let Some(values) = &of.times {
        let times = values.times()?;
        check(&values.place(), times.len() as u64)?;
        write_array(&file(names::TIMES), NpyType::I64, &[], &times)?;
    }
    for (split, ids) in Split::ALL.into_iter().zip(splits) {
        if let Some(ids) = ids {
            write_array(&file(split.file_name()), NpyType::I64, &[], ids)?;
        }
    }
    if let Some(features) = &of.features {
        let rows = features.write(&file(names::FEATURES), float8, request.watch)?;
        check(&features.place(), rows)?;
    }
    Ok(())
}

fn write_edges(
    request: &ImportRequest<'_>,
    writer: &mut TypedWriter,
    relation: Relation,
    of: &OgbRelation,
    changes: Changes,
) -> Result<(), GraphError> {
    let table = EdgeColumns::default();
    let ends = of.ends.map(ids_of);
    writer.relation_with(relation, changes, &table, request.watch.progress, &mut |lists| {
        let found = of.edges.push_edges(lists, &ends, request.watch)?;
        match found == of.count {
            true => Ok(()),
            false => {
                let problem = OgbProblem::Count { what: "edges", found, needed: of.count };
                Err(GraphError::invalid(&of.edges.place(), problem))
            }
        }
    })?;
    Ok(())
}

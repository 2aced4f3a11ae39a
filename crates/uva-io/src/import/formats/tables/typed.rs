//! Typed graphs of tables: `nodes/T` and `edges/S__R__D`, a table for each node type and relation, with the columns of a
//! graph of one type.
//!
//! Types and relations are in the order of their names. A type without a table has the ids that occur in its relations.
//! All relations at a type have ids of one kind. A type without features has none.

use std::path::PathBuf;

use serde_json::json;
use uva_files::quote::{listed, shown};
use uva_graph::csc::Changes;
use uva_graph::npy::{NpyArray, NpyType, write_array};
use uva_graph::typed_meta::{NodeTypeMeta, RelationMeta};
use uva_graph::{ElementType, GraphError, Meta, NodeType, Relation, Split, names};

use super::edge_table::EdgeTable;
use super::node_table::NodeTable;
use super::table::SourceTable;
use crate::import::options::{Float8, Ids, TableColumns};
use crate::import::reading::unread_parts;
use crate::import::request::ImportRequest;
use crate::import::writing::array_target::TypePlace;
use crate::import::writing::numbering::{Numbering, Survey};
use crate::import::writing::type_names::TypeNames;
use crate::import::writing::typed_changes::{ReverseRule, TypedChanges};
use crate::import::writing::typed_output::{self, RelationSizes, TypedSizes};
use crate::typed::{EdgeColumn, EdgeColumns, GraphPlan, RelationPlan, TypedWriter};

/// Files with a row for each edge in the order of the source.
const UNORDERED_FEATURES: &str = "feat.temporary";
const UNORDERED_WEIGHTS: &str = "weight.temporary";

/// The directories of the tables.
const NODES: &str = "nodes";
const EDGES: &str = "edges";

/// Opens the table at a path.
type Open<'o> = &'o dyn Fn(&PathBuf) -> Result<Box<dyn SourceTable>, GraphError>;

/// Whether the source has tables of several types, and no table of all edges.
pub(crate) fn is_typed(request: &ImportRequest<'_>, endings: &[&str]) -> bool {
    let is_alone = |ending: &&str| request.file(format!("{EDGES}.{ending}")).exists();
    request.file(EDGES).is_dir() && !endings.iter().any(is_alone)
}

/// A node type: the name of the source, its table, and the nodes of its ids.
struct TypeTable {
    name: String,
    nodes: Option<NodeTable>,
    numbering: Numbering,
}

/// A relation: the names of the source, the places of the types at its ends, and its table.
struct RelationTable {
    names: [String; 3],
    ends: [usize; 2],
    edges: EdgeTable,
}

/// Imports the typed graph of the source, whose tables are the entries that have one of `endings`.
pub(crate) fn import(
    request: &ImportRequest<'_>,
    source: &str,
    endings: &[&str],
    open: Open<'_>,
) -> Result<(), GraphError> {
    let (types, relations) = found(request, endings, open)?;
    let note = request.watch.note;
    let mut type_names = TypeNames::default();
    let mut nodes: Vec<NodeTypeMeta> =
        types.iter().map(|of| type_names.node_type(&of.name, of.numbering.nodes(), note)).collect();
    let edges: Vec<RelationMeta> = relations
        .iter()
        .map(|of| {
            let [from, to] = of.ends.map(|end| nodes[end].name.as_str());
            type_names.relation([from, &of.names[1], to], note)
        })
        .collect();
    let changes = TypedChanges::of(request.options, &nodes, &edges, ReverseRule::OnRequest)?;

    let mut sizes = TypedSizes::default();
    for ((of, entry), float8) in types.iter().zip(&mut nodes).zip(&changes.float8) {
        let element = of.nodes.as_ref().and_then(NodeTable::feature_element);
        let element = element.map(|element| if float8.is_some() { ElementType::E4m3 } else { element });
        entry.feat_dtype = element.map(|element| element.name().to_owned());
        let width = of.nodes.as_ref().and_then(NodeTable::feature_width).unwrap_or(0);
        // Features, and about a label and an id.
        let row_bytes = width.saturating_mul(4).saturating_add(16);
        sizes.nodes = sizes.nodes.saturating_add(entry.num);
        sizes.node_bytes = sizes.node_bytes.saturating_add(entry.num.saturating_mul(row_bytes));
    }
    let mut planned = Vec::new();
    for ((of, meta), change) in relations.iter().zip(edges).zip(&changes.relations) {
        of.edges.refuse_changes(change.changes)?;
        let [sources, lists] = of.ends.map(|end| types[end].numbering.nodes());
        let weight_bytes = if of.edges.weight.is_some() { 4 } else { 0 };
        let row_bytes = of.edges.feature_row_bytes() + weight_bytes;
        let entries = of.edges.table.rows();
        let of_relation = RelationSizes { lists, entries, row_bytes, temporary_row_bytes: row_bytes };
        sizes.relations.push(of_relation.changed(sources, *change));
        planned.push(RelationPlan { meta, reversal: change.reversal });
    }
    let target = target(&types);
    if request.options.split.is_some() && target.is_none() {
        let message = "requires one node type with a column of labels or splits, the type that is split";
        return Err(GraphError::usage("split", message));
    }
    let target_name = target.map(|at| nodes[at].name.clone());
    let plan = GraphPlan { nodes, relations: planned, target: target_name };
    let mut writer = typed_output::begin(request, plan, &sizes)?;
    for ((number, of), change) in (0..).zip(&relations).zip(&changes.relations) {
        let numbering = of.ends.map(|end| &types[end].numbering);
        write_relation(request, &mut writer, (Relation(number), of), numbering, change.changes)?;
    }
    let mut meta = Meta::default();
    meta.other.insert("source".to_owned(), json!(source));
    for (at, of) in types.iter().enumerate() {
        let how = (changes.float8[at], changes.regression[at]);
        let node_type = NodeType(u16::try_from(at).unwrap_or(u16::MAX));
        write_type(request, &writer, (node_type, target == Some(at)), of, how, &mut meta)?;
    }
    typed_output::finish(request, writer, meta)
}

/// The tables of a directory, by the names of their types or relations.
fn tables_in(
    request: &ImportRequest<'_>,
    group: &str,
    endings: &[&str],
) -> Result<Vec<(String, PathBuf)>, GraphError> {
    let directory = request.file(group);
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let (mut tables, mut left): (Vec<(String, PathBuf)>, _) = (Vec::new(), Vec::new());
    let files = unread_parts::files(&directory, "", |_| false)?;
    for file in files {
        let name = endings.iter().find_map(|ending| file.strip_suffix(ending)?.strip_suffix('.'));
        match name {
            Some(name) if tables.last().is_some_and(|(other, _)| other == name) => {
                let message = format!("{} has two tables {}: remove one", directory.display(), shown(name));
                return Err(GraphError::usage("SRC", message));
            }
            Some(name) => tables.push((name.to_owned(), directory.join(&file))),
            None => left.push(file),
        }
    }
    unread_parts::say(request.watch.note, &directory, &left);
    Ok(tables)
}

/// Opens all tables and numbers the nodes of all types.
fn found(
    request: &ImportRequest<'_>,
    endings: &[&str],
    open: Open<'_>,
) -> Result<(Vec<TypeTable>, Vec<RelationTable>), GraphError> {
    let mut tables = Vec::new();
    for (name, path) in tables_in(request, NODES, endings)? {
        tables.push((name, open(&path)?));
    }
    check_named(request, &tables)?;
    let mut types: Vec<(String, Option<NodeTable>)> = Vec::new();
    for (name, table) in tables {
        let nodes = NodeTable::new_of_type(table, &request.options.tables)?;
        nodes.say_columns(request.watch.note);
        types.push((name, Some(nodes)));
    }
    let mut edges = Vec::new();
    for (name, path) in tables_in(request, EDGES, endings)? {
        let parts: Vec<String> = name.split("__").map(str::to_owned).collect();
        let names = <[String; 3]>::try_from(parts).map_err(|_| {
            let message = format!(
                "{}: a table of edges is called SOURCE__RELATION__DESTINATION, such as author__writes__paper",
                path.display()
            );
            GraphError::usage("SRC", message)
        })?;
        for end in [&names[0], &names[2]] {
            if !types.iter().any(|(other, _)| other == end) {
                types.push((end.clone(), None));
            }
        }
        let table = EdgeTable::new(open(&path)?)?;
        table.say_columns(request.watch.note);
        edges.push((names, table));
    }
    if edges.is_empty() {
        let message = format!("{} has no tables (.{})", request.file(EDGES).display(), listed(endings));
        return Err(GraphError::usage("SRC", message));
    }
    types.sort_by(|one, other| one.0.cmp(&other.0));
    let mut relations = Vec::new();
    for (names, edges) in edges {
        let end = |name: &String| types.iter().position(|(other, _)| other == name).unwrap_or(0);
        let ends = [end(&names[0]), end(&names[2])];
        relations.push(RelationTable { names, ends, edges });
    }
    let mut numbered = Vec::new();
    for (at, (name, nodes)) in types.into_iter().enumerate() {
        let numbering = match &nodes {
            Some(nodes) => {
                relations
                    .iter_mut()
                    .try_for_each(|of| of.edges.take_ids_at(of.ends, at, nodes.ids(), &name))?;
                nodes.numbering(&format!("the table of {name}"))?
            }
            None => {
                let ids = relations.iter().find_map(|of| of.edges.ids_at(of.ends, at)).unwrap_or(Ids::Number);
                let mut survey = Survey::new(ids);
                for of in &mut relations {
                    of.edges.take_ids_at(of.ends, at, ids, &name)?;
                    of.edges.survey_at(of.ends, at, &mut survey, request.watch)?;
                }
                survey.finish()
            }
        };
        numbered.push(TypeTable { name, nodes, numbering });
    }
    Ok((numbered, relations))
}

/// Refuses a column of the options that no table of nodes has.
fn check_named(
    request: &ImportRequest<'_>,
    tables: &[(String, Box<dyn SourceTable>)],
) -> Result<(), GraphError> {
    let TableColumns { node_id, label } = &request.options.tables;
    for (option, name) in [("node_id", node_id), ("label", label)] {
        let Some(name) = name else { continue };
        if !tables.iter().any(|(_, table)| table.find(&[name]).is_some()) {
            let message = format!("no table of nodes has a column {}", shown(name));
            return Err(GraphError::usage(option, message));
        }
    }
    Ok(())
}

/// The only type with splits, else the only one with labels.
fn target(types: &[TypeTable]) -> Option<usize> {
    let only = |has: fn(&NodeTable) -> bool| {
        let of: Vec<usize> =
            (0..types.len()).filter(|&at| types[at].nodes.as_ref().is_some_and(has)).collect();
        match of[..] {
            [only] => Some(only),
            _ => None,
        }
    };
    only(NodeTable::has_split).or_else(|| only(NodeTable::has_label))
}

fn write_relation(
    request: &ImportRequest<'_>,
    writer: &mut TypedWriter,
    (relation, of): (Relation, &RelationTable),
    numbering: [&Numbering; 2],
    changes: Changes,
) -> Result<(), GraphError> {
    let watch = request.watch;
    let file = |name: &str| writer.relation_file(relation, name);
    let directory = file("");
    let (features_file, weights_file) = (file(UNORDERED_FEATURES), file(UNORDERED_WEIGHTS));
    let place = TypePlace { directory: &directory, features: UNORDERED_FEATURES, float8: None, watch };
    let element = of.edges.write_features(&place)?;
    let features = element.map(|_| NpyArray::open(&features_file)).transpose()?;
    let weights = match of.edges.write_weights(&weights_file, watch.note)? {
        true => Some(NpyArray::open(&weights_file)?),
        false => None,
    };
    let columns = EdgeColumns {
        columns: weights.iter().map(|array| EdgeColumn::of_array(names::WEIGHTS, array)).collect(),
        features: features.as_ref().map(|array| EdgeColumn::of_array(names::FEATURES, array)),
        ..EdgeColumns::default()
    };
    writer.relation_with(relation, changes, &columns, watch.progress, &mut |lists| {
        of.edges.push_into(lists, numbering, watch)
    })?;
    writer.relation_meta(relation).feat_dtype = element.map(|element| element.name().to_owned());
    for array in [&features, &weights].into_iter().flatten() {
        std::fs::remove_file(array.path()).map_err(GraphError::io(array.path(), "remove"))?;
    }
    Ok(())
}

fn write_type(
    request: &ImportRequest<'_>,
    writer: &TypedWriter,
    (node_type, is_target): (NodeType, bool),
    of: &TypeTable,
    (float8, regression): (Option<Float8>, bool),
    meta: &mut Meta,
) -> Result<(), GraphError> {
    let directory = writer.node_file(node_type, "");
    of.numbering.write(&directory)?;
    let Some(nodes) = &of.nodes else { return Ok(()) };
    let place = TypePlace { directory: &directory, features: names::FEATURES, float8, watch: request.watch };
    nodes.write_features(&place)?;
    if nodes.has_label()
        && let Some(class_names) = nodes.write_labels(&place, regression)?
    {
        match is_target {
            true => meta.class_names = Some(class_names),
            false => {
                let key = format!("class_names of {}", of.name);
                meta.other.insert(key, json!(class_names));
            }
        }
    }
    if is_target && request.options.split.is_some() {
        let path = directory.join(names::LABELS);
        let labels = if path.exists() { Some(NpyArray::open(&path)?) } else { None };
        let labels = labels.as_ref().filter(|labels| labels.kind() == NpyType::I64);
        let labels = labels.map(|labels| labels.elements::<i64>(NpyType::I64)).transpose()?;
        let count = usize::try_from(of.numbering.nodes()).unwrap_or(usize::MAX);
        return typed_output::split_by_rule(request, writer, node_type, (count, labels), meta);
    }
    if nodes.has_split() {
        for (split, ids) in Split::ALL.into_iter().zip(nodes.splits()?) {
            let path = directory.join(split.file_name());
            write_array(&path, NpyType::I64, &[], &ids)?;
        }
    }
    Ok(())
}

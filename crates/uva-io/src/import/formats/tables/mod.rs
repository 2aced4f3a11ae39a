//! Tables of edges and of nodes, independent of the file format: the selection of columns and their meaning.
//!
//! A format of tables implements [`SourceTable`]. If the format has types, columns are selected by name; if all values
//! are text, other columns of numbers are features too, in the table's order.

mod edge_table;
mod feature_columns;
mod id_cells;
mod labels;
mod node_table;
mod table;

use serde_json::{Map, json};
use uva_graph::csc::Changes;
use uva_graph::{GraphError, Meta};

pub(super) use self::table::{CellType, Cells, SourceTable, TableColumn, TableReader, Texts};

use self::edge_table::EdgeTable;
use self::node_table::NodeTable;
use crate::import::request::ImportRequest;
use crate::import::writing::output::{DatasetOutput, DatasetSizes};

/// Imports the graph of a table of edges, and an optional table of nodes. `source` is the importer's name.
pub(super) fn import(
    request: &ImportRequest<'_>,
    source: &str,
    edges: Box<dyn SourceTable>,
    nodes: Option<Box<dyn SourceTable>>,
) -> Result<(), GraphError> {
    let changes = request.options.changes(Changes::NONE);
    let mut edges = EdgeTable::new(edges)?;
    let named = &request.options.tables;
    if nodes.is_none() && (named.node_id.is_some() || named.label.is_some()) {
        let message =
            format!("there is no table of nodes in the directory of {}", edges.table.path().display());
        return Err(GraphError::usage("`node_id` or `label`", message));
    }
    let mut nodes = nodes.map(|table| NodeTable::new(table, request)).transpose()?;
    let ids = edges.agree_on_ids(nodes.as_ref().map(NodeTable::ids))?;
    if let Some(nodes) = &mut nodes {
        nodes.take_ids(ids)?;
    }
    edges.refuse_changes(changes)?;
    edges.say_columns(request.watch.note);
    if let Some(nodes) = &nodes {
        nodes.say_columns(request.watch.note);
    }
    let numbering = match &nodes {
        Some(nodes) => nodes.numbering()?,
        None => edges.survey(request)?,
    };

    let sizes = DatasetSizes {
        nodes: Some(numbering.nodes()),
        edges: Some(edges.table.rows()),
        feature_row_bytes: nodes.as_ref().map_or(4, NodeTable::feature_row_bytes),
        label_row_bytes: 8,
        weighted: edges.weight.is_some(),
        edge_row_bytes: edges.feature_row_bytes(),
        seconds: None,
    };
    let output = DatasetOutput::begin(request, sizes, changes)?;
    let of_edges = edges.write_features(&output)?;
    let mut lists = output.lists(numbering.nodes(), edges.weight.is_some())?;
    edges.push_into(&mut lists, &numbering, &output)?;
    output.finish_lists(lists)?;
    numbering.write(&output)?;
    let (element, class_names) = match &nodes {
        Some(nodes) => nodes.write(&output, request.options.is_regression())?,
        None => {
            output.splits(&[[]; 3])?;
            (output.constant_features(numbering.nodes())?, None)
        }
    };
    output.finish(Meta {
        name: request.name(None),
        classes: class_names.as_ref().map(|names| names.len() as u64),
        class_names,
        feat_dtype: Some(element.name().to_owned()),
        edge_feat_dtype: of_edges.map(|element| element.name().to_owned()),
        other: Map::from_iter([("source".to_owned(), json!(source))]),
        ..Meta::default()
    })
}

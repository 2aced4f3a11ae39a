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
mod typed;

use serde_json::{Map, json};
use uva_graph::csc::Changes;
use uva_graph::{ElementType, GraphError, Meta};

pub(super) use self::table::{CellType, Cells, SourceTable, TableColumn, TableReader, Texts};

pub(super) use self::typed::{import as import_typed, is_typed};

use self::edge_table::EdgeTable;
use self::node_table::NodeTable;
use crate::import::request::ImportRequest;
use crate::import::writing::array_target::DatasetPlace;
use crate::import::writing::output::{DatasetOutput, DatasetSizes, FeaturesOf};

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
    let mut nodes = nodes.map(|table| NodeTable::new(table, named)).transpose()?;
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
        Some(nodes) => nodes.numbering("the table of nodes")?,
        None => edges.survey(request)?,
    };

    let sizes = DatasetSizes {
        nodes: Some(numbering.nodes()),
        edges: Some(edges.table.rows()),
        feature_row_bytes: 4 * nodes.as_ref().and_then(NodeTable::feature_width).unwrap_or(1),
        label_row_bytes: 8,
        weighted: edges.weight.is_some(),
        edge_row_bytes: edges.feature_row_bytes(),
        seconds: None,
    };
    let output = DatasetOutput::begin(request, sizes, changes)?;
    let of_edges = edges.write_features(&DatasetPlace { output: &output, of: FeaturesOf::Edges })?;
    let mut lists = output.lists(numbering.nodes(), edges.weight.is_some())?;
    edges.say_weights(request.watch.note);
    edges.push_into(&mut lists, [&numbering; 2], request.watch)?;
    output.finish_lists(lists)?;
    numbering.write(output.directory())?;
    let (element, class_names) = match &nodes {
        Some(nodes) => write_nodes(nodes, &output, request.options.is_regression())?,
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

/// Writes features, labels and splits. Returns the type of the features and the names of the classes, if labels are text.
fn write_nodes(
    nodes: &NodeTable,
    output: &DatasetOutput<'_>,
    regression: bool,
) -> Result<(ElementType, Option<Vec<String>>), GraphError> {
    let place = DatasetPlace { output, of: FeaturesOf::Nodes };
    let element = match nodes.write_features(&place)? {
        Some(element) => element,
        None => {
            output.note(&format!("{}: every node has one, 1", nodes.no_features()));
            output.constant_features(nodes.rows())?
        }
    };
    let class_names = nodes.write_labels(&place, regression)?;
    output.splits(&nodes.splits()?)?;
    Ok((element, class_names))
}

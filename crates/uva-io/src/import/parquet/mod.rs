//! Parquet tables, as written by Arrow, pandas, polars, DuckDB and Spark: one of edges, and an optional one of nodes.
//!
//! | table | column | names, the first found is taken | type |
//! |---|---|---|---|
//! | edges | source | `src`, `source`, `src_id`, `from` | integers, or text |
//! | | destination | `dst`, `destination`, `target`, `dst_id`, `to` | as the source |
//! | | weight | `weight`, `edge_weight` | float or double; only where the edges stay as they are |
//! | | features | `edge_attr`, `edge_feat`, `feat` | lists of one length, as of nodes; likewise only where the edges stay |
//! | | | else one of these and a number: `edge_attr_0`, `edge_attr_1`, … | numbers |
//! | nodes | id | `id`, `node_id`, `node` | as the source: row k is node k |
//! | | features | `feat`, `x`, `features`, `node_feat` | lists of one length, of float, double or integers |
//! | | | else one of these and a number: `feat_0`, `feat_1`, …, or `x1`, `x2`, … | numbers |
//! | | label | `label`, `labels`, `y`, `node_label` | integers, or floats that are whole; null or NaN means none |
//! | | split | `split` | text: `train`, `valid`, `val`, `validation` or `test`; null, `none` or empty means none |
//!
//! Numbered columns are taken in the order of their numbers, whatever the first one and the padding.
//!
//! Without a table of nodes, the nodes are the occurring ids, as for an edge list. Other columns are not read, and a line
//! names each.

mod edge_table;
mod feature_columns;
mod id_cells;
mod node_table;
mod page_header;
mod pages;
mod plain;
mod table;
mod thrift;

use serde_json::{Map, json};
use uva_graph::csc::Changes;
use uva_graph::{GraphError, Meta};

use self::edge_table::EdgeTable;
use self::node_table::NodeTable;
use super::importer::{Importer, SourceKind};
use super::options::Extra;
use super::output::{Output, Sizes};
use super::request::Request;

/// The row in the table.
pub(super) const IMPORTER: Importer = Importer {
    name: "parquet",
    help: "Parquet tables of edges and nodes, with ids that are integers or text",
    source: SourceKind::Either(
        "a .parquet file of edges, or a directory with edges.parquet and perhaps nodes.parquet",
    ),
    takes: &[Extra::Regression],
    import,
};

/// Imports one graph.
fn import(request: &Request<'_>) -> Result<(), GraphError> {
    let changes = request.options.changes(Changes::NONE);
    let (edges, nodes) = match request.source.is_dir() {
        true => {
            (request.file("edges.parquet"), Some(request.file("nodes.parquet")).filter(|path| path.exists()))
        }
        false => (request.source.to_owned(), None),
    };
    let edges = EdgeTable::open(&edges, changes)?;
    let nodes = nodes.map(|path| NodeTable::open(&path, edges.ids)).transpose()?;
    edges.say_left_out(request.watch.note);
    if let Some(nodes) = &nodes {
        nodes.say_left_out(request.watch.note);
    }
    let numbering = match &nodes {
        Some(nodes) => nodes.numbering()?,
        None => edges.survey(request)?,
    };

    let sizes = Sizes {
        nodes: Some(numbering.nodes()),
        edges: Some(edges.table.rows()),
        feature_row_bytes: nodes.as_ref().map_or(4, NodeTable::feature_row_bytes),
        label_row_bytes: 8,
        weighted: edges.weight.is_some(),
        edge_row_bytes: edges.feature_row_bytes(),
        seconds: None,
    };
    let output = Output::begin(request, sizes, changes)?;
    let of_edges = edges.write_features(&output)?;
    let mut lists = output.lists(numbering.nodes(), edges.weight.is_some())?;
    edges.push_into(&mut lists, &numbering, &output)?;
    output.finish_lists(lists)?;
    numbering.write(&output)?;
    let element = match &nodes {
        Some(nodes) => nodes.write(&output, request.options.regression)?,
        None => {
            output.splits(&[[]; 3])?;
            output.constant_features(numbering.nodes())?
        }
    };
    output.finish(Meta {
        name: request.name(None),
        feat_dtype: Some(element.name().to_owned()),
        edge_feat_dtype: of_edges.map(|element| element.name().to_owned()),
        other: Map::from_iter([("source".to_owned(), json!("parquet"))]),
        ..Meta::default()
    })
}

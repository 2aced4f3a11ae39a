//! Parquet tables, as written by Arrow, pandas, polars, DuckDB and Spark: one of edges, and an optional one of nodes.
//!
//! | table | column | names, the first found is taken | type |
//! |---|---|---|---|
//! | edges | source | `src`, `source`, `src_id`, `from` | integers, or text |
//! | | destination | `dst`, `destination`, `target`, `dst_id`, `to` | as the source |
//! | | weight | `weight`, `edge_weight` | float or double; only if the edges are unchanged |
//! | | features | `edge_attr`, `edge_feat`, `feat` | lists of one length, as of nodes; only if the edges are unchanged |
//! | | | else one of these and a number: `edge_attr_0`, `edge_attr_1`, … | numbers |
//! | nodes | id | `id`, `node_id`, `node` | as the source: row k is node k |
//! | | features | `feat`, `x`, `features`, `node_feat` | lists of one length, of float, double or integers |
//! | | | else one of these and a number: `feat_0`, `feat_1`, …, or `x1`, `x2`, … | numbers |
//! | | label | `label`, `labels`, `y`, `node_label`, `class`, `target` | integers, or floats that are whole; or text, the name of a class; null or NaN means none |
//! | | split | `split` | text: `train`, `valid`, `val`, `validation` or `test`; null, `none` or empty means none |
//!
//! Numbered columns are taken in the order of their numbers, whatever the first one and the padding.
//!
//! Typed graphs have a table for each node type and relation. Without a table of nodes, the nodes are the occurring ids, as for an edge list. Other columns are not read, and each
//! is reported.

mod delta;
mod files;
mod lz4;
mod page_header;
mod pages;
mod part;
mod plain;
mod table;
mod thrift;

use std::path::PathBuf;

use uva_graph::GraphError;

use self::table::ParquetTable;
use super::tables::{self, SourceTable};
use crate::import::importer::{Importer, SourceKind};
use crate::import::options::Extra;
use crate::import::request::ImportRequest;

/// The row in the table.
pub(crate) const IMPORTER: Importer = Importer {
    name: "parquet",
    help: "Parquet tables of edges and nodes, with ids that are integers or text",
    source: SourceKind::Either(
        "a .parquet file of edges, or a directory with edges.parquet and perhaps nodes.parquet, or with \
         edges/S__R__D.parquet and nodes/T.parquet, each a file or a directory of part files",
    ),
    takes: &[Extra::Regression, Extra::Reverse, Extra::Tables],
    import,
};

/// Imports one graph.
fn import(request: &ImportRequest<'_>) -> Result<(), GraphError> {
    let open = |path: &PathBuf| {
        let table = ParquetTable::open(path, &files::of_table(path, request.watch.note)?)?;
        Ok::<_, GraphError>(Box::new(table) as Box<dyn SourceTable>)
    };
    if tables::is_typed(request, &["parquet"]) {
        return tables::import_typed(request, "parquet", &["parquet"], &open);
    }
    let (edges, nodes) = files::of_source(request)?;
    let edges = open(&edges)?;
    let nodes = nodes.as_ref().map(open).transpose()?;
    tables::import(request, "parquet", edges, nodes)
}

/// The table in these files, of which there is at least one.
pub(super) fn open_files(files: &[PathBuf]) -> Result<Box<dyn SourceTable>, GraphError> {
    Ok(Box::new(ParquetTable::open(&files[0], files)?))
}

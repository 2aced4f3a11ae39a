//! Parquet tables, as Arrow, pandas, polars, DuckDB and Spark write them: one of edges, and perhaps one of nodes.
//!
//! | table | column | names, the first found is taken | type |
//! |---|---|---|---|
//! | edges | source | `src`, `source`, `src_id`, `from` | integers, or text |
//! | | destination | `dst`, `destination`, `target`, `dst_id`, `to` | as the source |
//! | | weight | `weight`, `edge_weight` | float or double; only where the edges stay as they are |
//! | nodes | id | `id`, `node_id`, `node` | as the source: row k is node k |
//! | | features | `feat`, `x`, `features`, `node_feat` | lists of one length, of float, double or integers |
//! | | | else `feat_0`, `feat_1`, …, or `x_0`, `x_1`, … | numbers |
//! | | label | `label`, `labels`, `y`, `node_label` | integers, or floats that are whole; null or NaN means none |
//! | | split | `split` | text: `train`, `valid`, `val`, `validation` or `test`; null, `none` or empty means none |
//!
//! Without a table of nodes these are the ids that occur, as for an edge list. Other columns are not read.

mod pages;
mod table;
mod thrift;

use std::path::Path;

use serde_json::{Map, json};
use uva_graph::csc::{Changes, CscBuilder};
use uva_graph::npy::{NpyType, NpyWriter};
use uva_graph::quote::shown;
use uva_graph::{ElementType, GraphError, Meta, Progress, names};

use self::table::{Cells, Column, Kind, Stream, Table};
use super::features::FeatureSource;
use super::importer::{Importer, SourceKind};
use super::nodes::Nodes;
use super::numbering::{Numbering, Survey, Twice};
use super::options::Ids;
use super::output::{CHUNK, Output, Sizes, no_labels};
use super::request::Request;
use super::values;

/// Features in columns of their own: each column holds a page of memory.
const MOST_COLUMNS: usize = 4096;

/// Features in lists.
const LONGEST_LIST: u64 = 1 << 24;

const FEATURES: [&str; 4] = ["feat", "x", "features", "node_feat"];
const LABELS: [&str; 4] = ["label", "labels", "y", "node_label"];

/// The row in the table.
pub(super) const IMPORTER: Importer = Importer {
    name: "parquet",
    help: "Parquet tables of edges and nodes, with ids that are integers or text",
    source: SourceKind::Either(
        "a .parquet file of edges, or a directory with edges.parquet and perhaps nodes.parquet",
    ),
    takes: &[],
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
        seconds: None,
    };
    let output = Output::begin(request, sizes, changes)?;
    let mut lists = output.lists(numbering.nodes(), edges.weight.is_some())?;
    edges.push_into(&mut lists, &numbering, &output)?;
    output.finish_lists(lists)?;
    numbering.write(&output)?;
    let element = match &nodes {
        Some(nodes) => nodes.write(&output)?,
        None => {
            output.no_labels(numbering.nodes())?;
            output.splits(&[[]; 3])?;
            output.constant_features(numbering.nodes())?
        }
    };
    output.finish(Meta {
        name: request.name(None),
        classes: None,
        feat_dtype: Some(element.name().to_owned()),
        licence: None,
        other: Map::from_iter([("source".to_owned(), json!("parquet"))]),
    })
}

/// A node's id in a table.
enum Id<'t> {
    Number(i64),
    Name(&'t [u8]),
}

/// The ids of a batch of rows, none of them null.
struct IdCells<'t> {
    table: &'t Table,
    column: &'t Column,
    first_row: u64,
    cells: Cells,
}

impl<'t> IdCells<'t> {
    fn next(
        table: &'t Table,
        column: &'t Column,
        stream: &mut Stream<'_>,
    ) -> Result<Option<IdCells<'t>>, GraphError> {
        let first_row = stream.row();
        Ok(stream.cells(CHUNK)?.map(|cells| IdCells { table, column, first_row, cells }))
    }

    fn len(&self) -> usize {
        match &self.cells {
            Cells::Integers(cells) => cells.len(),
            Cells::Text(cells) => cells.len(),
            _ => 0,
        }
    }

    fn get(&self, at: usize) -> Result<Id<'_>, GraphError> {
        let problem = match &self.cells {
            Cells::Integers(cells) => match cells[at] {
                Some(id) => return Ok(Id::Number(id)),
                None => "the id is null",
            },
            Cells::Text(cells) => match cells[at].as_ref().map(|id| id.data()) {
                // The names of nodes are kept a line each.
                Some(id) if id.is_empty() || id.contains(&b'\n') || id.ends_with(b"\r") => {
                    "the id is empty, or has an end of line in it"
                }
                Some(id) => return Ok(Id::Name(id)),
                None => "the id is null",
            },
            _ => "the id is neither an integer nor text",
        };
        Err(self.wrong(at, problem))
    }

    fn wrong(&self, at: usize, problem: impl Into<String>) -> GraphError {
        self.table.wrong_cell(self.column, self.first_row + at as u64, problem)
    }

    /// The node that the id in this row means, which is an edge's `end`.
    fn place(&self, at: usize, numbering: &Numbering, end: &str) -> Result<u64, GraphError> {
        let found = match self.get(at)? {
            Id::Number(id) => numbering.place_of_number(id, end),
            Id::Name(id) => numbering.place_of_name(id, end),
        };
        found.map_err(|problem| self.wrong(at, problem))
    }
}

/// A column of ids: integers or text.
fn id_column(table: &Table, names: &[&str]) -> Result<(Column, Ids), GraphError> {
    let column = table.of_kind(table.required(names)?, &[Kind::Integer, Kind::Text], "integers or text")?;
    let ids = if column.kind == Kind::Text { Ids::Name } else { Ids::Number };
    Ok((column, ids))
}

/// The same of a column whose ids have to be those of another one.
fn id_column_like(table: &Table, names: &[&str], ids: Ids) -> Result<Column, GraphError> {
    match id_column(table, names)? {
        (column, same) if same == ids => Ok(column),
        (column, _) if ids == Ids::Name => {
            Err(table.wrong_type(&column, "text, as the sources of the edges are"))
        }
        (column, _) => Err(table.wrong_type(&column, "integers, as the sources of the edges are")),
    }
}

struct EdgeTable {
    table: Table,
    source: Column,
    destination: Column,
    weight: Option<Column>,
    ids: Ids,
}

impl EdgeTable {
    fn open(path: &Path, changes: Changes) -> Result<EdgeTable, GraphError> {
        let table = Table::open(path)?;
        let (source, ids) = id_column(&table, &["src", "source", "src_id", "from"])?;
        let destination = id_column_like(&table, &["dst", "destination", "target", "dst_id", "to"], ids)?;
        let weight = table.find(&["weight", "edge_weight"])?;
        let weight =
            weight.map(|column| table.of_kind(column, &[Kind::Float, Kind::Double], "float or double"));
        let weight = weight.transpose()?;
        if weight.is_some() && !changes.is_none() {
            let message = format!(
                "the weights in {} cannot follow edges that are symmetrised, deduplicated or given self-loops: leave \
                 the edges as they are, or take the weights away",
                path.display()
            );
            return Err(GraphError::usage("--symmetrise, --dedup or --self-loops", message));
        }
        Ok(EdgeTable { table, source, destination, weight, ids })
    }

    /// The ids that occur.
    fn survey(&self, request: &Request<'_>) -> Result<Numbering, GraphError> {
        let mut survey = Survey::new(self.ids);
        let (mut sources, mut destinations) =
            (self.table.stream(&self.source), self.table.stream(&self.destination));
        while let Some(from) = IdCells::next(&self.table, &self.source, &mut sources)? {
            let Some(to) = IdCells::next(&self.table, &self.destination, &mut destinations)? else { break };
            // In this order, so that names are numbered as in an edge list.
            for at in 0..from.len() {
                for ids in [&from, &to] {
                    match ids.get(at)? {
                        Id::Number(id) => survey.see_number(id),
                        Id::Name(id) => survey.see_name(id),
                    }
                }
            }
            let (done, total) = (sources.row(), self.table.rows());
            (request.watch.progress)(Progress { stage: "nodes", done, total });
        }
        Ok(survey.finish())
    }

    /// Gives every edge to `lists`.
    fn push_into(
        &self,
        lists: &mut CscBuilder,
        numbering: &Numbering,
        output: &Output<'_>,
    ) -> Result<(), GraphError> {
        let (mut sources, mut destinations) =
            (self.table.stream(&self.source), self.table.stream(&self.destination));
        let mut weights = self.weight.as_ref().map(|column| (column, self.table.stream(column)));
        while let Some(from) = IdCells::next(&self.table, &self.source, &mut sources)? {
            let Some(to) = IdCells::next(&self.table, &self.destination, &mut destinations)? else { break };
            let weights = match &mut weights {
                Some((column, stream)) => self.weights(column, stream)?,
                None => vec![0.0; from.len()],
            };
            for (at, weight) in weights.into_iter().enumerate() {
                lists.push(
                    from.place(at, numbering, "source")?,
                    to.place(at, numbering, "destination")?,
                    weight,
                )?;
            }
            output.progress("edges", sources.row(), self.table.rows());
        }
        Ok(())
    }

    fn weights(&self, column: &Column, stream: &mut Stream<'_>) -> Result<Vec<f32>, GraphError> {
        let first = stream.row();
        let Some(Cells::Floats(cells)) = stream.cells(CHUNK)? else { return Ok(Vec::new()) };
        let weights = (first..).zip(cells).map(|(row, cell)| match cell.map(|weight| weight as f32) {
            Some(weight) if weight.is_finite() => Ok(weight),
            Some(weight) => Err(self.table.wrong_cell(
                column,
                row,
                format!("the weight is {weight}: weights have to be finite"),
            )),
            None => Err(self.table.wrong_cell(column, row, "the weight is null")),
        });
        weights.collect()
    }
}

/// Where the features of nodes are.
enum Features {
    Lists { column: Column, kind: NpyType, width: u64 },
    Columns { columns: Vec<Column>, kind: NpyType },
    Constant,
}

struct NodeTable {
    table: Table,
    id: Column,
    ids: Ids,
    features: Features,
    label: Option<Column>,
    split: Option<Column>,
}

impl NodeTable {
    fn open(path: &Path, ids: Ids) -> Result<NodeTable, GraphError> {
        let table = Table::open(path)?;
        let id = id_column_like(&table, &["id", "node_id", "node"], ids)?;
        let features = Features::find(&table)?;
        let numbers = [Kind::Integer, Kind::Float, Kind::Double];
        let label = table.find(&LABELS)?;
        let label =
            label.map(|column| table.of_kind(column, &numbers, "integers, float or double")).transpose()?;
        let split = table.find(&["split"])?;
        let split = split.map(|column| table.of_kind(column, &[Kind::Text], "text")).transpose()?;
        Ok(NodeTable { table, id, ids, features, label, split })
    }

    /// Which node each id is: row k is node k.
    fn numbering(&self) -> Result<Numbering, GraphError> {
        let mut stream = self.table.stream(&self.id);
        let mut numbers = Vec::new();
        let mut names = Survey::new(Ids::Name);
        while let Some(ids) = IdCells::next(&self.table, &self.id, &mut stream)? {
            for at in 0..ids.len() {
                match ids.get(at)? {
                    Id::Number(id) => numbers.push(id),
                    Id::Name(id) => {
                        let before = names.nodes();
                        names.see_name(id);
                        if names.nodes() == before {
                            return Err(
                                ids.wrong(at, format!("'{}' is the id of an earlier node", shown(id)))
                            );
                        }
                    }
                }
            }
        }
        let numbering = match self.ids {
            Ids::Name => names.finish(),
            Ids::Number if numbers.iter().copied().eq(0..self.table.rows().cast_signed()) => {
                let nodes = self.table.rows();
                Numbering::Dense(Nodes::new(nodes, format!("the table of nodes has {nodes} rows")))
            }
            Ids::Number => Numbering::of_numbers(numbers).map_err(|Twice { second, id, .. }| {
                self.table.wrong_cell(&self.id, second, format!("{id} is the id of an earlier node"))
            })?,
        };
        Ok(numbering.said_by("the table of nodes"))
    }

    fn feature_row_bytes(&self) -> u64 {
        4 * match &self.features {
            Features::Lists { width, .. } => *width,
            Features::Columns { columns, .. } => columns.len() as u64,
            Features::Constant => 1,
        }
    }

    /// Writes features, labels and splits.
    fn write(&self, output: &Output<'_>) -> Result<ElementType, GraphError> {
        let element = self.features.write(&self.table, output)?;
        match &self.label {
            Some(column) => self.write_labels(column, output)?,
            None => {
                output.note(&no_labels(self.table.path(), &LABELS));
                output.no_labels(self.table.rows())?;
            }
        }
        output.splits(&self.splits()?)?;
        Ok(element)
    }

    fn write_labels(&self, column: &Column, output: &Output<'_>) -> Result<(), GraphError> {
        let mut writer = NpyWriter::create(&output.path(names::LABELS), NpyType::I64, &[])?;
        let mut stream = self.table.stream(column);
        loop {
            let first = stream.row();
            let labels: Vec<Option<i64>> = match stream.cells(CHUNK)? {
                Some(Cells::Integers(cells)) => {
                    cells.into_iter().map(|cell| Some(cell.unwrap_or(-1))).collect()
                }
                Some(Cells::Floats(cells)) => {
                    cells.into_iter().map(|cell| cell.map_or(Some(-1), values::class)).collect()
                }
                _ => break,
            };
            let fits =
                |label: &Option<i64>| label.is_some_and(|label| (-1..i64::from(u32::MAX)).contains(&label));
            if let Some(at) = labels.iter().position(|label| !fits(label)) {
                let problem = "the label is no class: 0 and up, or −1, NaN or null for none";
                return Err(self.table.wrong_cell(column, first + at as u64, problem));
            }
            writer.write(&labels.into_iter().flatten().collect::<Vec<i64>>())?;
        }
        writer.finish().map(drop)
    }

    fn splits(&self) -> Result<[Vec<i64>; 3], GraphError> {
        let mut splits = [Vec::new(), Vec::new(), Vec::new()];
        let Some(column) = &self.split else { return Ok(splits) };
        let mut stream = self.table.stream(column);
        loop {
            let first = stream.row();
            let Some(Cells::Text(cells)) = stream.cells(CHUNK)? else { return Ok(splits) };
            for (row, cell) in (first..).zip(cells) {
                let split = match cell.as_ref().map(|cell| cell.data()) {
                    None | Some(b"" | b"none") => continue,
                    Some(b"train") => 0,
                    Some(b"valid" | b"val" | b"validation") => 1,
                    Some(b"test") => 2,
                    Some(other) => {
                        let problem =
                            format!("'{}' is no split: train, valid, test, none or null", shown(other));
                        return Err(self.table.wrong_cell(column, row, problem));
                    }
                };
                splits[split].push(row.cast_signed());
            }
        }
    }
}

impl Features {
    fn find(table: &Table) -> Result<Features, GraphError> {
        let wanted = "lists of one length, of float, double or integers";
        if let Some(column) = table.find(&FEATURES)? {
            let kind = match column.kind {
                _ if !column.lists => return Err(table.wrong_type(&column, wanted)),
                Kind::Float => NpyType::F32,
                Kind::Double => NpyType::F64,
                Kind::Integer => table.integer_type(&column),
                _ => return Err(table.wrong_type(&column, wanted)),
            };
            let width = table.width(&column)?;
            if width > LONGEST_LIST {
                return Err(table.wrong_type(&column, "lists of at most 16,777,216 values"));
            }
            return Ok(Features::Lists { column, kind, width });
        }
        for stem in ["feat", "x"] {
            let mut columns = Vec::new();
            while columns.len() < MOST_COLUMNS
                && let Some(column) = table.find(&[&format!("{stem}_{}", columns.len())])?
            {
                let numbers = [Kind::Integer, Kind::Float, Kind::Double];
                columns.push(table.of_kind(column, &numbers, "integers, float or double")?);
            }
            if !columns.is_empty() {
                let floats = columns.iter().all(|column| column.kind == Kind::Float);
                return Ok(Features::Columns {
                    columns,
                    kind: if floats { NpyType::F32 } else { NpyType::F64 },
                });
            }
        }
        Ok(Features::Constant)
    }

    fn write(&self, table: &Table, output: &Output<'_>) -> Result<ElementType, GraphError> {
        let source = |name: &str| FeatureSource { place: table.path().join(name), data_offset: None };
        match self {
            Features::Constant => output.constant_features(table.rows()),
            Features::Lists { column, kind, width } => {
                let mut writer =
                    output.feature_writer(source(&column.name), *kind, *width as usize, false)?;
                let mut stream = table.stream(column);
                let rows = (CHUNK as u64 / width).max(1) as usize;
                while let Some(bytes) = stream.lists(rows, *width)? {
                    writer.write(&bytes)?;
                    output.progress("features", stream.row(), table.rows());
                }
                writer.finish()
            }
            Features::Columns { columns, kind } => {
                let mut writer = output.feature_writer(source("feat_*"), *kind, columns.len(), false)?;
                let mut streams: Vec<Stream<'_>> =
                    columns.iter().map(|column| table.stream(column)).collect();
                let rows = (CHUNK / columns.len()).max(1);
                while let Some(bytes) = rows_of(table, columns, &mut streams, rows, *kind)? {
                    writer.write(&bytes)?;
                    output.progress("features", streams[0].row(), table.rows());
                }
                writer.finish()
            }
        }
    }
}

/// The next rows of several columns of numbers, as the bytes of `kind`, row after row.
fn rows_of(
    table: &Table,
    columns: &[Column],
    streams: &mut [Stream<'_>],
    most: usize,
    kind: NpyType,
) -> Result<Option<Vec<u8>>, GraphError> {
    let mut rows: Vec<u8> = Vec::new();
    let size = kind.bytes();
    for (place, (column, stream)) in columns.iter().zip(streams).enumerate() {
        let first = stream.row();
        let cells: Vec<Option<f64>> = match stream.cells(most)? {
            Some(Cells::Floats(cells)) => cells,
            Some(Cells::Integers(cells)) => {
                cells.into_iter().map(|cell| cell.map(|value| value as f64)).collect()
            }
            _ => return Ok(None),
        };
        rows.resize(cells.len() * columns.len() * size, 0);
        for (row, cell) in cells.into_iter().enumerate() {
            let value =
                cell.ok_or_else(|| table.wrong_cell(column, first + row as u64, "the feature is null"))?;
            let at = (row * columns.len() + place) * size;
            match kind {
                NpyType::F32 => rows[at..at + 4].copy_from_slice(&(value as f32).to_le_bytes()),
                _ => rows[at..at + 8].copy_from_slice(&value.to_le_bytes()),
            }
        }
    }
    Ok(Some(rows))
}

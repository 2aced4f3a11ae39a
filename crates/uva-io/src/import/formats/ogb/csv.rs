//! The layout of OGB's smaller datasets: `.csv.gz` files without headers.
//!
//! Nodes without `node-feat.csv.gz` (ogbn-proteins) get one feature, 1. Labels of one column are classes, with −1 for
//! empty or NaN. Labels of several columns are zeros and ones.

use std::path::{Path, PathBuf};

use uva_graph::csc::CscBuilder;
use uva_graph::npy::{NpyType, NpyWriter};
use uva_graph::{ElementType, GraphError, names};

use super::raw::{OgbProblem, Raw, count, ids_of, label};
use crate::import::reading::features::{FeatureSource, FeatureWriter};
use crate::import::reading::nodes::NodeRange;
use crate::import::reading::text::{LineError, each_line, each_line_until, float, integer};
use crate::import::reading::unread_parts;
use crate::import::reading::values::is_rounded;
use crate::import::request::{ImportRequest, ImportWatch};
use crate::import::writing::output::{DatasetOutput, DatasetSizes, FeaturesOf, MarkedRows};
use crate::import::writing::read_speed;

/// The files in `raw` that are read.
const READ: [&str; 5] =
    ["edge.csv.gz", "node-feat.csv.gz", "node-label.csv.gz", "num-node-list.csv.gz", "num-edge-list.csv.gz"];

pub(super) struct Csv {
    edges: PathBuf,
    features: Option<PathBuf>,
    labels: PathBuf,
    nodes: u64,
    edge_count: Option<u64>,
    columns: usize,
    label_columns: usize,
}

impl Csv {
    pub(super) fn open(request: &ImportRequest<'_>) -> Result<Csv, GraphError> {
        let labels = request.file("raw/node-label.csv.gz");
        let features = request.file("raw/node-feat.csv.gz");
        let counts = request.file("raw/num-node-list.csv.gz");
        let nodes = count(&counts, "nodes")?
            .ok_or_else(|| GraphError::io(&counts, "open")(std::io::ErrorKind::NotFound.into()))?;
        let edge_count = count(&request.file("raw/num-edge-list.csv.gz"), "edges")?;
        let features = features.exists().then_some(features);
        let raw = request.file("raw");
        let left = unread_parts::files(&raw, ".csv.gz", |name| READ.contains(&name))?;
        unread_parts::say(request.watch.note, &raw, &left);
        Ok(Csv {
            edges: request.file("raw/edge.csv.gz"),
            columns: features.as_deref().map_or(Ok(1), columns)?,
            features,
            label_columns: columns(&labels)?,
            labels,
            nodes,
            edge_count,
        })
    }

    fn write_edges(&self, request: &ImportRequest<'_>, output: &DatasetOutput<'_>) -> Result<(), GraphError> {
        let mut lists = output.lists(self.nodes, false)?;
        let ends = [ids_of(self.nodes), ids_of(self.nodes)];
        let edges = push_edges(&self.edges, &mut lists, &ends, request.watch)?;
        if let Some(needed) = self.edge_count
            && edges != needed
        {
            let problem = OgbProblem::Count { what: "edges", found: edges, needed };
            return Err(GraphError::invalid(&self.edges, problem));
        }
        output.finish_lists(lists).map(drop)
    }

    fn write_features(
        &self,
        request: &ImportRequest<'_>,
        output: &DatasetOutput<'_>,
    ) -> Result<(), GraphError> {
        let Some(path) = &self.features else {
            output.note("there is no raw/node-feat.csv.gz: every node has one feature, 1");
            return output.constant_features(self.nodes).map(drop);
        };
        let source = FeatureSource { place: path.clone(), data_offset: None };
        let mut writer =
            output.feature_writer(FeaturesOf::Nodes, source, NpyType::F32, self.columns, None)?;
        let (rows, rounded) = feature_rows(path, self.columns, &mut writer, request.watch)?;
        self.check_rows(path, rows)?;
        if rounded > 0 {
            output.note(&format!("{}: {rounded} features are rounded, or 0, as float32", path.display()));
        }
        output.finish_features(writer).map(drop)
    }

    fn write_labels(&self, output: &DatasetOutput<'_>) -> Result<(), GraphError> {
        let path = output.path(names::LABELS);
        let rows = label_rows(&self.labels, self.label_columns, &path, &|line| output.note(line))?;
        self.check_rows(&self.labels, rows)
    }

    fn check_rows(&self, path: &Path, rows: u64) -> Result<(), GraphError> {
        if rows == self.nodes {
            return Ok(());
        }
        Err(GraphError::invalid(path, OgbProblem::Count { what: "rows", found: rows, needed: self.nodes }))
    }
}

impl Raw for Csv {
    fn sizes(&self) -> Result<DatasetSizes, GraphError> {
        let features = self.features.as_deref().map(read_speed::of_text).transpose()?.flatten();
        Ok(DatasetSizes {
            nodes: Some(self.nodes),
            edges: self.edge_count,
            feature_row_bytes: 4 * self.columns as u64,
            label_row_bytes: if self.label_columns == 1 { 8 } else { self.label_columns as u64 },
            seconds: read_speed::sum([read_speed::of_text(&self.edges)?, features]),
            ..DatasetSizes::default()
        })
    }

    fn write(
        self: Box<Self>,
        request: &ImportRequest<'_>,
        output: &DatasetOutput<'_>,
    ) -> Result<ElementType, GraphError> {
        // Small files first, so that an error in them is not found after an hour.
        self.write_labels(output)?;
        self.write_edges(request, output)?;
        self.write_features(request, output)?;
        Ok(ElementType::F32)
    }
}

/// Passes the edges of a file of pairs to `lists`; their ends are these nodes. Returns the number of edges.
pub(super) fn push_edges(
    path: &Path,
    lists: &mut CscBuilder,
    [sources, destinations]: &[NodeRange; 2],
    watch: &ImportWatch<'_>,
) -> Result<u64, GraphError> {
    let mut edges = 0;
    each_line(path, &|position| watch.at("edges", position), |_, text| {
        let end = |text: &[u8], end: &str, ids: &NodeRange| match integer(text) {
            Some(id) if ids.has(id) => Ok(id.cast_unsigned()),
            Some(id) => Err(LineError::Line(format!("its {end} is {id}, {ids}"))),
            None => Err(LineError::Line("expected a pair of node ids".to_owned())),
        };
        let Some(comma) = memchr::memchr(b',', text) else {
            return Err(LineError::Line("expected a pair of node ids".to_owned()));
        };
        let source = end(&text[..comma], "source", sources)?;
        lists.push(source, end(&text[comma + 1..], "destination", destinations)?, 0.0)?;
        edges += 1;
        Ok(())
    })?;
    Ok(edges)
}

/// Writes the rows of a file of features. Returns their number, and the number of values that float32 rounds.
pub(super) fn feature_rows(
    path: &Path,
    columns: usize,
    writer: &mut FeatureWriter,
    watch: &ImportWatch<'_>,
) -> Result<(u64, u64), GraphError> {
    let mut row = Vec::with_capacity(columns);
    let (mut rows, mut rounded) = (0, 0);
    each_line(path, &|position| watch.at("features", position), |_, text| {
        row.clear();
        for field in text.split(|&c| c == b',') {
            let wrong = |what| LineError::Line(format!("column {} is {what}", row.len() + 1));
            match float::<f32>(field) {
                Some(value) if value.is_finite() => {
                    rounded += u64::from(is_rounded(field, value));
                    row.push(value);
                }
                Some(value) => {
                    return Err(wrong(format!("{value} as float32: features have to be finite")));
                }
                None => return Err(wrong("not a number".to_owned())),
            }
        }
        if row.len() != columns {
            let message = format!("it has {} columns, but the first line has {columns}", row.len());
            return Err(LineError::Line(message));
        }
        rows += 1;
        writer.write_floats(&row).map_err(Into::into)
    })?;
    Ok((rows, rounded))
}

/// Writes the labels of a file to `out`: classes, or with several columns zeros and ones. Returns the number of rows.
pub(super) fn label_rows(
    path: &Path,
    columns: usize,
    out: &Path,
    note: &dyn Fn(&str),
) -> Result<u64, GraphError> {
    let mut rows = 0;
    if columns == 1 {
        let mut writer = NpyWriter::create(out, NpyType::I64, &[])?;
        each_line(path, &|_| {}, |_, text| {
            let class = label(text).filter(|&label| label >= -1 && label < u32::MAX.into());
            let class = class.ok_or_else(|| LineError::Line("expected a class".to_owned()))?;
            rows += 1;
            writer.write(&[class]).map_err(Into::into)
        })?;
        writer.finish()?;
        return Ok(rows);
    }
    let mut writer = NpyWriter::create(out, NpyType::U8, &[columns])?;
    let mut row = Vec::with_capacity(columns);
    let mut marked = MarkedRows::new(columns);
    each_line(path, &|_| {}, |_, text| {
        row.clear();
        for field in text.split(|&c| c == b',') {
            match label(field) {
                Some(mark @ 0..=1) => row.push(mark as u8),
                _ => return Err(LineError::Line(format!("column {} is neither 0 nor 1", row.len() + 1))),
            }
        }
        if row.len() != columns {
            let message = format!("it has {} columns, but the first line has {columns}", row.len());
            return Err(LineError::Line(message));
        }
        rows += 1;
        marked.see(&row);
        writer.write(&row).map_err(Into::into)
    })?;
    marked.say_one_hot(note, path);
    writer.finish()?;
    Ok(rows)
}

/// The number of columns of the first line.
pub(super) fn columns(path: &Path) -> Result<usize, GraphError> {
    let mut columns = 1;
    each_line_until(path, &|_| {}, |_, text| {
        columns = text.iter().filter(|&&c| c == b',').count() + 1;
        Ok(false)
    })?;
    Ok(columns)
}

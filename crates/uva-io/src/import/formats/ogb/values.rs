//! The node types and relations of a typed graph, whose values are lines of text or arrays of archives.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use uva_graph::csc::CscBuilder;
use uva_graph::npy::{NpyType, NpyWriter};
use uva_graph::{GraphError, Progress};

use super::csv::{columns, feature_rows, label_rows, push_edges};
use crate::import::options::Float8;
use crate::import::reading::features::{FeatureSource, FeatureWriter};
use crate::import::reading::nodes::{NodeRange, end_in_rows};
use crate::import::reading::stream::{Archive, ArrayStream};
use crate::import::reading::text::{LineError, each_line, integer};
use crate::import::request::ImportWatch;
use crate::import::writing::output::{CHUNK, feature_columns, label_columns, next_classes, next_marks};

/// A node type.
pub(super) struct OgbType {
    pub(super) name: String,
    pub(super) nodes: u64,
    pub(super) features: Option<OgbFeatures>,
    pub(super) labels: Option<OgbValues>,
    /// The time of each node.
    pub(super) times: Option<OgbValues>,
}

/// A relation.
pub(super) struct OgbRelation {
    pub(super) names: [String; 3],
    pub(super) ends: [u64; 2],
    pub(super) edges: OgbValues,
    pub(super) count: u64,
}

/// Where values are.
pub(super) enum OgbValues {
    /// Lines of numbers.
    Lines(PathBuf),
    /// An array of an archive.
    Member { archive: Rc<Archive>, name: String },
}

/// Features, with their number of columns and their type.
pub(super) struct OgbFeatures {
    values: OgbValues,
    pub(super) columns: usize,
    pub(super) kind: NpyType,
}

impl OgbFeatures {
    /// Those of this many nodes.
    pub(super) fn of(values: OgbValues, nodes: u64) -> Result<Self, GraphError> {
        let (columns, kind) = match &values {
            OgbValues::Lines(path) => (columns(path)?, NpyType::F32),
            OgbValues::Member { archive, name } => {
                let table = archive.array(name)?;
                (feature_columns(&table, Some(nodes))? as usize, table.kind())
            }
        };
        Ok(Self { values, columns, kind })
    }

    pub(super) fn place(&self) -> PathBuf {
        self.values.place()
    }

    /// Writes them, and returns the number of rows.
    pub(super) fn write(
        &self,
        out: &Path,
        float8: Option<Float8>,
        watch: &ImportWatch<'_>,
    ) -> Result<u64, GraphError> {
        let create = |source: FeatureSource| {
            FeatureWriter::create(out, source, (self.kind, None), self.columns, float8)
        };
        let (rows, writer) = match &self.values {
            OgbValues::Lines(path) => {
                let mut writer = create(FeatureSource { place: path.clone(), data_offset: None })?;
                let (rows, rounded) = feature_rows(path, self.columns, &mut writer, watch)?;
                if rounded > 0 {
                    let line =
                        format!("{}: {rounded} features are rounded, or 0, as float32", path.display());
                    (watch.note)(&line);
                }
                (rows, writer)
            }
            OgbValues::Member { archive, name } => {
                let mut table = archive.array(name)?;
                let mut writer = create(table.as_features())?;
                writer.conversion().into_iter().for_each(|line| (watch.note)(&line));
                loop {
                    let chunk = table.bytes(CHUNK)?;
                    if chunk.is_empty() {
                        break;
                    }
                    writer.write(chunk)?;
                    let (done, total) = (table.position(), table.len());
                    (watch.progress)(Progress { stage: "features", done, total });
                }
                (table.shape()[0] as u64, writer)
            }
        };
        writer.finish()?.1.into_iter().for_each(|line| (watch.note)(&line));
        Ok(rows)
    }
}

impl OgbValues {
    /// The place for messages.
    pub(super) fn place(&self) -> PathBuf {
        match self {
            Self::Lines(path) => path.clone(),
            Self::Member { archive, name } => archive.path().join(format!("{name}.npy")),
        }
    }

    /// Writes labels, and returns the number of rows. An array has one for each of `nodes`.
    pub(super) fn write_labels(
        &self,
        out: &Path,
        nodes: u64,
        note: &dyn Fn(&str),
    ) -> Result<u64, GraphError> {
        let (archive, name) = match self {
            Self::Lines(path) => return label_rows(path, columns(path)?, out, note),
            Self::Member { archive, name } => (archive, name),
        };
        let mut labels = archive.array(name)?;
        match label_columns(&labels, nodes)? {
            None => {
                let mut writer = NpyWriter::create(out, NpyType::I64, &[])?;
                each_chunk(|| next_classes(&mut labels, None), |classes| writer.write(classes))?;
                writer.finish()?;
            }
            Some(columns) => {
                let mut writer = NpyWriter::create(out, NpyType::U8, &[columns])?;
                each_chunk(|| next_marks(&mut labels), |marks| writer.write(marks))?;
                writer.finish()?;
            }
        }
        Ok(nodes)
    }

    /// The time of each node: a line each, or [nodes] or [nodes, 1].
    pub(super) fn times(&self) -> Result<Vec<i64>, GraphError> {
        match self {
            Self::Lines(path) => {
                let mut times = Vec::new();
                each_line(path, &|_| {}, |_, text| {
                    let time = integer(text.trim_ascii());
                    let wrong = || LineError::Line("a time has to be an integer".to_owned());
                    times.push(time.ok_or_else(wrong)?);
                    Ok(())
                })?;
                Ok(times)
            }
            Self::Member { archive, name } => archive.array(name)?.all_integers(),
        }
    }

    /// Passes all edges to `lists`, checked, and returns their number.
    pub(super) fn push_edges(
        &self,
        lists: &mut CscBuilder,
        ends: &[NodeRange; 2],
        watch: &ImportWatch<'_>,
    ) -> Result<u64, GraphError> {
        let (archive, name) = match self {
            Self::Lines(path) => return push_edges(path, lists, ends, watch),
            Self::Member { archive, name } => (archive, name),
        };
        let (mut sources, mut destinations) = (archive.array(name)?, archive.array(name)?);
        let count = edge_count(&sources)?;
        destinations.skip(count)?;
        let end = |position| end_in_rows(position, count);
        let mut left = count;
        while left > 0 {
            let now = left.min(CHUNK as u64) as usize;
            let (from, to) = (sources.integers(now)?, destinations.integers(now)?);
            sources.check_ids(&from, &ends[0], end)?;
            destinations.check_ids(&to, &ends[1], end)?;
            for (source, destination) in from.into_iter().zip(to) {
                lists.push(source.cast_unsigned(), destination.cast_unsigned(), 0.0)?;
            }
            left -= now as u64;
            (watch.progress)(Progress { stage: "edges", done: count - left, total: count });
        }
        Ok(count)
    }
}

/// The number of edges in an array of their ends.
fn edge_count(edges: &ArrayStream) -> Result<u64, GraphError> {
    match *edges.shape() {
        [2, count] => Ok(count as u64),
        _ => Err(edges.wrong_shape("[2, edges]: sources, then destinations")),
    }
}

/// Passes all chunks to `write`, until one is empty.
fn each_chunk<T>(
    mut next: impl FnMut() -> Result<Vec<T>, GraphError>,
    mut write: impl FnMut(&[T]) -> Result<(), GraphError>,
) -> Result<(), GraphError> {
    loop {
        let chunk = next()?;
        if chunk.is_empty() {
            return Ok(());
        }
        write(&chunk)?;
    }
}

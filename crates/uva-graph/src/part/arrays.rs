//! The arrays of a part, cut from those of the whole dataset.

use std::path::Path;

use bytemuck::NoUninit;
use rayon::prelude::*;

use super::outline::Outline;
use crate::description::names;
use crate::npy::{NpyArray, NpyType, NpyWriter, write_array};
use crate::{GraphError, Indices, Split};

/// Bytes of rows held in memory before they are written.
const STEP_BYTES: usize = 16 << 20;

/// Rows that one task copies.
const ROWS_PER_TASK: usize = 256;

/// Entries renumbered at a time.
const ENTRIES: usize = 1 << 16;

/// A part while its files are written.
pub(super) struct Arrays<'a> {
    pub(super) outline: &'a Outline<'a>,
    pub(super) directory: &'a Path,
    /// Called with the number of bytes after each write.
    pub(super) wrote: &'a dyn Fn(usize),
}

impl Arrays<'_> {
    /// Writes all arrays.
    pub(super) fn write(&self) -> Result<(), GraphError> {
        let dataset = self.outline.dataset;
        let files = dataset.files();
        self.lists()?;
        let features = dataset.features();
        self.rows(names::FEATURES, files.table().array.kind(), &[features.dim], features.bytes)?;
        if let Some(labels) = files.graph.first_type().labels.array() {
            self.rows(names::LABELS, labels.kind(), &labels.shape()[1..], labels.bytes())?;
        }
        let csc = dataset.csc();
        self.each(names::DEGREES, NpyType::I32, |node| {
            i32::try_from(csc.whole_degree(node)).unwrap_or(i32::MAX)
        })?;
        self.each(names::ORIGINAL_IDS, NpyType::I64, |node| {
            csc.original_ids.map_or(node as i64, |ids| ids[node])
        })?;
        for split in Split::ALL {
            let ids = &self.outline.splits[split as usize];
            let places: Vec<i64> = ids.iter().filter_map(|&node| self.place(node)).collect();
            debug_assert_eq!(places.len(), ids.len(), "a part has the nodes of its splits");
            write_array(&self.directory.join(split.file_name()), NpyType::I64, &[], &places)?;
        }
        Ok(())
    }

    fn place(&self, node: i64) -> Option<i64> {
        self.outline.members.place(node as usize).map(|place| place as i64)
    }

    fn lists(&self) -> Result<(), GraphError> {
        let dataset = self.outline.dataset;
        let csc = dataset.csc();
        let mut end = 0;
        let mut ends = vec![0_i64];
        ends.extend(self.outline.members.nodes().map(|node| {
            end += if self.outline.closure.has_list(node) { csc.degree(node) as i64 } else { 0 };
            end
        }));
        write_array(&self.directory.join(names::INDPTR), NpyType::I64, &[], &ends)?;
        // A place is at most the id, so it fits the type of the id.
        match csc.indices {
            Indices::I32(ids) => self.entries(names::INDICES, NpyType::I32, ids, |id| {
                self.place(id.into()).map(|place| place as i32)
            })?,
            Indices::I64(ids) => {
                self.entries(names::INDICES, NpyType::I64, ids, |id| self.place(id))?;
            }
        }
        for (spec, array) in dataset.files().graph.edge_arrays() {
            self.edge_rows(spec.file, array)?;
        }
        match dataset.files().first_edge_table() {
            Some(rows) => self.edge_rows(names::EDGE_FEATURES, &rows.array),
            None => Ok(()),
        }
    }

    /// Writes the values or rows of the lists: `array` has one for each entry.
    fn edge_rows(&self, name: &str, array: &NpyArray) -> Result<(), GraphError> {
        let (csc, row_shape) = (self.outline.dataset.csc(), &array.shape()[1..]);
        let row_bytes = row_shape.iter().product::<usize>() * array.kind().bytes();
        let mut writer = NpyWriter::create(&self.directory.join(name), array.kind(), row_shape)?;
        for node in self.outline.lists() {
            let [begin, end] = [node, node + 1].map(|at| csc.indptr[at] as usize * row_bytes);
            writer.write_bytes(&array.bytes()[begin..end])?;
            (self.wrote)(end - begin);
        }
        writer.finish().map(drop)
    }

    /// Writes the neighbours. An entry for which `change` has no value is not a node of the part, and so not a node of
    /// the graph.
    fn entries<T: NoUninit>(
        &self,
        name: &str,
        kind: NpyType,
        values: &[T],
        change: impl Fn(T) -> Option<T>,
    ) -> Result<(), GraphError> {
        let csc = self.outline.dataset.csc();
        let mut writer = NpyWriter::create(&self.directory.join(name), kind, &[])?;
        let mut changed = Vec::with_capacity(ENTRIES);
        for node in self.outline.lists() {
            let [begin, end] = [node, node + 1].map(|at| csc.indptr[at] as usize);
            for (position, &value) in (begin..).zip(&values[begin..end]) {
                changed.push(change(value).ok_or_else(|| self.outline.dataset.wrong_neighbour(position))?);
                if changed.len() == ENTRIES {
                    writer.write(&changed)?;
                    (self.wrote)(size_of_val(changed.as_slice()));
                    changed.clear();
                }
            }
        }
        writer.write(&changed)?;
        (self.wrote)(size_of_val(changed.as_slice()));
        writer.finish().map(drop)
    }

    /// Writes an array with one row of `rows` for each node.
    fn rows(&self, name: &str, kind: NpyType, row_shape: &[usize], rows: &[u8]) -> Result<(), GraphError> {
        let row_bytes = row_shape.iter().product::<usize>() * kind.bytes();
        let mut writer = NpyWriter::create(&self.directory.join(name), kind, row_shape)?;
        let step = (STEP_BYTES / row_bytes).max(1);
        let (mut nodes, mut copied) = (self.outline.members.nodes(), Vec::new());
        loop {
            let now: Vec<usize> = nodes.by_ref().take(step).collect();
            if now.is_empty() {
                return writer.finish().map(drop);
            }
            copied.resize(now.len() * row_bytes, 0);
            let tasks = copied.par_chunks_mut(ROWS_PER_TASK * row_bytes).zip(now.par_chunks(ROWS_PER_TASK));
            tasks.for_each(|(copied, nodes)| {
                for (row, node) in copied.chunks_exact_mut(row_bytes).zip(nodes) {
                    row.copy_from_slice(&rows[node * row_bytes..(node + 1) * row_bytes]);
                }
            });
            writer.write_bytes(&copied)?;
            (self.wrote)(copied.len());
        }
    }

    /// Writes an array with `value(node)` for each node.
    fn each<T: NoUninit>(
        &self,
        name: &str,
        kind: NpyType,
        value: impl Fn(usize) -> T,
    ) -> Result<(), GraphError> {
        let values: Vec<T> = self.outline.members.nodes().map(value).collect();
        (self.wrote)(size_of_val(values.as_slice()));
        write_array(&self.directory.join(name), kind, &[], &values)
    }
}

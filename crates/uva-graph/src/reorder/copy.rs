//! Copies the arrays of a dataset in another order.

use std::ops::Range;
use std::path::Path;

use rayon::prelude::*;

use super::NodeOrder;
use super::lists::{Lists, write_ends};
use super::order::{Places, by_place};
use crate::description::names;
use crate::npy::{NpyArray, NpyType, NpyWriter, write_array};
use crate::{Dataset, GraphError, Indices, Progress, Split};
use uva_files::progress::in_steps;

/// Rows that one task copies.
const ROWS_PER_TASK: usize = 256;

/// One dataset while it is reordered. In addition to the pieces being written, it holds 16 bytes per node in memory (24
/// from 2³² nodes on).
pub(crate) struct Copy<'a> {
    dataset: &'a Dataset,
    order: &'a NodeOrder,
    places: Places,
    /// The ends of the lists in the new order.
    ends: Vec<i64>,
}

impl<'a> Copy<'a> {
    /// Creates a copy of a dataset, whose `indptr` has been checked, in an order of its nodes.
    pub(crate) fn of(dataset: &'a Dataset, order: &'a NodeOrder) -> Self {
        let csc = dataset.csc();
        let mut ends = vec![0; csc.indptr.len()];
        write_ends(csc.indptr, order, &mut ends);
        Self { dataset, order, places: order.places(), ends }
    }

    /// The ends of the lists in the new order: one entry more than nodes.
    pub(crate) fn ends(&self) -> &[i64] {
        &self.ends
    }

    fn list_moves(&self) -> Lists<'_> {
        Lists { from: self.dataset.csc().indptr, to: &self.ends, order: self.order }
    }

    /// Writes everything into `directory` except the feature rows of nodes and edges, and `meta.json`.
    pub(crate) fn graph(&self, directory: &Path, progress: &dyn Fn(Progress)) -> Result<(), GraphError> {
        self.lists(directory, progress)?;
        let nodes = self.dataset.files().graph.first_type();
        let whole = 0..self.order.len();
        if let Some(labels) = nodes.labels.array() {
            self.rows(labels, whole.clone(), ("labels", &directory.join(names::LABELS)), progress, |_| ())?;
        }
        if let Some(degrees) = &nodes.degrees {
            let path = directory.join(names::DEGREES);
            self.rows(degrees.array(), whole, ("in-degrees", &path), progress, |_| ())?;
        }
        self.splits(directory)?;
        self.original_ids(directory, progress)
    }

    fn lists(&self, directory: &Path, progress: &dyn Fn(Progress)) -> Result<(), GraphError> {
        write_array(&directory.join(names::INDPTR), NpyType::I64, &[], &self.ends)?;
        let (path, places) = (directory.join(names::INDICES), &self.places);
        match self.dataset.csc().indices {
            Indices::I32(ids) => self.entries(("edges", &path), NpyType::I32, ids, progress, |id| {
                // A place is below the number of nodes, so it fits the type of the id.
                places.find(id.into()).map(|place| place as i32)
            })?,
            Indices::I64(ids) => self.entries(("edges", &path), NpyType::I64, ids, progress, |id| {
                places.find(id).map(|place| place as i64)
            })?,
        }
        for (spec, array) in self.dataset.files().graph.edge_arrays() {
            let (stage, path) = (spec.name, directory.join(spec.file));
            self.edge_rows(array, 0..self.order.len(), (stage, &path), progress, |_| ())?;
        }
        Ok(())
    }

    /// Writes the neighbours.
    fn entries<T: bytemuck::NoUninit + Default + Send + Sync>(
        &self,
        (stage, path): (&'static str, &Path),
        kind: NpyType,
        values: &[T],
        progress: &dyn Fn(Progress),
        change: impl Fn(T) -> Option<T> + Sync,
    ) -> Result<(), GraphError> {
        let lists = self.list_moves();
        let mut writer = NpyWriter::create(path, kind, &[])?;
        let mut moved = Vec::new();
        in_steps(stage, values.len() as u64, size_of::<T>(), progress, |range| {
            let range = range.start as usize..range.end as usize;
            moved.resize(range.len(), T::default());
            let changed = lists.write(range, values, &mut moved, &change);
            changed.map_err(|position| self.dataset.wrong_neighbour(position))?;
            writer.write(&moved)
        })?;
        writer.finish().map(drop)
    }

    /// Writes the rows of the nodes at these places: `rows` has one of each node of the dataset. `wrote` is called with
    /// the number of bytes of each piece.
    pub(crate) fn rows(
        &self,
        rows: &NpyArray,
        places: Range<usize>,
        (stage, path): (&'static str, &Path),
        progress: &dyn Fn(Progress),
        mut wrote: impl FnMut(&[u8]),
    ) -> Result<(), GraphError> {
        let row_shape = &rows.shape()[1..];
        let row_bytes = row_shape.iter().product::<usize>() * rows.kind().bytes();
        let mut writer = NpyWriter::create(path, rows.kind(), row_shape)?;
        let (mut moved, rows) = (Vec::new(), rows.bytes());
        in_steps(stage, places.len() as u64, row_bytes, progress, |range| {
            let begin = places.start + range.start as usize;
            moved.resize((range.end - range.start) as usize * row_bytes, 0);
            let tasks = moved.par_chunks_mut(ROWS_PER_TASK * row_bytes).enumerate();
            tasks.for_each(|(task, moved)| {
                for (place, row) in (begin + task * ROWS_PER_TASK..).zip(moved.chunks_exact_mut(row_bytes)) {
                    let node = self.order.node(place);
                    row.copy_from_slice(&rows[node * row_bytes..(node + 1) * row_bytes]);
                }
            });
            wrote(&moved);
            writer.write_bytes(&moved)
        })?;
        writer.finish().map(drop)
    }

    /// Writes the values or rows of the lists at these places: `rows` has one of each entry.
    pub(crate) fn edge_rows(
        &self,
        rows: &NpyArray,
        places: Range<usize>,
        (stage, path): (&'static str, &Path),
        progress: &dyn Fn(Progress),
        mut wrote: impl FnMut(&[u8]),
    ) -> Result<(), GraphError> {
        let (lists, row_shape) = (self.list_moves(), &rows.shape()[1..]);
        let row_bytes = row_shape.iter().product::<usize>() * rows.kind().bytes();
        let mut writer = NpyWriter::create(path, rows.kind(), row_shape)?;
        let [first, end] = [places.start, places.end].map(|place| self.ends[place] as usize);
        let (mut moved, rows) = (Vec::new(), rows.bytes());
        in_steps(stage, (end - first) as u64, row_bytes, progress, |range| {
            let range = first + range.start as usize..first + range.end as usize;
            moved.resize(range.len() * row_bytes, 0);
            lists.write_rows(range, row_bytes, rows, &mut moved);
            wrote(&moved);
            writer.write_bytes(&moved)
        })?;
        writer.finish().map(drop)
    }

    fn splits(&self, directory: &Path) -> Result<(), GraphError> {
        for split in Split::ALL {
            let nodes = self.dataset.split(split);
            let mut places = vec![0; nodes.len()];
            let moved = self.places.of_all(nodes, &mut places);
            moved.map_err(|position| self.dataset.wrong_split_id(split, position))?;
            write_array(&directory.join(split.file_name()), NpyType::I64, &[], &places)?;
        }
        Ok(())
    }

    fn original_ids(&self, directory: &Path, progress: &dyn Fn(Progress)) -> Result<(), GraphError> {
        let before = self.dataset.original_ids();
        let mut writer = NpyWriter::create(&directory.join(names::ORIGINAL_IDS), NpyType::I64, &[])?;
        let mut ids = Vec::new();
        in_steps("original ids", self.order.len() as u64, 8, progress, |range| {
            ids.resize((range.end - range.start) as usize, 0);
            by_place(self.order, range.start as usize, &mut ids, |node| original_id(before, node));
            writer.write(&ids)
        })?;
        writer.finish().map(drop)
    }
}

/// The original id of `node`.
#[inline]
pub(super) fn original_id(original_ids: Option<&[i64]>, node: usize) -> i64 {
    original_ids.map_or(node as i64, |ids| ids[node])
}

//! The columns of a batch slot, borrowed for writing.

use bytemuck::Pod;
use smallvec::SmallVec;
use uva_sample::{BlockMut, MAX_LAYERS};

use crate::{Column, ColumnKey, ColumnPlace};

/// Columns for which nothing is allocated: those of a homogeneous graph, and of most numbers of layers.
const INLINE_COLUMNS: usize = 64;

/// A batch slot's columns for writing. Each can be taken once.
pub struct ColumnsMut<'a> {
    places: &'a [ColumnPlace],
    lent: SmallVec<[&'a mut [u8]; INLINE_COLUMNS]>,
}

impl<'a> ColumnsMut<'a> {
    /// The columns at these places of a batch slot's payload.
    pub(crate) fn over(places: &'a [ColumnPlace], payload: &'a mut [u8]) -> Self {
        let (mut rest, mut taken) = (payload, 0);
        let mut lent: SmallVec<[&'a mut [u8]; INLINE_COLUMNS]> =
            places.iter().map(|_| Default::default()).collect();
        for (place, lent) in places.iter().zip(&mut lent) {
            if !place.is_copied() {
                continue;
            }
            // Columns are contiguous: each takes its bytes off the start of the rest.
            let room = place.room();
            let (_, from) = std::mem::take(&mut rest).split_at_mut(room.start - taken);
            let (column, behind) = from.split_at_mut(room.len());
            (*lent, rest, taken) = (column, behind, room.end);
        }
        Self { places, lent }
    }

    /// Takes the memory of a column; empty if the batches do not have it, and on a second call.
    ///
    /// # Panics
    /// If its values have another size than `T`.
    pub fn take<T: Pod>(&mut self, key: impl Into<ColumnKey>) -> &'a mut [T] {
        let key = key.into();
        let found = self.places.iter().position(|place| place.key == key);
        // Casts hold: slots are page-aligned, every offset is a multiple of 64, every length one of the element's.
        match found.map(|at| std::mem::take(&mut self.lent[at])) {
            Some(lent) if !lent.is_empty() => bytemuck::cast_slice_mut(lent),
            _ => Default::default(),
        }
    }

    /// Takes the memory of the blocks: for each layer, one for each relation.
    pub fn take_blocks(&mut self) -> SmallVec<[BlockMut<'a>; MAX_LAYERS]> {
        let of_layers = || self.places.iter().filter(|place| place.key.column.spec().is_of_layers());
        let relations = of_layers().map(|place| place.key.part + 1).max().unwrap_or(0);
        let layers = of_layers().map(|place| place.key.layer + 1).max().unwrap_or(0);
        let mut blocks: SmallVec<[BlockMut<'a>; MAX_LAYERS]> =
            (0..layers * relations).map(|_| BlockMut::default()).collect();
        for (place, lent) in self.places.iter().zip(&mut self.lent) {
            let Some(block) = blocks.get_mut(place.key.layer * relations + place.key.part) else { continue };
            match place.key.column {
                Column::Indptr => block.indptr = bytemuck::cast_slice_mut(std::mem::take(lent)),
                Column::Indices => block.indices = bytemuck::cast_slice_mut(std::mem::take(lent)),
                Column::EdgeIds => block.edge_ids = bytemuck::cast_slice_mut(std::mem::take(lent)),
                Column::Weights => block.weights = bytemuck::cast_slice_mut(std::mem::take(lent)),
                _ => {}
            }
        }
        blocks
    }

    /// Takes the memory for the ids of the nodes of each type.
    pub fn take_nodes(&mut self) -> SmallVec<[&'a mut [i64]; 1]> {
        self.take_types(Column::InputNodes)
    }

    /// Takes the memory for the tree of each node of each type; empty if the batches do not have it.
    pub fn take_trees(&mut self) -> SmallVec<[&'a mut [i32]; 1]> {
        self.take_types(Column::Tree)
    }

    /// Takes the memory of a column of node types, for each of them.
    fn take_types<T: Pod>(&mut self, column: Column) -> SmallVec<[&'a mut [T]; 1]> {
        let of_types = self.places.iter().filter(|place| place.key.column == column);
        let keys: SmallVec<[ColumnKey; 1]> = of_types.map(|place| place.key).collect();
        keys.into_iter().map(|key| self.take(key)).collect()
    }
}

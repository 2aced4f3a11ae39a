//! The columns of a batch slot, borrowed for writing.

use bytemuck::Pod;
use uva_sample::{BlockMut, MAX_LAYERS};

use crate::{COLUMNS, Column, ColumnKey, ColumnPlace};

/// The maximum number of columns of a batch, with those of every layer.
const MOST_COLUMNS: usize = {
    let (mut most, mut at) = (0, 0);
    while at < COLUMNS.len() {
        most += if COLUMNS[at].is_of_layers() { MAX_LAYERS } else { 1 };
        at += 1;
    }
    most
};

/// A batch slot's columns for writing. Each can be taken once.
pub struct ColumnsMut<'a> {
    places: &'a [ColumnPlace],
    lent: [&'a mut [u8]; MOST_COLUMNS],
}

impl<'a> ColumnsMut<'a> {
    /// The columns at these places of a batch slot's payload.
    pub(crate) fn over(places: &'a [ColumnPlace], payload: &'a mut [u8]) -> Self {
        let (mut rest, mut taken) = (payload, 0);
        let mut lent: [&'a mut [u8]; MOST_COLUMNS] = std::array::from_fn(|_| Default::default());
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

    /// Takes the memory of each layer's block. Blocks after the last layer are empty.
    pub fn take_blocks(&mut self) -> [BlockMut<'a>; MAX_LAYERS] {
        let mut blocks: [BlockMut<'a>; MAX_LAYERS] = std::array::from_fn(|_| BlockMut::default());
        for (place, lent) in self.places.iter().zip(&mut self.lent) {
            let block = &mut blocks[place.key.layer];
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
}

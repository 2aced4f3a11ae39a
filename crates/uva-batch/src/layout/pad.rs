//! Padding of a batch in its slot.
//!
//! The nodes of each level move after the padded places of earlier levels, and padding follows them. The destinations
//! of a block therefore remain the first of its sources. A padding node has the id of the batch's first seed: its row
//! is valid, and in the processor's caches after the first read. Edges of padding lead from padding to padding, spread
//! evenly, so the list of no other destination changes.

use std::ops::Range;

use uva_sample::{BlockMut, MAX_LAYERS};

use crate::static_shapes::Padding;
use crate::{BatchLayout, Column, Element};

/// The class of a seed without a label, which losses ignore.
const UNLABELLED: i64 = -1;

/// Pads the batch in this payload of a batch slot, and marks its seeds in `seed_mask`. With `None` the batch is
/// unchanged and has `seeds` seeds.
///
/// # Panics
/// If the slot is too small for padded batches.
pub fn pad(layout: &BatchLayout, payload: &mut [u8], padding: Option<&Padding>, seeds: usize) {
    let mut columns = layout.columns_mut(payload);
    let mask: &mut [u8] = columns.take(Column::SeedMask);
    mask[..seeds].fill(1);
    let Some(padding) = padding else { return };
    let padded = padding.nodes[0] + padding.more_nodes[0];
    mask[seeds..padded].fill(0);
    padding.spread_rows::<i64>(columns.take(Column::InputNodes));
    padding.spread_rows::<i32>(columns.take(Column::Degrees));
    let input_id: &mut [i64] = columns.take(Column::InputId);
    if let Some(&first) = input_id.first() {
        input_id[seeds..padded].fill(first);
    }
    if let Some(place) = layout.place(Column::Labels) {
        let labels: &mut [u8] = columns.take(Column::Labels);
        let of_padding = &mut labels[seeds * place.row_bytes()..padded * place.row_bytes()];
        match place.element {
            Element::I64 => {
                let (classes, _) = of_padding.as_chunks_mut::<8>();
                classes.fill(UNLABELLED.to_ne_bytes());
            }
            _ => of_padding.fill(0),
        }
    }
    let mut blocks = columns.take_blocks();
    for (layer, block) in blocks[..padding.levels - 1].iter_mut().enumerate() {
        padding.spread_block(layer, block);
    }
}

impl Padding {
    /// The range of a level's nodes before padding, and the first of them after it.
    fn level(&self, level: usize) -> (Range<usize>, usize) {
        let begin: usize = self.nodes[..level].iter().sum();
        let moved: usize = self.more_nodes[..level].iter().sum();
        (begin..begin + self.nodes[level], begin + moved)
    }

    /// Moves the rows of all nodes to their places, and repeats the first one for padding.
    fn spread_rows<T: Copy>(&self, rows: &mut [T]) {
        let Some(&first) = rows.first() else { return };
        // From the last level on, since rows only move towards the end.
        for level in (0..self.levels).rev() {
            let (from, to) = self.level(level);
            let end = to + from.len();
            rows.copy_within(from, to);
            rows[end..end + self.more_nodes[level]].fill(first);
        }
    }

    /// Moves the block of a layer: its offsets, and its edges with their ids and weights.
    fn spread_block(&self, layer: usize, block: &mut BlockMut<'_>) {
        let mut begins = [0; MAX_LAYERS + 1];
        let steps = &mut begins[..=layer];
        let mut end = 0;
        for (level, begin) in steps.iter_mut().enumerate() {
            end += self.nodes[level];
            *begin = end as i32;
        }
        let moved = |id: i32| {
            let behind = steps.iter().zip(&self.more_nodes);
            id + behind.map(|(&end, &more)| if id >= end { more as i32 } else { 0 }).sum::<i32>()
        };
        for level in (0..=layer).rev() {
            let (from, to) = self.level(level);
            let more: usize = (0..level).map(|before| self.edges_to(layer, before)).sum();
            let edges = block.indptr[from.start] as usize..block.indptr[from.end] as usize;
            let end = edges.end + more;
            for edge in edges.clone().rev() {
                block.indices[edge + more] = moved(block.indices[edge]);
            }
            if !block.edge_ids.is_empty() {
                block.edge_ids.copy_within(edges.clone(), edges.start + more);
            }
            if !block.weights.is_empty() {
                block.weights.copy_within(edges.clone(), edges.start + more);
            }
            for position in (0..from.len()).rev() {
                block.indptr[to + position + 1] = block.indptr[from.start + position + 1] + more as i32;
            }
            self.pad_block(layer, level, end, block);
        }
    }

    /// Appends the padding destinations of a level, with their edges from `begin` on.
    fn pad_block(&self, layer: usize, level: usize, begin: usize, block: &mut BlockMut<'_>) {
        let count = self.edges_to(layer, level);
        let edges = begin..begin + count;
        let (of_level, first) = self.level(level);
        let (first, destinations) = (first + of_level.len(), self.more_nodes[level]);
        let mut end = begin;
        for number in 0..destinations {
            end += count / destinations + usize::from(number < count % destinations);
            block.indptr[first + number + 1] = end as i32;
        }
        let (found, sources) = self.level(level + 1);
        let (sources, padding) = (sources + found.len(), self.more_nodes[level + 1]);
        for (number, index) in block.indices[edges.clone()].iter_mut().enumerate() {
            *index = (sources + number % padding) as i32;
        }
        if !block.edge_ids.is_empty() {
            // The first edge of the dataset, which has one if any batch has.
            block.edge_ids[edges.clone()].fill(0);
        }
        if !block.weights.is_empty() {
            block.weights[edges].fill(0.0);
        }
    }
}

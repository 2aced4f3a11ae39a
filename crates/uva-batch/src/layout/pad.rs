//! Padding of a batch in its slot.
//!
//! The nodes of each level move after the padded places of earlier levels of their type, and padding follows them. The
//! destinations of a block therefore remain the first nodes of their type. A padding node has the id of the type's first
//! node in the batch, in a homogeneous graph the first seed: its row is valid, and in the processor's caches after the
//! first read. Without such a node it has the id 0. Edges of padding lead from padding to padding, spread evenly, so the
//! list of no other destination changes.

use std::ops::Range;

use uva_graph::{NodeType, Relation};
use uva_sample::{BatchCounts, BlockMut, MAX_LAYERS, RelationEnds};

use crate::static_shapes::Padding;
use crate::{BatchLayout, Column, ColumnsMut, Element};

/// The class of a seed without a label, which losses ignore.
const UNLABELLED: i64 = -1;

/// Pads the batch of these counts in this payload of a batch slot, and marks its seeds in `seed_mask`. With `None` the
/// batch is unchanged.
///
/// # Panics
/// If the slot is too small for padded batches.
pub fn pad(layout: &BatchLayout, payload: &mut [u8], padding: Option<&Padding<'_>>, counts: &BatchCounts) {
    let mut columns = layout.columns_mut(payload);
    for (of, size) in layout.metagraph().types().zip(counts.types()) {
        let mask: &mut [u8] = columns.take(Column::SeedMask.of(of));
        mask[..size.seeds].fill(1);
        if let Some(padding) = padding {
            mask[size.seeds..size.seeds + padding.more_nodes(0, of)].fill(0);
            pad_nodes(layout, &mut columns, padding, of);
        }
    }
    let Some(padding) = padding else { return };
    let relations = layout.metagraph().relation_count();
    for (at, block) in columns.take_blocks().iter_mut().enumerate() {
        padding.spread_block(at / relations, Relation((at % relations) as u16), block);
    }
}

/// Pads the columns of the nodes of a type.
fn pad_nodes(layout: &BatchLayout, columns: &mut ColumnsMut<'_>, padding: &Padding<'_>, of: NodeType) {
    let seeds = padding.nodes(0, of);
    let padded = seeds + padding.more_nodes(0, of);
    padding.spread_rows::<i64>(of, columns.take(Column::InputNodes.of(of)));
    padding.spread_rows::<i32>(of, columns.take(Column::Degrees.of(of)));
    let input_id: &mut [i64] = columns.take(Column::InputId.of(of));
    if !input_id.is_empty() {
        let first = if seeds > 0 { input_id[0] } else { 0 };
        input_id[seeds..padded].fill(first);
    }
    if let Some(place) = layout.place(Column::Labels.of(of)) {
        let labels: &mut [u8] = columns.take(Column::Labels.of(of));
        let of_padding = &mut labels[seeds * place.row_bytes()..padded * place.row_bytes()];
        match place.element {
            Element::I64 => {
                let (classes, _) = of_padding.as_chunks_mut::<8>();
                classes.fill(UNLABELLED.to_ne_bytes());
            }
            _ => of_padding.fill(0),
        }
    }
}

impl Padding<'_> {
    /// The range of a level's nodes of a type before padding, and the first of them after it.
    fn level(&self, level: usize, of: NodeType) -> (Range<usize>, usize) {
        let begin: usize = (0..level).map(|level| self.nodes(level, of)).sum();
        let moved: usize = (0..level).map(|level| self.more_nodes(level, of)).sum();
        (begin..begin + self.nodes(level, of), begin + moved)
    }

    /// Moves the rows of all nodes of a type to their places, and repeats the first one for padding.
    fn spread_rows<T: Copy + Default>(&self, of: NodeType, rows: &mut [T]) {
        if rows.is_empty() {
            return;
        }
        let any = (0..self.levels()).any(|level| self.nodes(level, of) > 0);
        let first = if any { rows[0] } else { T::default() };
        // From the last level on, since rows only move towards the end.
        for level in (0..self.levels()).rev() {
            let (from, to) = self.level(level, of);
            let end = to + from.len();
            rows.copy_within(from, to);
            rows[end..end + self.more_nodes(level, of)].fill(first);
        }
    }

    /// Moves the block of a layer and relation: its offsets, and its edges with their ids and weights.
    fn spread_block(&self, layer: usize, relation: Relation, block: &mut BlockMut<'_>) {
        let RelationEnds { source, destination } = self.ends(relation);
        // The end of the sources of each level, and the padding after them.
        let mut steps = [(0, 0); MAX_LAYERS + 1];
        let steps = &mut steps[..=layer];
        for (level, step) in steps.iter_mut().enumerate() {
            *step = (self.level(level, source).0.end as i32, self.more_nodes(level, source) as i32);
        }
        let moved =
            |id: i32| id + steps.iter().map(|&(end, more)| if id >= end { more } else { 0 }).sum::<i32>();
        for level in (0..=layer).rev() {
            let (from, to) = self.level(level, destination);
            let more: usize = (0..level).map(|before| self.edges_to(layer, before, relation).0).sum();
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
            self.pad_block(layer, level, relation, end, block);
        }
    }

    /// Appends the padding destinations of a level, with their edges from `begin` on.
    fn pad_block(
        &self,
        layer: usize,
        level: usize,
        relation: Relation,
        begin: usize,
        block: &mut BlockMut<'_>,
    ) {
        let RelationEnds { source, destination } = self.ends(relation);
        let (count, found_at) = self.edges_to(layer, level, relation);
        let edges = begin..begin + count;
        let (of_level, first) = self.level(level, destination);
        let (first, destinations) = (first + of_level.len(), self.more_nodes(level, destination));
        let mut end = begin;
        for number in 0..destinations {
            end += count / destinations + usize::from(number < count % destinations);
            block.indptr[first + number + 1] = end as i32;
        }
        let (found, sources) = self.level(found_at, source);
        let (sources, padding) = (sources + found.len(), self.more_nodes(found_at, source));
        for (number, index) in block.indices[edges.clone()].iter_mut().enumerate() {
            *index = (sources + number % padding) as i32;
        }
        if !block.edge_ids.is_empty() {
            // The relation's first edge, which it has if any batch has one.
            block.edge_ids[edges.clone()].fill(0);
        }
        if !block.weights.is_empty() {
            block.weights[edges].fill(0.0);
        }
    }
}

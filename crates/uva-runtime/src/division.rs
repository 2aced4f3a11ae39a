//! Which destinations of a batch the producer sums, and which it leaves to the consumer with the rows that they need.
//!
//! A sum is one row in the slot. A row that the consumer needs is there once, for all destinations that are left. Who
//! adds up a list's rows reads all of them, so the work of a list is the same whoever does it. What differs is the rows
//! that are written to the slot and read from there. So the division is the one that takes the fewest bytes of it.

use uva_batch::{BatchHeader, BatchLayout, Column};
use uva_ops::lists::{Lists, rows_of_chosen};
use uva_plan::{MissedLists, OwnRows, SumCosts};
use uva_rows::GatherError;

/// A batch's division.
#[derive(Debug)]
pub(crate) struct Division {
    /// For each destination whether the producer sums it.
    pub summed: Vec<bool>,
    /// The nodes whose rows are in the slot, as places in the batch: ascending.
    pub kept: Vec<i32>,
    /// Entries of the lists that the producer sums.
    entries: usize,
}

impl Division {
    /// Of the batch of this header, whose batch slot's payload is `from`; `None` where its destinations are not divided.
    ///
    /// # Errors
    /// Lists that cannot be.
    pub fn of(layout: &BatchLayout, header: &BatchHeader, from: &[u8]) -> Result<Option<Self>, GatherError> {
        let aggregation = layout.aggregation_of(header);
        if !layout.divides_sums() || aggregation == uva_batch::Aggregation::None {
            return Ok(None);
        }
        let outermost = layout.layers().len() - 1;
        let column = |column| &from[layout.range(header, column, outermost)];
        let indptr: &[i32] = bytemuck::cast_slice(column(Column::Indptr));
        let indices: &[i32] = bytemuck::cast_slice(column(Column::Indices));
        let nodes: &[i64] = bytemuck::cast_slice(column(Column::InputNodes));
        // Another process wrote them.
        let lists = Lists::new(indptr, indices, nodes.len())?;
        let own_rows = if aggregation.keeps_own_rows() { OwnRows::Beside } else { OwnRows::Within };
        // A row that a cache has is written to the slot like any other.
        let summed = MissedLists::of(nodes, indptr, indices, own_rows, |_| false).divide(costs(layout));
        let beside = own_rows == OwnRows::Beside;
        let always = if beside { lists.len() } else { 0 };
        let kept = rows_of_chosen(&lists, |v| !summed[v], always, !beside);
        let entries = (0..lists.len()).filter(|&v| summed[v]).map(|v| lists.edges(v).len()).sum();
        Ok(Some(Self { summed, kept, entries }))
    }

    /// Notes it in the batch's header.
    pub fn note(&self, header: &mut BatchHeader) {
        let sums = self.summed.iter().filter(|&&summed| summed).count();
        header.set_divided(self.kept.len(), sums, self.entries);
    }

    /// Writes the column that says which destinations are summed.
    pub fn write_mask(&self, mask: &mut [u8]) {
        mask.iter_mut().zip(&self.summed).for_each(|(mark, &summed)| *mark = u8::from(summed));
    }
}

/// Bytes in slots of this layout.
fn costs(layout: &BatchLayout) -> SumCosts {
    let sum_bytes = (layout.dim() * size_of::<f32>()) as u64;
    SumCosts { row_bytes: layout.row_bytes() as u64, sum_bytes, cpu: 0.0 }
}

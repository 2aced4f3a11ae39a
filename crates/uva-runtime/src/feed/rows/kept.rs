//! Rows of tables on disk that are kept in host memory: how many of each table.

use uva_graph::NodeType;
use uva_rows::cache::map_bytes;
use uva_rows::kept_row_bytes;

use super::tree::RowTree;
use crate::options::Prepare;
use crate::plan::RunPlan;

/// Maximum memory for rows that are read ahead, unless `host_cache` gives a size. It fits the rows of some batches of
/// usual models, and is little compared to tables that do not fit into memory.
const KEPT_BYTES: u64 = 256 << 20;

/// The number of kept rows of each table.
pub(super) struct KeptShares {
    rows: Vec<(NodeType, usize)>,
    reads_ahead: bool,
}

impl KeptShares {
    /// Those of the tables of these types in a run of this plan, each read from this tree; `None` if no rows are kept.
    pub fn of(plan: &RunPlan, stored: &RowTree, types: &[NodeType]) -> Option<Self> {
        let batches = plan.look_ahead();
        let is_kept = batches > 0 || plan.caches.are_before_disk();
        if !stored.reads_disk() || !is_kept || plan.options.prepare == Prepare::Whole {
            return None;
        }
        let table = |of: &NodeType| KeptTable {
            rows: plan.type_rows[of.index()],
            row_bytes: kept_row_bytes(plan.layout.rows_of(*of).map_or(0, |shape| shape.table_bytes())),
            in_batch: plan.layout.bounds().types[of.index()].nodes,
        };
        let mut tables: Vec<KeptTable> = types.iter().map(table).collect();
        let rows = match plan.caches.kept_bytes {
            Some(bytes) => divide_with_maps(bytes, &tables),
            None => {
                for table in &mut tables {
                    table.rows = table.rows.min(table.in_batch.saturating_mul(batches + 1));
                }
                divide(KEPT_BYTES, &tables)
            }
        };
        Some(Self { rows: types.iter().copied().zip(rows).collect(), reads_ahead: batches > 0 })
    }

    /// The tree of a type with the rows kept before `of`.
    pub fn before(&self, node_type: NodeType, of: RowTree) -> RowTree {
        let rows = self.rows.iter().find(|(of, _)| *of == node_type).map_or(0, |(_, rows)| *rows);
        RowTree::LookAhead { rows, reads_ahead: self.reads_ahead, of: Box::new(of) }
    }
}

/// A table on disk.
#[derive(Clone, Copy, Debug)]
struct KeptTable {
    /// Maximum number of kept rows.
    rows: usize,
    /// Bytes of a kept row.
    row_bytes: u64,
    /// Rows of the largest batch.
    in_batch: usize,
}

/// Divides these bytes over the kept rows of tables, in proportion to the bytes that the largest batch has of each: the
/// rows of a known batch have to be in memory together, whichever tables they are of. A table that fits whole leaves
/// the others its rest.
fn divide(bytes: u64, tables: &[KeptTable]) -> Vec<usize> {
    let mut kept = vec![0; tables.len()];
    let mut open: Vec<usize> = (0..tables.len()).filter(|&at| tables[at].rows > 0).collect();
    let mut left = u128::from(bytes);
    loop {
        let of = |at: usize| tables[at].in_batch as u128 * u128::from(tables[at].row_bytes);
        let all: u128 = open.iter().map(|&at| of(at)).sum();
        let share = |at: usize| left * tables[at].in_batch as u128 / all.max(1);
        let whole: Vec<usize> =
            open.iter().copied().filter(|&at| share(at) >= tables[at].rows as u128).collect();
        if whole.is_empty() {
            open.iter().for_each(|&at| kept[at] = share(at) as usize);
            return kept;
        }
        for &at in &whole {
            kept[at] = tables[at].rows;
            left -= tables[at].rows as u128 * u128::from(tables[at].row_bytes);
        }
        open.retain(|at| !whole.contains(at));
    }
}

/// Divides these bytes over kept rows of tables and the maps of the tables that have some. If they are too few for the
/// maps and a row of each table, the tables with the largest maps have none.
fn divide_with_maps(bytes: u64, tables: &[KeptTable]) -> Vec<usize> {
    let mut tables = tables.to_vec();
    tables.iter_mut().filter(|table| table.in_batch == 0).for_each(|table| table.rows = 0);
    loop {
        let open = || tables.iter().filter(|table| table.rows > 0);
        let maps: u64 = open().map(|table| map_bytes(table.rows)).sum();
        let kept = divide(bytes.saturating_sub(maps), &tables);
        if tables.iter().zip(&kept).all(|(table, kept)| table.rows == 0 || *kept > 0) {
            return kept;
        }
        if let Some(largest) = tables.iter_mut().max_by_key(|table| table.rows) {
            largest.rows = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn table(rows: usize, row_bytes: u64, in_batch: usize) -> KeptTable {
        KeptTable { rows, row_bytes, in_batch }
    }

    #[test]
    fn memory_is_divided_by_the_bytes_of_a_batch_and_whole_tables_leave_rest() {
        // 3 rows of 100 bytes for each row of 20: 320 bytes together.
        assert_eq!(divide(3200, &[table(1000, 100, 3), table(1000, 20, 1)]), [30, 10]);
        // The first has 5 rows only.
        assert_eq!(divide(3200, &[table(5, 100, 3), table(1000, 20, 1)]), [5, 135]);
        assert_eq!(divide(1 << 40, &[table(5, 100, 3), table(7, 20, 1)]), [5, 7]);
        assert_eq!(divide(3200, &[table(5, 100, 3), table(0, 20, 0)]), [5, 0]);
        assert_eq!(divide_with_maps(9000, &[table(1000, 100, 3), table(1_000_000, 20, 0)]), [50, 0]);
        assert!(divide(0, &[table(5, 100, 3)]) == [0] && divide(7, &[]).is_empty());
        // Types that no batch reaches.
        assert_eq!(divide(99, &[table(5, 100, 0), table(1000, 20, 0)]), [0, 0]);
    }

    #[test]
    fn no_division_takes_more_than_the_bytes_with_maps() {
        let tables = [table(1000, 100, 30), table(50, 7, 50), table(100_000, 20, 400)];
        for bytes in (0..600_000).step_by(997) {
            let kept = divide_with_maps(bytes, &tables);
            let of = |(kept, table): (&usize, &KeptTable)| match kept {
                0 => 0,
                _ => *kept as u64 * table.row_bytes + map_bytes(table.rows),
            };
            let taken: u64 = kept.iter().zip(&tables).map(of).sum();
            assert!(taken <= bytes, "{kept:?} of {bytes}");
            assert!(bytes < map_bytes(50) + 7 || kept[1] > 0, "{kept:?} of {bytes}");
        }
    }
}

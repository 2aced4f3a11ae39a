//! Gathers rows of several tables by one launch, each table by ids of its own: `kernels/gather_tables.cuh`.

use crate::arrays::KernelArray;
use crate::gather::{GatherReport, IdWidth};
use crate::header::constant;
use crate::source::{GATHER_TABLES_CUH, TUNING_CUH};

/// The entry point that completes the report.
pub const FINISH_TABLES: &str = "gather_finish_tables";

/// The maximum number of tables of a launch.
pub const TABLES_AT_ONCE: usize = constant(GATHER_TABLES_CUH, "UVA_TABLES_AT_ONCE") as usize;

/// A table's turns begin at a multiple of this.
const ROWS_PER_TAKE: u64 = constant(TUNING_CUH, "UVA_GATHER_ROWS_PER_TAKE");

shared_struct! {
    in GATHER_TABLES_CUH;
    /// One table, and the rows to gather from it. Addresses are the device's.
    pub struct GatheredTable {
        /// Row 0 of the table; as in [`GatherArguments`](crate::gather::GatherArguments), as are the next five.
        pub table: u64,
        /// Rows of the table.
        pub rows: u64,
        /// Bytes of a row.
        pub row_bytes: u64,
        /// The ids: int64.
        pub ids: u64,
        /// Number of ids.
        pub count: u64,
        /// Row 0 of the output.
        pub out: u64,
        /// The order in which positions are visited; 0 for the given order.
        pub order: u64,
        /// The table's first turn, set by [`TablesArguments::new`].
        pub first: u64,
    }
}

shared_struct! {
    in GATHER_TABLES_CUH;
    /// The arguments of a launch.
    pub struct TablesArguments {
        /// The number of tables: at most [`TABLES_AT_ONCE`].
        pub tables: u64,
        /// The number of the first of them, in the report.
        pub number: u64,
        /// The end of the turns of all tables.
        pub turns: u64,
        /// A [`GatherReport`], aligned to 8 bytes.
        pub report: u64,
        /// uint64, 0 before the launch: the counter of turns.
        pub counter: u64,
        /// The tables; those after the last are ignored.
        pub table: [GatheredTable; TABLES_AT_ONCE],
    }
}

impl TablesArguments {
    /// Creates the arguments of a launch for these tables, of which the first has this number. The turns are counted
    /// in the report if `counter` is 0, otherwise there.
    ///
    /// # Panics
    /// If there are more than [`TABLES_AT_ONCE`] tables.
    pub fn new(tables: &[GatheredTable], number: usize, report: u64, counter: u64) -> Self {
        let next = std::mem::offset_of!(GatherReport, next) as u64;
        let mut all = Self {
            tables: tables.len() as u64,
            number: number as u64,
            report,
            counter: if counter == 0 { report.wrapping_add(next) } else { counter },
            ..bytemuck::Zeroable::zeroed()
        };
        let mut first = 0_u64;
        for (to, table) in all.table[..tables.len()].iter_mut().zip(tables) {
            *to = GatheredTable { first, ..*table };
            all.turns = first.saturating_add(table.count);
            first = all.turns.checked_next_multiple_of(ROWS_PER_TAKE).unwrap_or(u64::MAX);
        }
        all
    }

    /// The tables.
    pub fn tables(&self) -> &[GatheredTable] {
        &self.table[..(self.tables as usize).min(TABLES_AT_ONCE)]
    }

    /// Number of rows of all tables.
    pub fn count(&self) -> u64 {
        self.tables().iter().fold(0, |sum, table| sum.saturating_add(table.count))
    }

    /// The arrays of these arguments.
    pub fn arrays(&self) -> impl Iterator<Item = KernelArray> {
        let of = |table: &GatheredTable| {
            [
                KernelArray::read("a table", table.table, table.rows, table.row_bytes).unaligned(),
                KernelArray::read("its ids", table.ids, table.count, IdWidth::I64.bytes()),
                KernelArray::write("its output", table.out, table.count, table.row_bytes).unaligned(),
                KernelArray::read("its order", table.order, table.count, 4).if_any(),
            ]
        };
        let report = KernelArray::write("the report", self.report, 1, GatherReport::BYTES as u64);
        let counter = KernelArray::write("the counter", self.counter, 1, 8);
        self.tables().iter().flat_map(of).chain([report, counter])
    }

    /// Checks the arguments.
    ///
    /// # Errors
    /// The reason why no memory can match these arguments.
    pub fn check(&self) -> Result<(), String> {
        let no_bytes = self.tables().iter().any(|table| table.row_bytes == 0);
        let no_bytes = no_bytes.then(|| "its rows have no bytes".to_owned());
        let too_many = || (self.turns == u64::MAX).then(|| "it has too many ids".to_owned());
        let refusal = no_bytes.or_else(too_many);
        let refusal = refusal.or_else(|| self.arrays().find_map(|array| array.refusal()));
        refusal.map_or(Ok(()), |what| Err(format!("a gather from tables cannot be launched: {what}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(count: u64) -> GatheredTable {
        GatheredTable {
            table: 0x1003,
            rows: 10,
            row_bytes: 7,
            ids: 0x2008,
            count,
            out: 0x3001,
            order: 0,
            first: 9,
        }
    }

    #[test]
    fn turns_of_a_table_begin_where_no_take_of_another_ends() {
        let all = TablesArguments::new(&[table(3), table(0), table(64), table(33)], 5, 0x4000, 0);
        let firsts: Vec<u64> = all.tables().iter().map(|table| table.first).collect();
        assert_eq!((firsts, all.turns, all.count()), (vec![0, 32, 32, 96], 129, 100));
        assert_eq!((all.number, all.counter), (5, 0x4028));
        assert_eq!(TablesArguments::new(&[], 0, 0x4000, 0x5000).counter, 0x5000);
    }

    #[test]
    fn arguments_that_no_memory_can_satisfy_are_refused() {
        let check = |table: GatheredTable, report| TablesArguments::new(&[table], 0, report, 0).check();
        check(table(3), 0x4000).unwrap();
        for (wrong, said) in [
            (GatheredTable { row_bytes: 0, ..table(3) }, "no bytes"),
            (GatheredTable { ids: 0x2004, ..table(3) }, "its ids"),
            (GatheredTable { table: 0, ..table(3) }, "a table"),
            (GatheredTable { order: 0x7002, ..table(3) }, "its order"),
            (table(u64::MAX), "too many ids"),
        ] {
            let error = check(wrong, 0x4000).unwrap_err();
            assert!(error.contains(said), "{error} should contain {said}");
        }
        assert!(check(table(3), 0x4004).unwrap_err().contains("the report"));
    }
}

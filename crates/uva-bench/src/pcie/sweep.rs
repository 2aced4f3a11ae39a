//! The measured gathers: one axis at a time from a base point, or every combination.

use serde::Serialize;
use uva_cuda::kernels::gather::Kernel;

use super::ids::IdOrder;
use super::table::TablePages;

/// The maximum number of cells unless every combination is requested.
pub const MOST_CELLS: usize = 150;

/// Default row sizes in bytes: powers of two, sizes around 1 KiB whose rows begin anywhere in a line, and those of
/// known datasets and of the published example (480).
pub const ROW_BYTES: [usize; 17] =
    [64, 128, 188, 256, 400, 480, 512, 516, 1024, 1028, 1032, 1036, 1040, 1044, 2048, 4096, 8192];

/// Link reads are at best whole lines of this many bytes.
pub(super) const LINE: usize = 128;

/// Row sizes at which kernels are compared with their twins, in addition to the base point's.
const TWIN_ROW_BYTES: [usize; 4] = [128, 512, 1028, 4096];

/// Numbers of multiprocessors, in addition to all of them.
pub const MULTIPROCESSORS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// How a gather is restricted to a number of multiprocessors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GatherPartition {
    /// No more blocks than the given number of multiprocessors holds; the device may spread them over more.
    Grid,
    /// The same number of blocks, in a green context of exactly that many multiprocessors.
    Green,
}

/// One gather to be measured.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Cell {
    /// The axis on which it differs from the base point, or its group.
    pub axis: &'static str,
    /// The kernel.
    pub kernel: Kernel,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Multiprocessors; `None` for all that this process may use.
    pub multiprocessors: Option<u32>,
    /// How the gather is restricted to them.
    pub partition: GatherPartition,
    /// The table's pages.
    pub pages: TablePages,
    /// The table's bytes.
    pub table_bytes: u64,
    /// The order of the ids.
    pub ids: IdOrder,
}

impl Cell {
    /// The cell's name in messages.
    pub fn name(&self) -> String {
        let Self { kernel, row_bytes, pages, table_bytes, ids, .. } = self;
        let limit = match (self.multiprocessors, self.partition) {
            (None, _) => "all multiprocessors".to_owned(),
            (Some(some), GatherPartition::Grid) => format!("a grid for {some} multiprocessors"),
            (Some(some), GatherPartition::Green) => format!("a green context of {some} multiprocessors"),
        };
        let (kernel, pages, ids) = (kernel.name(), pages.name(), ids.name());
        format!("{kernel}, {row_bytes}-byte rows, {limit}, {table_bytes} bytes on {pages} pages, {ids} ids")
    }

    /// Whether both are the same gather, on any axis.
    pub(super) fn same(&self, other: &Self) -> bool {
        let point = |cell: &Self| {
            let Self { kernel, row_bytes, multiprocessors, partition, pages, table_bytes, ids, .. } = *cell;
            (kernel, row_bytes, multiprocessors, partition, pages, table_bytes, ids)
        };
        point(self) == point(other)
    }
}

/// The points of each axis. The base point is `wide`, rows of 512 bytes (or the first of other sizes), all
/// multiprocessors, and the first of each of the others here.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Kernels.
    pub kernels: Vec<Kernel>,
    /// Bytes of a row.
    pub row_bytes: Vec<usize>,
    /// Numbers of multiprocessors; `None` for all.
    pub multiprocessors: Vec<Option<u32>>,
    /// Page kinds, the base point's first.
    pub pages: Vec<TablePages>,
    /// Table sizes, the base point's first.
    pub table_bytes: Vec<u64>,
    /// Orders of the ids, the base point's first.
    pub ids: Vec<IdOrder>,
    /// Every combination instead of one axis at a time.
    pub full: bool,
}

impl Sweep {
    /// The base point.
    ///
    /// # Panics
    /// If an axis has no points.
    pub fn base(&self) -> Cell {
        let or_first = |wanted, of: &[usize]| if of.contains(&wanted) { wanted } else { of[0] };
        Cell {
            axis: "base",
            kernel: if self.kernels.contains(&Kernel::Wide) { Kernel::Wide } else { self.kernels[0] },
            row_bytes: or_first(512, &self.row_bytes),
            multiprocessors: if self.multiprocessors.contains(&None) {
                None
            } else {
                self.multiprocessors[0]
            },
            partition: GatherPartition::Grid,
            pages: self.pages[0],
            table_bytes: self.table_bytes[0],
            ids: self.ids[0],
        }
    }

    /// The largest table of at most 4 GiB, otherwise the base point's: for measurements that depend on the table's
    /// pages and on the number of its addresses that a GPU can translate at once. The base point's table should be
    /// small enough for all of them.
    pub fn large(&self) -> u64 {
        let base = self.base().table_bytes;
        self.table_bytes.iter().copied().filter(|bytes| *bytes <= 4 << 30).max().unwrap_or(base)
    }

    /// The cells, each once, the most important first and those of one table together.
    ///
    /// # Panics
    /// If an axis has no points.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = vec![self.base()];
        if !self.row_bytes.iter().any(|row_bytes| row_bytes % LINE == 0) {
            // The rate of whole-line reads is needed for any requested rows.
            cells.push(Cell { axis: "ceiling", row_bytes: 8 * LINE, ..self.base() });
        }
        if self.full {
            self.combinations(&mut cells);
        } else {
            self.axes(&mut cells);
        }
        let mut once: Vec<Cell> = Vec::with_capacity(cells.len());
        for cell in cells {
            if !once.iter().any(|known| known.same(&cell)) {
                once.push(cell);
            }
        }
        let mut tables: Vec<(TablePages, u64)> = Vec::new();
        for cell in &once {
            if !tables.contains(&(cell.pages, cell.table_bytes)) {
                tables.push((cell.pages, cell.table_bytes));
            }
        }
        let place = |cell: &Cell| tables.iter().position(|table| *table == (cell.pages, cell.table_bytes));
        once.sort_by_key(place);
        if !self.full {
            once.truncate(MOST_CELLS);
        }
        once
    }

    fn axes(&self, cells: &mut Vec<Cell>) {
        let base = self.base();
        // Twins make the same reads, and are compared at a few points.
        let (twins, kernels): (Vec<_>, Vec<_>) =
            self.kernels.iter().partition(|kernel| kernel.layout() != **kernel && **kernel != base.kernel);
        for &kernel in &kernels {
            for &row_bytes in &self.row_bytes {
                cells.push(Cell { axis: "row-bytes", kernel, row_bytes, ..base.clone() });
            }
        }
        for &kernel in &kernels {
            for &multiprocessors in &self.multiprocessors {
                cells.push(Cell { axis: "multiprocessors", kernel, multiprocessors, ..base.clone() });
            }
        }
        for &kernel in &twins {
            let hint = Cell { axis: "hints", kernel, ..base.clone() };
            let rows = self.row_bytes.iter().copied().filter(|rows| TWIN_ROW_BYTES.contains(rows));
            cells.extend(rows.chain([base.row_bytes]).map(|row_bytes| Cell { row_bytes, ..hint.clone() }));
            let few = self.multiprocessors.iter().copied().filter(|few| *few == Some(8));
            cells.extend(few.map(|multiprocessors| Cell { multiprocessors, ..hint.clone() }));
        }
        // Few multiprocessors have to suffice for every row size, not only for the base point's.
        let few = |row_bytes, multiprocessors, partition| Cell {
            axis: "few-multiprocessors",
            row_bytes,
            multiprocessors: Some(multiprocessors),
            partition,
            ..base.clone()
        };
        if self.multiprocessors.contains(&Some(8)) {
            cells.extend(self.row_bytes.iter().map(|&row_bytes| few(row_bytes, 8, GatherPartition::Green)));
            cells.extend(self.row_bytes.iter().map(|&row_bytes| few(row_bytes, 8, GatherPartition::Grid)));
        }
        // Green contexts come in multiples of 8.
        for multiprocessors in self.multiprocessors.iter().flatten().filter(|some| **some % 8 == 0) {
            cells.push(few(base.row_bytes, *multiprocessors, GatherPartition::Green));
        }
        let large = Cell { table_bytes: self.large(), ..base.clone() };
        cells.extend(self.ids.iter().map(|&ids| Cell { axis: "ids", ids, ..large.clone() }));
        for &table_bytes in &self.table_bytes {
            for ids in self.ids.iter().copied().filter(|ids| *ids != IdOrder::Trace) {
                cells.push(Cell { axis: "table-size", table_bytes, ids, ..base.clone() });
            }
        }
        for &pages in &self.pages {
            let rows =
                self.row_bytes.iter().copied().filter(|row_bytes| [128, 512, 4096].contains(row_bytes));
            for row_bytes in rows.chain([base.row_bytes]) {
                cells.push(Cell { axis: "pages", pages, row_bytes, ..large.clone() });
            }
        }
    }

    fn combinations(&self, cells: &mut Vec<Cell>) {
        let base = self.base();
        for &table_bytes in &self.table_bytes {
            for &pages in &self.pages {
                for &kernel in &self.kernels {
                    for &row_bytes in &self.row_bytes {
                        for &multiprocessors in &self.multiprocessors {
                            for &ids in &self.ids {
                                let axis = "full";
                                let point = base.clone();
                                cells.push(Cell {
                                    axis,
                                    kernel,
                                    row_bytes,
                                    multiprocessors,
                                    pages,
                                    table_bytes,
                                    ids,
                                    ..point
                                });
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Sweep {
        Sweep {
            kernels: Kernel::ALL.to_vec(),
            row_bytes: ROW_BYTES.to_vec(),
            multiprocessors: MULTIPROCESSORS.iter().map(|some| Some(*some)).chain([None]).collect(),
            pages: vec![
                TablePages::TransparentHuge,
                TablePages::Base,
                TablePages::Hugetlb,
                TablePages::HostAlloc,
            ],
            table_bytes: vec![256 << 20, 4 << 30, 1 << 30, 16 << 30],
            ids: IdOrder::ALL.to_vec(),
            full: false,
        }
    }

    #[test]
    fn the_usual_sweep_has_every_point_of_every_axis_within_150_cells() {
        let (sweep, cells) = (whole(), whole().cells());
        assert!((100..=MOST_CELLS).contains(&cells.len()), "{} cells", cells.len());
        let has = |test: &dyn Fn(&Cell) -> bool| cells.iter().any(test);
        for &kernel in &sweep.kernels {
            let is_twin = kernel.layout() != kernel;
            for &row_bytes in sweep.row_bytes.iter().filter(|rows| !is_twin || TWIN_ROW_BYTES.contains(rows))
            {
                let all = |cell: &Cell| cell.multiprocessors.is_none() && cell.pages == sweep.pages[0];
                assert!(has(&|c| (c.kernel, c.row_bytes) == (kernel, row_bytes) && all(c)), "{row_bytes}");
            }
            for &some in sweep.multiprocessors.iter().filter(|some| !is_twin || **some == Some(8)) {
                assert!(has(&|c| (c.kernel, c.multiprocessors, c.row_bytes) == (kernel, some, 512)));
            }
        }
        assert!(sweep.pages.iter().all(|&pages| has(&|c| c.pages == pages)));
        assert!(sweep.table_bytes.iter().all(|&bytes| has(&|c| c.table_bytes == bytes)));
        assert!(sweep.ids.iter().all(|&ids| has(&|c| c.ids == ids)));
        assert!(sweep.row_bytes.iter().all(|&r| has(&|c| (c.row_bytes, c.multiprocessors) == (r, Some(8)))));
    }

    #[test]
    fn no_gather_is_measured_twice_and_each_table_is_made_once() {
        for sweep in [whole(), Sweep { full: true, row_bytes: vec![64, 128], ..whole() }] {
            let cells = sweep.cells();
            for (index, cell) in cells.iter().enumerate() {
                assert!(!cells[..index].iter().any(|known| known.same(cell)), "{}", cell.name());
            }
            let mut tables: Vec<_> = cells.iter().map(|cell| (cell.pages, cell.table_bytes)).collect();
            tables.dedup();
            let changes = tables.len();
            tables.sort();
            tables.dedup();
            assert_eq!(changes, tables.len());
            assert_eq!((cells[0].pages, cells[0].table_bytes), (sweep.pages[0], sweep.table_bytes[0]));
        }
    }

    #[test]
    fn every_combination_is_every_combination() {
        let sweep = Sweep { full: true, ..whole() };
        assert_eq!(sweep.cells().len(), 5 * 17 * 7 * 4 * 4 * 4);
    }

    #[test]
    fn the_base_point_is_on_axes_without_the_default_value() {
        let sweep = Sweep {
            kernels: vec![Kernel::Naive],
            row_bytes: vec![60],
            multiprocessors: vec![Some(2)],
            ..whole()
        };
        let base = sweep.base();
        assert_eq!((base.kernel, base.row_bytes, base.multiprocessors), (Kernel::Naive, 60, Some(2)));
        // Rows of whole lines are measured nevertheless.
        let cells = sweep.cells();
        assert!(cells[0].same(&base) && cells[1].row_bytes == 1024 && cells[1].axis == "ceiling");
    }
}

//! The results, and the reference rates of their shares.

use serde::Serialize;
use uva_cuda::kernels::gather::{IdWidth, Kernel, KernelResources};
use uva_cuda::{CudaError, ModuleReport};

use super::bench::{ZeroCopy, median};
use super::engine::CopyEngine;
use super::paths::{TransferPath, WayFigure};
use super::sweep::{Cell, GatherPartition, LINE};
use super::table::TableReport;

/// The figure of one cell.
#[derive(Clone, Debug, Serialize)]
pub struct CellFigure {
    /// The measured cell.
    #[serde(flatten)]
    pub cell: Cell,
    /// Rows of a sample.
    pub rows: usize,
    /// Row bytes delivered ÷ time, median, in 10⁹ bytes per second.
    pub gb_per_second: f64,
    /// Each sample.
    pub samples: Vec<f64>,
    /// Share of the copy engine's peak in the same run.
    pub share_of_copy_engine: f64,
    /// Share of [`PcieReport::zero_copy_ceiling`].
    pub share_of_ceiling: f64,
    /// The share of that ceiling that the request model allows for this kernel and row size; absent without the model.
    pub model_ceiling: Option<f64>,
    /// The share of the ceiling ÷ the model's ceiling.
    pub share_of_model: Option<f64>,
    /// Rows compared with the table: a difference is an error, not a figure.
    pub verified_rows: usize,
    /// The check sum of the first sample's ids: see [`check_sum`](super::check_sum).
    pub ids_check: u64,
}

impl CellFigure {
    /// A figure without its shares, which are computed at the end of a run.
    pub(super) fn new(cell: &Cell, measured: ZeroCopy) -> Self {
        Self {
            cell: cell.clone(),
            rows: measured.rows,
            gb_per_second: median(&measured.samples),
            samples: measured.samples,
            share_of_copy_engine: 0.0,
            share_of_ceiling: 0.0,
            model_ceiling: None,
            share_of_model: None,
            verified_rows: measured.verified_rows,
            ids_check: measured.ids_check,
        }
    }
}

/// A cell that was not measured.
#[derive(Clone, Debug, Serialize)]
pub struct SkippedCell {
    /// The cell.
    #[serde(flatten)]
    pub cell: Cell,
    /// The reason.
    pub why: String,
}

/// A kernel's use of a multiprocessor.
#[derive(Clone, Debug, Serialize)]
pub struct KernelReport {
    /// The kernel.
    pub kernel: Kernel,
    /// The resources as compiled.
    #[serde(flatten)]
    pub resources: KernelResources,
}

/// The device of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceFacts {
    /// The device's name as NVIDIA reports it.
    pub name: String,
    /// Compute capability.
    pub capability: (u32, u32),
    /// Multiprocessors that this process may use.
    pub multiprocessors: u32,
    /// PCI address.
    pub pci_bus_id: String,
    /// Whether MPS serves this process.
    pub mps_enabled: bool,
    /// The CUDA version that the driver serves.
    pub driver: String,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct PcieReport {
    /// Whether the driver was the simulator: then the figures mean nothing.
    pub simulator: bool,
    /// The device.
    pub device: DeviceFacts,
    /// The origin of the kernels' code.
    pub module: ModuleReport,
    /// The kernels' use of resources.
    pub kernels: Vec<KernelReport>,
    /// The cell that all axes share.
    pub base: Cell,
    /// The maximum number of bytes per sample.
    pub sample_bytes: usize,
    /// Samples per figure.
    pub sample_count: usize,
    /// The rates of long copies.
    pub copy_engine: CopyEngine,
    /// The best rate among the cells whose rows are whole lines, with the base point's table and order of ids: the rate
    /// of 128-byte reads there. In 10⁹ bytes per second.
    pub zero_copy_ceiling: f64,
    /// The other paths.
    pub ways: Vec<WayFigure>,
    /// The tables.
    pub tables: Vec<TableReport>,
    /// The measured cells.
    pub cells: Vec<CellFigure>,
    /// The cells that were not measured.
    pub skipped: Vec<SkippedCell>,
    /// The figures compared with their goals; empty under the simulator.
    pub reach: Vec<Goal>,
    /// Wall-clock seconds of the whole benchmark.
    pub seconds: f64,
}

/// A goal for the figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Goal {
    /// The goal.
    pub what: &'static str,
    /// The minimum value.
    pub wanted: f64,
    /// The measured value: the least of the cells concerned.
    pub measured: f64,
    /// The cell, or another name of the figure.
    pub at: String,
    /// Whether the goal is reached.
    pub met: bool,
}

/// The share of the ceiling that the request model allows a kernel for rows of the given bytes.
pub type RequestModel<'m> = &'m dyn Fn(Kernel, usize) -> Option<f64>;

impl PcieReport {
    /// Computes every share, and which goals are reached.
    pub(super) fn conclude(&mut self, model: RequestModel<'_>) {
        let Cell { pages, table_bytes, ids, .. } = self.base;
        let whole_lines = self.cells.iter().filter(|figure| {
            let cell = &figure.cell;
            cell.row_bytes.is_multiple_of(LINE)
                && (cell.pages, cell.table_bytes, cell.ids) == (pages, table_bytes, ids)
        });
        self.zero_copy_ceiling = whole_lines.map(|figure| figure.gb_per_second).fold(0.0, f64::max);
        let (engine, ceiling) = (self.copy_engine.peak_gb_per_second, self.zero_copy_ceiling);
        for figure in &mut self.cells {
            figure.share_of_copy_engine = quotient(figure.gb_per_second, engine);
            figure.share_of_ceiling = quotient(figure.gb_per_second, ceiling);
            figure.model_ceiling = model(figure.cell.kernel, figure.cell.row_bytes);
            figure.share_of_model =
                figure.model_ceiling.filter(|_| ceiling > 0.0).map(|m| quotient(figure.share_of_ceiling, m));
        }
        if !self.simulator {
            self.reach = self.goals();
        }
    }

    /// The cells of the sweep over kernels and row sizes, with the base point's values on all other axes.
    fn at_base(&self) -> impl Iterator<Item = &CellFigure> {
        let Cell { pages, table_bytes, ids, multiprocessors, .. } = self.base;
        self.cells.iter().filter(move |figure| {
            let cell = &figure.cell;
            (cell.pages, cell.table_bytes, cell.ids, cell.multiprocessors)
                == (pages, table_bytes, ids, multiprocessors)
        })
    }

    fn goals(&self) -> Vec<Goal> {
        let wide = |figure: &&CellFigure| figure.cell.kernel == Kernel::Wide;
        let lines = |figure: &&CellFigure| figure.cell.row_bytes.is_multiple_of(LINE);
        let others = |figure: &&CellFigure| !lines(figure) && figure.cell.row_bytes >= 100;
        // A green context of 8 is exact; without one, the grid approximates it.
        let few = |partition| {
            move |figure: &&CellFigure| {
                figure.cell.multiprocessors == Some(8)
                    && figure.cell.partition == partition
                    && figure.cell.ids == self.base.ids
            }
        };
        let green = self.cells.iter().any(|figure| few(GatherPartition::Green)(&figure));
        let few = few(if green { GatherPartition::Green } else { GatherPartition::Grid });
        let share = |figure: &CellFigure| Some(figure.share_of_ceiling);
        let of_model = |figure: &CellFigure| figure.share_of_model;
        let mut goals = Vec::new();
        let mut goal = |what, wanted: f64, least: Option<(f64, String)>| {
            if let Some((measured, at)) = least {
                goals.push(Goal { what, wanted, measured, at, met: measured >= wanted });
            }
        };
        goal(
            "wide, rows of whole lines: share of what aligned 128-byte reads reach",
            0.97,
            least(self.at_base().filter(wide).filter(lines), share),
        );
        goal(
            "wide, other rows of 100 bytes or more: share of the request model's ceiling",
            0.95,
            least(self.at_base().filter(wide).filter(others), of_model),
        );
        let few_wide = || self.cells.iter().filter(wide).filter(few);
        goal(
            "the same with 8 multiprocessors, rows of whole lines",
            0.97,
            least(few_wide().filter(lines), share),
        );
        goal("the same with 8 multiprocessors, other rows", 0.95, least(few_wide().filter(others), of_model));
        goal("wide: share of the best of the other kernels, at any row size", 0.98, self.against_others());
        goal(
            "split: share of what copy engine and zero-copy reads reach together, where that beats either alone",
            0.95,
            self.split_share(),
        );
        goals
    }

    fn against_others(&self) -> Option<(f64, String)> {
        let wide = self.at_base().filter(|figure| figure.cell.kernel == Kernel::Wide);
        least(wide, |wide| {
            let others = self.at_base().filter(|other| {
                other.cell.kernel != Kernel::Wide && other.cell.row_bytes == wide.cell.row_bytes
            });
            let best = others.map(|other| other.gb_per_second).fold(0.0, f64::max);
            (best > 0.0).then(|| wide.gb_per_second / best)
        })
    }

    fn split_share(&self) -> Option<(f64, String)> {
        let way = |wanted: TransferPath| self.ways.iter().find(|figure| figure.way == wanted);
        let (split, together) = (way(TransferPath::Split)?, way(TransferPath::Together)?);
        let alone = self.copy_engine.peak_gb_per_second.max(self.zero_copy_ceiling);
        (together.gb_per_second > alone).then(|| {
            let share = quotient(split.gb_per_second, together.gb_per_second);
            (share, format!("{}-byte rows", split.row_bytes))
        })
    }
}

fn quotient(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The least of some figures, and its cell.
fn least<'f>(
    figures: impl Iterator<Item = &'f CellFigure>,
    value: impl Fn(&CellFigure) -> Option<f64>,
) -> Option<(f64, String)> {
    figures
        .filter_map(|figure| Some((value(figure)?, figure.cell.name())))
        .min_by(|(a, _), (b, _)| a.total_cmp(b))
}

/// Each kernel's use of a multiprocessor, with int64 ids.
pub(super) fn kernel_reports(
    kernels: &uva_cuda::kernels::gather::GatherKernels,
) -> Result<Vec<KernelReport>, CudaError> {
    let report =
        |kernel| Ok(KernelReport { kernel, resources: kernels.resources(kernel, IdWidth::I64, false)? });
    Kernel::ALL.into_iter().map(report).collect()
}

#[cfg(test)]
mod tests {
    use uva_cuda::CodeOrigin;
    use uva_cuda::memory::{PinHow, PinReport};

    use super::*;
    use crate::pcie::{IdOrder, TablePages};

    fn base() -> Cell {
        Cell {
            axis: "base",
            kernel: Kernel::Wide,
            row_bytes: 512,
            multiprocessors: None,
            partition: GatherPartition::Grid,
            pages: TablePages::Base,
            table_bytes: 1 << 20,
            ids: IdOrder::Random,
        }
    }

    fn figure(cell: Cell, gb_per_second: f64) -> CellFigure {
        let samples = vec![gb_per_second; 3];
        CellFigure::new(&cell, ZeroCopy { rows: 1, samples, verified_rows: 1, ids_check: 0 })
    }

    fn report(cells: Vec<CellFigure>) -> PcieReport {
        PcieReport {
            simulator: false,
            device: DeviceFacts {
                name: "a GPU".to_owned(),
                capability: (9, 0),
                multiprocessors: 132,
                pci_bus_id: String::new(),
                mps_enabled: false,
                driver: "13.0".to_owned(),
            },
            module: ModuleReport {
                origin: CodeOrigin::Compiled,
                target: None,
                nvrtc: None,
                seconds: 0.0,
                note: None,
            },
            kernels: Vec::new(),
            base: base(),
            sample_bytes: 1,
            sample_count: 3,
            copy_engine: CopyEngine { peak_gb_per_second: 50.0, sizes: Vec::new() },
            zero_copy_ceiling: 0.0,
            ways: Vec::new(),
            tables: vec![TableReport {
                pages: TablePages::Base,
                bytes: 1 << 20,
                transparent_huge_bytes: None,
                fill_seconds: 0.0,
                pin: PinReport {
                    bytes: 0,
                    pinned_bytes: 0,
                    seconds: 0.0,
                    how: PinHow::InPlace,
                    pages: None,
                    huge_share: None,
                    chunks: 1,
                    refused: None,
                },
            }],
            cells,
            skipped: Vec::new(),
            reach: Vec::new(),
            seconds: 1.0,
        }
    }

    fn concluded(cells: Vec<CellFigure>) -> PcieReport {
        let mut report = report(cells);
        // Whole lines have no overhead; other rows a fifth.
        report.conclude(&|_, row_bytes| Some(if row_bytes % 128 == 0 { 1.0 } else { 0.8 }));
        report
    }

    fn goal<'r>(report: &'r PcieReport, part: &str) -> &'r Goal {
        report.reach.iter().find(|goal| goal.what.contains(part)).unwrap_or_else(|| panic!("no goal {part}"))
    }

    #[test]
    fn shares_are_of_the_copy_engine_of_the_best_whole_lines_and_of_the_model() {
        let cells = vec![
            figure(base(), 40.0),
            figure(Cell { row_bytes: 4096, ..base() }, 38.0),
            // Rows that are not whole lines, and another table or order, do not determine the ceiling.
            figure(Cell { ids: IdOrder::Sorted, ..base() }, 43.0),
            figure(Cell { row_bytes: 1028, ..base() }, 44.0),
            figure(Cell { row_bytes: 188, ..base() }, 24.0),
        ];
        let report = concluded(cells);
        assert_eq!(report.zero_copy_ceiling, 40.0);
        let small = &report.cells[4];
        assert!((small.share_of_copy_engine - 0.48).abs() < 1e-12);
        assert!((small.share_of_ceiling - 0.6).abs() < 1e-12);
        assert!((small.share_of_model.unwrap() - 0.75).abs() < 1e-12);
        let lines = goal(&report, "whole lines");
        assert!(
            !lines.met && (lines.measured - 0.95).abs() < 1e-12 && lines.at.contains("4096"),
            "{lines:?}"
        );
        let others = goal(&report, "other rows of 100");
        assert!(!others.met && others.at.contains("188"), "{others:?}");
    }

    #[test]
    fn small_rows_and_other_kernels_are_not_what_the_goals_of_wide_are_about() {
        let report = concluded(vec![
            figure(base(), 40.0),
            figure(Cell { row_bytes: 64, ..base() }, 1.0),
            figure(Cell { kernel: Kernel::Naive, ..base() }, 30.0),
            figure(Cell { ids: IdOrder::Sorted, ..base() }, 2.0),
        ]);
        assert!(report.reach.iter().all(|goal| goal.met), "{:?}", report.reach);
        assert!(goal(&report, "best of the other kernels").measured > 1.3);
    }

    #[test]
    fn wide_is_held_against_the_best_of_the_others_at_its_worst_size() {
        let kernel = |kernel, row_bytes, rate| figure(Cell { kernel, row_bytes, ..base() }, rate);
        let report = concluded(vec![
            kernel(Kernel::Wide, 512, 40.0),
            kernel(Kernel::Shift, 512, 40.0),
            kernel(Kernel::Wide, 1024, 36.0),
            kernel(Kernel::Naive, 1024, 40.0),
        ]);
        let goal = goal(&report, "best of the other kernels");
        assert!(!goal.met && (goal.measured - 0.9).abs() < 1e-12 && goal.at.contains("1024"), "{goal:?}");
    }

    #[test]
    fn a_green_context_of_8_counts_if_available_else_the_grid() {
        let few = |partition, rate| figure(Cell { multiprocessors: Some(8), partition, ..base() }, rate);
        let report = concluded(vec![figure(base(), 40.0), few(GatherPartition::Grid, 20.0)]);
        assert!(!goal(&report, "8 multiprocessors, rows").met);
        let green = few(GatherPartition::Green, 40.0);
        let report = concluded(vec![figure(base(), 40.0), few(GatherPartition::Grid, 20.0), green]);
        assert!(goal(&report, "8 multiprocessors, rows").met);
    }

    #[test]
    fn a_split_is_judged_only_where_both_together_beat_either() {
        let way = |way, gb_per_second| WayFigure {
            way,
            row_bytes: 512,
            threads: 1,
            table_bytes: 1 << 20,
            rows: 1,
            gb_per_second,
            samples: vec![gb_per_second; 3],
            zero_copy_share: 0.5,
            verified_rows: 1,
        };
        for (together, judged) in [(49.0, false), (60.0, true)] {
            let mut report = report(vec![figure(base(), 40.0)]);
            report.ways = vec![way(TransferPath::Split, 45.0), way(TransferPath::Together, together)];
            report.conclude(&|_, _| None);
            let found: Vec<_> = report.reach.iter().filter(|goal| goal.what.starts_with("split")).collect();
            assert_eq!(!found.is_empty(), judged);
            assert!(found.iter().all(|goal| !goal.met && (goal.measured - 0.75).abs() < 1e-12));
        }
    }

    #[test]
    fn under_the_simulator_nothing_is_judged() {
        let mut report = report(vec![figure(base(), 40.0)]);
        report.simulator = true;
        report.conclude(&|_, _| Some(1.0));
        assert!(report.reach.is_empty());
    }
}

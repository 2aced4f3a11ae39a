//! The whole benchmark, in order: copy engine, cells table by table, the other paths.

use std::sync::Arc;
use std::time::Instant;

use uva_cuda::kernels::gather::GatherKernels;
use uva_cuda::{Context, CudaError, Driver, Module, ModuleReport};

use super::bench::Bench;
use super::error::PcieError;
use super::options::PcieOptions;
use super::report::{CellFigure, DeviceFacts, PcieReport, RequestModel, SkippedCell, kernel_reports};
use super::sweep::{Cell, GatherPartition};
use super::table::KnownTable;
use super::{engine, paths};

/// The progress of the benchmark.
#[derive(Clone, Copy, Debug)]
pub struct BenchProgress<'p> {
    /// Finished cells.
    pub done: usize,
    /// Cells in total.
    pub all: usize,
    /// The name of the current step.
    pub now: &'p str,
}

/// Runs the benchmark. `kernels` belong to `module`, in `context`. `model` gives the request model of each kernel and
/// row size.
///
/// # Errors
/// [`PcieError`]: wrong bytes in any cell end the benchmark. A cell that this machine cannot run is in
/// [`PcieReport::skipped`].
///
/// # Panics
/// If an axis of the sweep has no points.
pub fn measure(
    context: &Arc<Context>,
    module: &Module,
    options: &PcieOptions,
    model: RequestModel<'_>,
    progress: &mut dyn FnMut(BenchProgress<'_>),
) -> Result<PcieReport, PcieError> {
    if !(3..=100).contains(&options.samples) {
        return Err(PcieError::Refused(format!("{} samples: expected 3 to 100", options.samples)));
    }
    let began = Instant::now();
    let kernels = GatherKernels::new(module)?;
    let cells = options.sweep.cells();
    let largest = cells.iter().map(|cell| cell.row_bytes).max().unwrap_or(1);
    let options = PcieOptions { sample_bytes: options.sample_bytes.max(largest), ..options.clone() };
    let mut bench = Bench::new(context, kernels.clone(), &options)?;
    progress(BenchProgress { done: 0, all: cells.len(), now: "the copy engine" });
    let copy_engine = engine::measure(&mut bench)?;
    let mut report = PcieReport {
        simulator: Driver::load().is_ok_and(Driver::device_memory_is_host_memory),
        device: facts(context)?,
        module: ModuleReport::clone(module.report()),
        kernels: kernel_reports(&kernels)?,
        base: options.sweep.base(),
        sample_bytes: options.sample_bytes,
        sample_count: options.samples,
        copy_engine,
        zero_copy_ceiling: 0.0,
        ways: Vec::new(),
        tables: Vec::new(),
        cells: Vec::with_capacity(cells.len()),
        skipped: Vec::new(),
        reach: Vec::new(),
        seconds: 0.0,
    };
    let over = || options.limit.is_some_and(|limit| began.elapsed() > limit);
    let all = cells.len();
    let mut say = |report: &PcieReport, now: &str| {
        progress(BenchProgress { done: report.cells.len() + report.skipped.len(), all, now });
    };
    for cells in cells.chunk_by(|a, b| (a.pages, a.table_bytes) == (b.pages, b.table_bytes)) {
        if over() {
            skip(&mut report, cells, OVER);
            continue;
        }
        say(&report, "filling and pinning a table");
        let table = match KnownTable::new(context, cells[0].pages, cells[0].table_bytes, options.preflight)
            .map_err(PcieError::from)
        {
            Ok(table) => table,
            Err(error) if error.is_a_lack() => {
                skip(&mut report, cells, &error.to_string());
                continue;
            }
            Err(error) => return Err(error),
        };
        report.tables.push(table.report.clone());
        for cell in cells {
            if over() {
                skip(&mut report, std::slice::from_ref(cell), OVER);
                continue;
            }
            say(&report, &cell.name());
            match bench.zero_copy(&table, cell) {
                Ok(measured) => report.cells.push(CellFigure::new(cell, measured)),
                // Drivers differ in which operations they allow on streams of a green context.
                Err(error)
                    if error.is_a_lack()
                        || (cell.partition == GatherPartition::Green && error.is_refusal()) =>
                {
                    skip(&mut report, std::slice::from_ref(cell), &error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        let large = Cell { table_bytes: options.sweep.large(), ..report.base.clone() };
        if (cells[0].pages, cells[0].table_bytes) == (large.pages, large.table_bytes)
            && options.ways
            && !over()
        {
            say(&report, "the ways with the CPU");
            let alone = report.cells.iter().find(|figure| figure.cell.same(&large));
            let zero_copy = alone.map_or(1.0, |figure| figure.gb_per_second);
            let (row_bytes, engine) = (report.base.row_bytes, report.copy_engine.peak_gb_per_second);
            report.ways = paths::measure(&mut bench, &table, &options, row_bytes, zero_copy, engine)?;
        }
    }
    report.seconds = began.elapsed().as_secs_f64();
    report.conclude(model);
    Ok(report)
}

fn skip(report: &mut PcieReport, cells: &[Cell], why: &str) {
    report.skipped.extend(cells.iter().map(|cell| SkippedCell { cell: cell.clone(), why: why.to_owned() }));
}

const OVER: &str = "skipped: the allowed time was over";

fn facts(context: &Context) -> Result<DeviceFacts, CudaError> {
    let device = context.device();
    let (major, minor) = Driver::load()?.version();
    Ok(DeviceFacts {
        name: device.name().to_owned(),
        capability: device.capability(),
        multiprocessors: device.multiprocessors(),
        pci_bus_id: device.pci_bus_id().to_owned(),
        mps_enabled: device.mps_enabled(),
        driver: format!("{major}.{minor}"),
    })
}

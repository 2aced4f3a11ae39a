//! `uvatrain bench pcie`: the throughput of gathers over the link to a GPU, compared with plain copies.

mod plot;
mod text;

use std::cell::RefCell;
use std::collections::HashMap;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use uva_bench::pcie::{self, BenchProgress, PcieError, PcieOptions, PcieReport, ROW_BYTES, Sweep};
use uva_cuda::{CacheKind, Context, CudaError, Driver, ErrorKind, Module, ModuleOptions};
use uva_rows::cuda::Kernel;

use crate::exit;
use crate::flags::Seconds;
use crate::flags::bench::PcieBenchFlags;
use crate::runs::pipeline::check_outputs;
use crate::ui::out;

/// Default table sizes in bytes, the base point's first.
const TABLES: &[u64] = &[256 << 20, 4 << 30, 1 << 30, 16 << 30];
const SAMPLE_BYTES: u64 = 128 << 20;
/// Table sizes under the simulator, which gathers a million times slower and whose figures mean nothing.
const SIMULATED_TABLES: &[u64] = &[2 << 20, 1 << 20, 4 << 20];
const SIMULATED_SAMPLE_BYTES: u64 = 64 << 10;

/// Measures and prints the result.
pub fn run(flags: &PcieBenchFlags) -> anyhow::Result<()> {
    check_outputs(&[("--svg", flags.svg.as_deref())], &[])?;
    let mut report = measure(flags)?;
    report.skipped.iter_mut().for_each(|skipped| skipped.why = out::spelled(&skipped.why));
    if let Some(path) = &flags.svg {
        let svg = plot::svg(&report)?;
        uva_mem::files::write_output(path, svg.as_bytes())
            .map_err(|error| exit::usage(format!("--svg {}: {error}", path.display())))?;
    }
    if flags.json { out::json(&report) } else { out::text(&text::of(&report)) }
}

fn measure(flags: &PcieBenchFlags) -> anyhow::Result<PcieReport> {
    let driver = Driver::load().map_err(|reason| {
        exit::lacking(format!(
            "bench pcie needs an NVIDIA GPU: {reason}; install NVIDIA's driver, 580 or newer, and look with \
             `uvatrain doctor`; without a GPU there is `uvatrain bench requests`"
        ))
    })?;
    let options = options(flags, driver.device_memory_is_host_memory())?;
    let context = Context::primary(flags.device as usize).map_err(cuda)?;
    let of_module = ModuleOptions { nvrtc: flags.nvrtc.clone(), cache: CacheKind::default() };
    let module = Module::gather(&context, &of_module).map_err(cuda)?;
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
    if let Ok(style) = ProgressStyle::with_template("{bar:20} {pos}/{len}  {wide_msg}") {
        bar.set_style(style);
    }
    let mut show = |progress: BenchProgress<'_>| {
        bar.set_length(progress.all as u64);
        bar.set_position(progress.done as u64);
        bar.set_message(progress.now.to_owned());
    };
    let model = Model::default();
    let report = pcie::measure(&context, &module, &options, &|kernel, row| model.of(kernel, row), &mut show);
    bar.finish_and_clear();
    report.map_err(|error| problem(error.kind(), error))
}

fn options(flags: &PcieBenchFlags, simulator: bool) -> anyhow::Result<PcieOptions> {
    let (tables, sample) =
        if simulator { (SIMULATED_TABLES, SIMULATED_SAMPLE_BYTES) } else { (TABLES, SAMPLE_BYTES) };
    let sample = flags.sample_bytes.map_or(sample, |size| size.bytes());
    let sample_bytes = usize::try_from(sample).ok().filter(|bytes| *bytes > 0).ok_or_else(|| {
        exit::usage(format!("--sample-bytes {sample}: give at least a byte, and what fits this machine"))
    })?;
    let sweep = Sweep {
        kernels: flags.kernels.clone(),
        row_bytes: match &flags.row_bytes[..] {
            [] => ROW_BYTES.to_vec(),
            some => some.iter().map(|row_bytes| *row_bytes as usize).collect(),
        },
        multiprocessors: flags.multiprocessors.clone(),
        pages: flags.pages.clone(),
        table_bytes: match &flags.table_size[..] {
            [] => tables.to_vec(),
            some => some.iter().map(|size| size.bytes()).collect(),
        },
        ids: flags.ids.clone(),
        full: flags.full,
    };
    Ok(PcieOptions {
        sweep,
        sample_bytes,
        samples: flags.samples as usize,
        threads: flags.threads.map_or_else(
            || std::thread::available_parallelism().map_or(1, usize::from),
            |threads| threads as usize,
        ),
        ways: !flags.zero_copy_only,
        limit: flags.seconds.map(Seconds::duration),
        preflight: flags.preflight,
    })
}

fn cuda(error: CudaError) -> anyhow::Error {
    problem(error.kind(), PcieError::from(error))
}

fn problem(kind: ErrorKind, error: PcieError) -> anyhow::Error {
    match kind {
        ErrorKind::Missing => exit::lacking(error.to_string()).into(),
        ErrorKind::Usage => exit::usage(error.to_string()).into(),
        ErrorKind::Failed => error.into(),
    }
}

/// The request model's results, each computed once.
#[derive(Default)]
struct Model {
    known: RefCell<HashMap<(Kernel, usize), Option<f64>>>,
}

impl Model {
    fn of(&self, kernel: Kernel, row_bytes: usize) -> Option<f64> {
        *self.known.borrow_mut().entry((kernel, row_bytes)).or_insert_with(|| ceiling(kernel, row_bytes))
    }
}

/// The share of the rate of whole-line reads that rows of the given bytes can reach, on a table that begins on a line.
#[cfg(feature = "request-model")]
fn ceiling(kernel: Kernel, row_bytes: usize) -> Option<f64> {
    use uva_kernel_sim::requests::{LINE_BYTES, Requests, of_rows};
    use uva_kernels::gather::IdWidth;

    let row_bytes = row_bytes as u64;
    // The pattern of rows within lines repeats with a period that is a power of two.
    let rows = LINE_BYTES >> row_bytes.trailing_zeros().min(LINE_BYTES.trailing_zeros());
    let costs = of_rows(kernel, IdWidth::I64, row_bytes, 0, rows).ok()?;
    let all: Requests = costs.into_iter().sum();
    Some(all.share_of_line_peak(rows * row_bytes))
}

#[cfg(not(feature = "request-model"))]
fn ceiling(_: Kernel, _: usize) -> Option<f64> {
    None
}

#[cfg(all(test, feature = "request-model"))]
mod tests {
    use super::*;

    #[test]
    fn the_model_leaves_what_the_published_shares_say() {
        for (row_bytes, share) in
            [(128, 1.0), (188, 0.82), (400, 0.93), (480, 0.97), (516, 0.93), (1028, 0.96)]
        {
            let ceiling = ceiling(Kernel::Wide, row_bytes).unwrap();
            assert!((ceiling - share).abs() < 0.006, "{row_bytes}: {ceiling}");
        }
    }
}

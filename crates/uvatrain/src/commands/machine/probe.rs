//! `uvatrain probe`: CUDA's report on this machine, as JSON. `uvatrain-consumer probe` adds libtorch's. Each runs in
//! its own process: the launcher must load neither, and only a process started under MPS sees MPS. With `--cufile` it
//! reports whether cuFile reads the given files.

use uva_runtime::backend::{CufileReport, Probe};

use crate::flags::machine::ProbeArgs;
use crate::models::Models;
use crate::ui::out;

/// Probes and prints the result. A program without models omits libtorch.
pub fn run(args: &ProbeArgs, models: Option<Models>) -> anyhow::Result<()> {
    if let Some(ordinal) = args.cufile {
        return out::json(&CufileReport::here(ordinal, &args.files));
    }
    let torch_on_gpu = models.map_or((|| Ok(())) as fn() -> _, |models| models.torch_on_gpu);
    out::json(&if args.driver_only { Probe::of_driver() } else { Probe::here(torch_on_gpu) })
}

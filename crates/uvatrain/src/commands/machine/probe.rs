//! `uvatrain probe`: what CUDA says of this machine, as JSON, and `uvatrain-consumer probe`: what libtorch says too. Each
//! is a process of its own: the launcher must touch neither, and only a process started under MPS sees it. `--cufile` says
//! whether cuFile reads some files.

use uva_runtime::backend::{CufileReport, Probe};

use crate::flags::ProbeArgs;
use crate::models::Models;
use crate::ui::out;

/// Probes and prints. A program without models omits libtorch.
pub fn run(args: &ProbeArgs, models: Option<Models>) -> anyhow::Result<()> {
    if let Some(ordinal) = args.cufile {
        return out::json(&CufileReport::here(ordinal, &args.files));
    }
    let torch_on_gpu = models.map_or((|| Ok(())) as fn() -> _, |models| models.torch_on_gpu);
    out::json(&if args.driver_only { Probe::of_driver() } else { Probe::here(torch_on_gpu) })
}

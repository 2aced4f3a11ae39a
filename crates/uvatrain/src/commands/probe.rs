//! `uvatrain probe`: what CUDA and libtorch say of this machine, as JSON. A process of its own, since the launcher must
//! not touch either, and since MPS is seen only by a process that was started under it.

use clap::Args;
use uva_runtime::backend::Probe;

use crate::ui::out;

/// What to look for.
#[derive(Args, Clone, Debug)]
pub struct ProbeArgs {
    /// The driver and its devices alone.
    #[arg(long)]
    pub driver_only: bool,
}

/// Looks and prints.
pub fn run(args: &ProbeArgs) -> anyhow::Result<()> {
    out::json(&if args.driver_only { Probe::of_driver() } else { Probe::here(TORCH) })
}

#[cfg(feature = "train")]
const TORCH: fn() -> Result<(), String> = uva_runtime::training::torch_on_gpu;

#[cfg(not(feature = "train"))]
const TORCH: fn() -> Result<(), String> = || Err(super::train::NO_MODELS.to_owned());

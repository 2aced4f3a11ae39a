//! `uvatrain probe`: what CUDA and libtorch say of this machine, as JSON. A process of its own, since the launcher must
//! not touch either, and since MPS is seen only by a process that was started under it.

use uva_runtime::backend::Probe;

use crate::ui::out;

/// Looks and prints.
pub fn run() -> anyhow::Result<()> {
    out::json(&Probe::here(TORCH))
}

#[cfg(feature = "train")]
const TORCH: fn() -> Result<(), String> = uva_runtime::training::torch_on_gpu;

#[cfg(not(feature = "train"))]
const TORCH: fn() -> Result<(), String> = || Err(super::train::NO_MODELS.to_owned());

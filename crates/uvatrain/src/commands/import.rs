//! `uvatrain import`: a graph in another format becomes a dataset.

use crate::exit;
use crate::flags::ImportFlags;

/// Reads the graph and writes the dataset.
pub fn run(_: &ImportFlags) -> anyhow::Result<()> {
    Err(exit::failed("`import` is not in this build yet").into())
}

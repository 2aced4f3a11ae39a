//! The options of `uvatrain partition`.

use std::path::PathBuf;

use clap::Args;

use super::partition_parts::PartsFlags;

/// The options of `uvatrain partition`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Example:
  uvatrain partition data/demo demo-parts --map map.npy --hops 2

DATA is only read. OUT appears only when it is complete. It is refused where the disk has
no room for it.")]
pub struct PartitionFlags {
    /// The dataset
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// The directory to write; it must not exist
    #[arg(value_name = "OUT")]
    pub out: PathBuf,

    /// The part of each node: a directory with partition.npy and partition.json, or an array of uint16 by original id
    #[arg(long, value_name = "PATH")]
    pub map: PathBuf,

    #[command(flatten)]
    pub parts: PartsFlags,

    /// Print what was written as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

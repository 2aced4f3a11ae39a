//! The commands that take datasets in and look at them: `import`, `info`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The options of `uvatrain import`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain import --from planetoid planetoid/data data/cora --name cora
  uvatrain import --from npy my_arrays data/mine --symmetrise --dedup

SRC is only read. OUT appears only when it is complete.")]
pub struct ImportFlags {
    /// What SRC is
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub from: SourceFormat,

    /// The graph to read
    #[arg(value_name = "SRC")]
    pub source: PathBuf,

    /// The directory to write; it must not exist
    #[arg(value_name = "OUT")]
    pub out: PathBuf,

    /// The dataset's name; for planetoid also which graph of SRC, the NAME in ind.NAME.graph
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Add the other direction of every edge [default: true for planetoid, false for npy]
    #[arg(
        long,
        visible_alias = "symmetrize",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub symmetrise: Option<bool>,

    /// Keep one of several equal edges [default: true for planetoid, false for npy]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub dedup: Option<bool>,

    /// Edges from a node to itself [default: remove for planetoid, keep for npy]
    #[arg(long, value_enum)]
    pub self_loops: Option<SelfLoops>,
}

/// A format that `import` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SourceFormat {
    /// A directory of .npy files
    Npy,
    /// The ind.NAME.* files of cora, citeseer and pubmed; their pickles are read, never executed
    Planetoid,
}

/// What `import` does about edges from a node to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SelfLoops {
    /// Left as they are
    Keep,
    /// Exactly one for every node
    Add,
    /// None
    Remove,
}

/// The options of `uvatrain info`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  uvatrain info data/demo --verify")]
pub struct InfoFlags {
    /// The dataset
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// Check everything anew: every edge, whatever an earlier run has found, and every feature value for NaN
    #[arg(long)]
    pub verify: bool,

    /// Print one JSON object instead of the table
    #[arg(long)]
    pub json: bool,
}

//! The commands that make datasets and look at them: `generate`, `import`, `info`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The options of `uvatrain generate`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Example, 200,000 nodes and about 4 million edges:
  uvatrain generate data/demo --nodes 200000 --avg-degree 20 --feat-dim 100 --classes 12

The same options give the same bytes, whatever --threads is. OUT appears only when it is complete.")]
pub struct GenerateFlags {
    /// The directory to write; it must not exist
    #[arg(value_name = "OUT")]
    pub out: PathBuf,

    /// How many nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub nodes: u64,

    /// In-neighbours of a node on average [default: 20 for powerlaw, 14 for citation, 35 for web]
    #[arg(long, value_name = "D", value_parser = degree)]
    pub avg_degree: Option<f64>,

    /// Values in a feature row
    #[arg(long, value_name = "F", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub feat_dim: u64,

    /// Classes; features and edges both carry them, with noise
    #[arg(long, value_name = "C", default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..))]
    pub classes: u64,

    /// The graph's shape
    #[arg(long, value_enum, default_value_t = GraphKind::Powerlaw)]
    pub kind: GraphKind,

    /// Share of the nodes that train [default: 0.4 for powerlaw, 0.0109 for citation, 0.013 for web]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub train_share: Option<f64>,

    /// Random seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,

    /// How feature values are stored
    #[arg(long, value_enum, default_value_t = FeatureType::F32)]
    pub feat_dtype: FeatureType,

    /// Threads that write [default: all CPU cores]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
}

/// The shape of a generated graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GraphKind {
    /// Few nodes with very many neighbours, many with few, as in social and citation graphs
    Powerlaw,
    /// Nodes in order of time, each citing older ones of its field; few nodes train, recent ones of few fields, as in
    /// papers100M
    Citation,
    /// Pages of hosts, most links local or to a host's hubs; few nodes train, as with uk-2006
    Web,
}

/// How generated feature values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FeatureType {
    /// 4 bytes a value
    F32,
    /// 2 bytes a value
    F16,
}

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

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err(format!("'{text}' is no number from 0 to 1")),
    }
}

fn degree(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(format!("'{text}' is no number above 0")),
    }
}

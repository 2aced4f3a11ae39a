//! The options of `uvatrain propagate`.

use std::path::PathBuf;

use clap::Args;
use uva_model::FeatureNorm;
use uva_propagate::{HopType, KeptNodes, Layout, MOST_HOPS, Operator, RowOrder, parse_operators};
use uva_runtime::spec::ByteSize;

use crate::flags::declared::one_of;
use crate::flags::within::within;

/// The options of `uvatrain propagate`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain propagate data/demo data/demo-hops --hops 3
  uvatrain propagate data/demo data/demo-hops --operator sym,ppr:0.1 --type f16 --memory 4GiB

To resume after an interruption:
  uvatrain propagate data/demo data/demo-hops --hops 3 --resume

DATA is only read. OUT appears only when it is complete; until then, what is finished is in OUT.propagating. Memory,
threads and interruptions do not change the result. The required memory and disk space are printed first.")]
pub struct PropagateFlags {
    /// The dataset
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// The directory to write; it must not exist
    #[arg(value_name = "OUT")]
    pub out: PathBuf,

    /// Operators to multiply features by, separated by commas: sym, sym-noloop, row, row-loop, col, ppr:ALPHA[,T],
    /// heat:TIME[,T]
    #[arg(long, value_name = "LIST", value_parser = operators, default_value = "sym")]
    pub operator: Operators,

    /// Number of times that each operator is applied
    #[arg(long, value_name = "R", value_parser = within::<u32>(1..=u64::from(MOST_HOPS)), default_value_t = 3)]
    pub hops: u32,

    /// Nodes whose rows are stored
    #[arg(long, value_parser = one_of::<KeptNodes>(), default_value_t = KeptNodes::Splits)]
    pub nodes: KeptNodes,

    /// Element type of the stored rows; sums are computed in float32
    #[arg(long = "type", value_name = "TYPE", value_parser = one_of::<HopType>(), default_value_t = HopType::F32)]
    pub element: HopType,

    /// Arrangement of the rows
    #[arg(long, value_parser = one_of::<Layout>(), default_value_t = Layout::Hops)]
    pub layout: Layout,

    /// Order of the training rows
    #[arg(long, value_parser = one_of::<RowOrder>(), default_value_t = RowOrder::Shuffled)]
    pub row_order: RowOrder,

    /// Random seed of the order
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,

    /// Weight the edges by weight.npy instead of by 1
    #[arg(long)]
    pub weighted: bool,

    /// Normalisation of feature rows before the first hop
    #[arg(long, value_parser = one_of::<FeatureNorm>(), default_value_t = FeatureNorm::None)]
    pub feature_norm: FeatureNorm,

    /// Memory for tables and buffers. With less memory than the tables require, the graph is read in several passes
    /// [default: half of the available memory]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<ByteSize>,

    /// Threads for the sums [default: all cores]
    #[arg(long, value_name = "THREADS", value_parser = within::<usize>(1..=4096))]
    pub threads: Option<usize>,

    /// Resume an interrupted run from OUT.propagating
    #[arg(long)]
    pub resume: bool,

    /// Print the result as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// Several operators.
#[derive(Clone, Debug)]
pub struct Operators(pub Vec<Operator>);

fn operators(text: &str) -> Result<Operators, String> {
    parse_operators(text).map(Operators)
}

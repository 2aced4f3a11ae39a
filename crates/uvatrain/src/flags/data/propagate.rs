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

After an interruption, this goes on:
  uvatrain propagate data/demo data/demo-hops --hops 3 --resume

DATA is only read. OUT appears only when it is complete; until then, what is finished is in OUT.propagating. Memory,
threads and interruptions change no byte of the result. What it will take is said first.")]
pub struct PropagateFlags {
    /// The dataset
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// The directory to write; it must not exist
    #[arg(value_name = "OUT")]
    pub out: PathBuf,

    /// What features are multiplied by, several separated by commas: sym, sym-noloop, row, row-loop, col, ppr:ALPHA[,T],
    /// heat:TIME[,T]
    #[arg(long, value_name = "LIST", value_parser = operators, default_value = "sym")]
    pub operator: Operators,

    /// How often each is applied
    #[arg(long, value_name = "R", value_parser = within::<u32>(1..=u64::from(MOST_HOPS)), default_value_t = 3)]
    pub hops: u32,

    /// The nodes whose rows are kept
    #[arg(long, value_parser = one_of::<KeptNodes>(), default_value_t = KeptNodes::Splits)]
    pub nodes: KeptNodes,

    /// The element type of the stored rows; sums are float32
    #[arg(long = "type", value_name = "TYPE", value_parser = one_of::<HopType>(), default_value_t = HopType::F32)]
    pub element: HopType,

    /// Which rows lie side by side
    #[arg(long, value_parser = one_of::<Layout>(), default_value_t = Layout::Hops)]
    pub layout: Layout,

    /// The order of the training rows
    #[arg(long, value_parser = one_of::<RowOrder>(), default_value_t = RowOrder::Shuffled)]
    pub row_order: RowOrder,

    /// What the order is drawn by
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,

    /// Let entries of the lists count by weight.npy, instead of as 1 each
    #[arg(long)]
    pub weighted: bool,

    /// How feature rows are normalised before the first hop
    #[arg(long, value_parser = one_of::<FeatureNorm>(), default_value_t = FeatureNorm::None)]
    pub feature_norm: FeatureNorm,

    /// Memory for tables and buffers. What does not fit takes several passes over the graph [default: half of what can be
    /// had]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<ByteSize>,

    /// Threads that sum [default: all cores]
    #[arg(long, value_name = "THREADS", value_parser = within::<usize>(1..=4096))]
    pub threads: Option<usize>,

    /// Go on with what an interrupted run has left in OUT.propagating
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

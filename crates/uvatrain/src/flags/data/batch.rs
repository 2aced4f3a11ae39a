//! The options of `uvatrain batch`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use uva_graph::Split;
use uva_runtime::LoaderOptions;
use uva_runtime::spec::{Field, OptionPurpose};
use uva_sample::MAX_EPOCH;

use crate::flags::declared::{Declared, OptionFilter};
use crate::flags::within::within;

/// The options of `uvatrain batch`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain batch data/demo --fanouts 15,10,5 --epoch 2 --number 7
  uvatrain batch data/demo --split valid --batch-size 64 --json --ids")]
pub struct BatchFlags {
    /// The dataset
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// Split of the seeds
    #[arg(long, value_name = "SPLIT", value_parser = split(), default_value = "train")]
    pub split: Split,

    /// Epoch of the batch, counted from 1 as in messages
    #[arg(
        long,
        value_name = "E",
        default_value_t = 1,
        value_parser = within::<u32>(1..=u64::from(MAX_EPOCH) + 1)
    )]
    pub epoch: u32,

    /// Number of the batch in its epoch, counted from 1 as in messages
    #[arg(long, value_name = "B", default_value_t = 1, value_parser = within::<u32>(1..))]
    pub number: u32,

    /// Training nodes instead of those of the split, as of `uvatrain run`
    #[arg(long, value_name = "[TYPE=]FILE", help_heading = "Batches", conflicts_with = "split")]
    pub input_nodes: Option<PathBuf>,

    /// The options that batches depend on.
    #[command(flatten)]
    pub sampling: Declared<LoaderOptions, OfContent>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// Add the arrays to the JSON object: seeds, input nodes, and each layer's indptr and indices
    #[arg(long, requires = "json")]
    pub ids: bool,
}

fn split() -> impl TypedValueParser<Value = Split> {
    PossibleValuesParser::new(Split::ALL.map(Split::name))
        .try_map(|name| Split::ALL.into_iter().find(|split| split.name() == name).ok_or("an unknown split"))
}

/// The options of the loader that determine the nodes and edges of batches. Padding adds neither.
#[derive(Clone, Copy, Debug)]
pub struct OfContent;

impl OptionFilter for OfContent {
    fn shows(field: &Field) -> bool {
        field.purposes.contains(&OptionPurpose::Identity) && field.name != "pad"
    }
}

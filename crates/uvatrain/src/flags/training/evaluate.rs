//! `uvatrain evaluate`.

use clap::Args;

use crate::flags::training::ModelFlags;

/// The options of `uvatrain evaluate`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain evaluate data/demo --checkpoint run1 --per-class
  uvatrain evaluate data/demo --checkpoint run1 --eval sampled --json")]
pub struct EvaluateFlags {
    /// The model.
    #[command(flatten)]
    pub model: ModelFlags,

    /// Also print precision, recall and F1 of each class
    #[arg(long)]
    pub per_class: bool,
}

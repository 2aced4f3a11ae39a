//! The options of `uvatrain report`.

use std::path::PathBuf;

use clap::Args;

/// The options of `uvatrain report`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain train data/demo --epochs 5 --metrics run.jsonl
  uvatrain report run.jsonl --out report.html

  Two runs side by side:
  uvatrain report first.jsonl second.jsonl --out compared.html")]
pub struct ReportFlags {
    /// Metrics files of `train` or `run`, one per run; several runs are compared
    #[arg(value_name = "RUN.jsonl", required = true, num_args = 1..)]
    pub runs: Vec<PathBuf>,

    /// Write the report to this HTML file; an existing file is replaced
    #[arg(long, value_name = "FILE", required = true)]
    pub out: PathBuf,
}

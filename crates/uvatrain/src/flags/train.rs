//! `uvatrain train`.

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use uva_model::{ModelKind, ModelRow};
use uva_runtime::RuntimeError;
use uva_sample::SamplerKind;

use super::within::within;
use super::{BackendFlags, CacheFlags, LoaderFlags};
use crate::exit;
use crate::ui::listen;

const MODEL: &str = "Model";
const OPTIMISATION: &str = "Optimisation";
const EVALUATION: &str = "Evaluation";
const CHECKPOINTS: &str = "Checkpoints";
const MACHINE: &str = "Machine";
const OUTPUT: &str = "Output";

/// The options of `uvatrain train`.
#[derive(Args, Clone, Debug, serde::Serialize)]
#[command(after_help = "\
Example:
  uvatrain train data/demo --model sage --fanouts 15,10,5 --batch-size 1024 --epochs 3

  Stopped with Ctrl-C, then taken up at the next batch; and ten epochs more, once they are done:
  uvatrain train data/demo --checkpoint run1 --epochs 30
  uvatrain train data/demo --checkpoint run1 --epochs 30 --resume
  uvatrain train data/demo --checkpoint run1 --epochs 40 --resume")]
pub struct TrainFlags {
    /// The dataset: a directory of .npy files, as `generate` and `import` write it. Features may be float32, float16,
    /// bfloat16, uint8 or int8; the model computes in float32
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// The model (docs/models.md)
    #[arg(long, value_enum, default_value_t = Model(ModelKind::Sage), help_heading = MODEL)]
    pub model: Model,

    /// Width of the hidden layers
    #[arg(
        long,
        value_name = "UNITS",
        default_value_t = 128,
        value_parser = within::<u32>(1..=65536),
        help_heading = MODEL
    )]
    pub hidden: u32,

    /// GAT: attention heads of a hidden layer, which divide --hidden between them [default: 8]
    #[arg(long, value_name = "HEADS", value_parser = within::<u32>(1..), help_heading = MODEL)]
    pub heads: Option<u32>,

    /// GAT: attention heads of the last layer, which are averaged [default: as many as the others have]
    #[arg(
        long,
        value_name = "HEADS",
        value_parser = within::<u32>(1..=1024),
        conflicts_with = "residual",
        help_heading = MODEL
    )]
    pub output_heads: Option<u32>,

    /// GAT: share of attention weights dropped while training, 0 to below 1 [default: 0]
    #[arg(long, value_name = "P", value_parser = probability, help_heading = MODEL)]
    pub attention_dropout: Option<f64>,

    /// Let each layer add to its rows instead of replacing them, between a linear map to --hidden columns and one to
    /// the classes: for deeper networks
    #[arg(long, help_heading = MODEL)]
    pub residual: bool,

    /// What is done to rows between layers
    #[arg(long, value_enum, default_value_t = Norm::None, help_heading = MODEL)]
    pub norm: Norm,

    /// Share of hidden values dropped while training, 0 to below 1
    #[arg(long, value_name = "P", default_value_t = 0.5, value_parser = probability, help_heading = MODEL)]
    pub dropout: f64,

    /// Share of feature values dropped while training, 0 to below 1
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability, help_heading = MODEL)]
    pub input_dropout: f64,

    /// How feature rows are scaled: not at all, or each to a sum of 1
    #[arg(long, value_enum, default_value_t = FeatureNorm::None, help_heading = MODEL)]
    pub feature_norm: FeatureNorm,

    /// Passes over the training nodes, those of the checkpoint included with --resume
    #[arg(
        long,
        value_name = "EPOCHS",
        default_value_t = 10,
        value_parser = within::<u32>(1..),
        help_heading = OPTIMISATION
    )]
    pub epochs: u32,

    /// Learning rate of Adam
    #[arg(long, value_name = "RATE", default_value_t = 0.003, value_parser = positive, help_heading = OPTIMISATION)]
    pub lr: f64,

    /// Weight decay of Adam
    #[arg(
        long,
        value_name = "DECAY",
        default_value_t = 0.0,
        value_parser = not_negative,
        help_heading = OPTIMISATION
    )]
    pub weight_decay: f64,

    /// Stop after this many epochs without a better validation, by --metric [default: never]
    #[arg(
        long,
        value_name = "EPOCHS",
        value_parser = within::<u32>(1..),
        help_heading = OPTIMISATION
    )]
    pub patience: Option<u32>,

    /// How batches are made and handed on.
    #[command(flatten)]
    pub loader: LoaderFlags,

    /// What to cache.
    #[command(flatten)]
    pub cache: CacheFlags,

    /// Evaluate on sampled neighbours (fast) or on all of them, layer by layer (exact)
    #[arg(long, value_enum, default_value_t = Evaluation::Sampled, help_heading = EVALUATION)]
    pub eval: Evaluation,

    /// What the best model is best by: the share told right, or the area under the ROC curve (for two classes
    /// or several labels a node). auto: accuracy for one class a node, roc-auc for several labels
    #[arg(long, value_enum, default_value_t = Metric::Auto, help_heading = EVALUATION)]
    pub metric: Metric,

    /// Keep checkpoints in this directory; Ctrl-C then finishes the batch and writes one
    #[arg(long, value_name = "DIR", help_heading = CHECKPOINTS)]
    pub checkpoint: Option<PathBuf>,

    /// Write a checkpoint every so many batches [default: once per epoch]
    #[arg(
        long,
        value_name = "BATCHES",
        value_parser = within::<u32>(1..),
        requires = "checkpoint",
        help_heading = CHECKPOINTS
    )]
    pub checkpoint_every: Option<u32>,

    /// Go on from the checkpoint in --checkpoint, at the batch after the last one trained. One that has all --epochs
    /// goes on with more of them
    #[arg(long, requires = "checkpoint", help_heading = CHECKPOINTS)]
    pub resume: bool,

    /// Let the first checkpoint replace the one that is in --checkpoint; without this such a directory is refused
    #[arg(long, requires = "checkpoint", conflicts_with = "resume", help_heading = CHECKPOINTS)]
    pub overwrite_checkpoint: bool,

    /// Where features are gathered and the model trains.
    #[command(flatten)]
    pub backend: BackendFlags,

    /// Threads of the model's arithmetic; losses are equal bit for bit only for equal numbers [default: half the CPU
    /// cores, at least 1; with --resume as many as the checkpoint was trained with]
    #[arg(
        long,
        value_name = "T",
        value_parser = within::<u32>(1..=1024),
        help_heading = MACHINE
    )]
    pub train_threads: Option<u32>,

    /// The folder of a libtorch that is in none of the usual places: the one with lib/libtorch_cpu.so, or lib itself
    /// [default: UVATRAIN_LIBTORCH, beside the program, the cache folder, a PyTorch in the active environment]
    #[arg(long, value_name = "DIR", help_heading = MACHINE)]
    #[serde(skip)]
    pub libtorch: Option<PathBuf>,

    /// Write one JSON object per batch and epoch to this file, a line each
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub metrics: Option<PathBuf>,

    /// Tell the figures of the run over HTTP, for Prometheus: at /metrics of this port, to this machine only unless a
    /// HOST is given
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen::address, help_heading = OUTPUT)]
    pub metrics_listen: Option<std::net::SocketAddr>,

    /// Write a timeline of the batches to this file, for ui.perfetto.dev and chrome://tracing
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub trace: Option<PathBuf>,

    /// Print the stages, the rings and the memory that the run would take, and end without starting it
    #[arg(long, help_heading = OUTPUT)]
    #[serde(skip)]
    pub dry_run: bool,

    /// Print the result as one JSON object on stdout
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

impl TrainFlags {
    /// What clap cannot see: options that contradict each other.
    ///
    /// # Errors
    /// Bad usage; the message names the options and what would do instead.
    pub fn check(&self) -> anyhow::Result<()> {
        self.loader.check()?;
        let model = self.model.kind().row();
        for (option, given) in [
            ("--heads", self.heads.is_some()),
            ("--output-heads", self.output_heads.is_some()),
            ("--attention-dropout", self.attention_dropout.is_some()),
        ] {
            if given && !model.has_attention() {
                let models = ModelKind::names_of(ModelRow::has_attention);
                return Err(exit::usage(format!("{option}: only --model {models} has attention")).into());
            }
        }
        let heads = self.heads();
        if model.has_attention() && !self.hidden.is_multiple_of(heads) {
            return Err(exit::usage(format!(
                "--heads: {heads} heads do not divide a --hidden of {} between them",
                self.hidden
            ))
            .into());
        }
        let kind = self.loader.options().sampler_kind;
        if !model.takes_edge_weights() && kind.weighs_edges() {
            return Err(exit::usage(format!(
                "--sampler-kind {kind}: its edges have weights, and --model {} takes none: use --model {}, or \
                 --sampler-kind {}",
                model.name,
                ModelKind::names_of(ModelRow::takes_edge_weights),
                SamplerKind::names_of(|kind| !kind.weighs_edges())
            ))
            .into());
        }
        if self.eval == Evaluation::Full && !kind.picks_in_lists() {
            return Err(exit::usage(format!(
                "--eval full: it goes over all neighbours, and with --sampler-kind {kind} a node's neighbours are the nodes \
                 found around it: use --eval sampled"
            ))
            .into());
        }
        Ok(self.backend.options().check().map_err(RuntimeError::from)?)
    }

    /// Attention heads.
    pub fn heads(&self) -> u32 {
        self.heads.unwrap_or(8)
    }
}

/// A built-in model: the names and help lines are those of the models' own table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Model(ModelKind);

impl Model {
    /// The same, as the trainer takes it.
    pub fn kind(self) -> ModelKind {
        self.0
    }
}

impl ValueEnum for Model {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Model>> = LazyLock::new(|| ModelKind::all().map(Model).collect());
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let row = self.0.row();
        Some(PossibleValue::new(row.name).help(row.help))
    }
}

/// What is done to rows between layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// Nothing
    None,
    /// Layer normalisation: each row brought to mean 0 and variance 1, then scaled and shifted
    Layer,
}

/// How feature rows are scaled before the model sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureNorm {
    /// As they are
    None,
    /// Each row divided by its sum; usual for word counts
    Row,
}

/// How accuracy is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Evaluation {
    /// On sampled neighbours, through the same pipeline as training
    Sampled,
    /// On all neighbours, layer by layer over the whole graph
    Full,
}

/// What the best model is best by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// What is usual for the dataset's labels
    Auto,
    /// Share of the nodes, or of their labels, told right
    Accuracy,
    /// Area under the receiver operating characteristic
    RocAuc,
}

fn number(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(format!("'{text}' is no finite number")),
    }
}

fn probability(text: &str) -> Result<f64, String> {
    let value = number(text)?;
    if (0.0..1.0).contains(&value) { Ok(value) } else { Err(format!("{value} is not from 0 to below 1")) }
}

fn positive(text: &str) -> Result<f64, String> {
    let value = number(text)?;
    if value > 0.0 { Ok(value) } else { Err(format!("{value} is not above 0")) }
}

fn not_negative(text: &str) -> Result<f64, String> {
    let value = number(text)?;
    if value >= 0.0 { Ok(value) } else { Err(format!("{value} is below 0")) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        train: TrainFlags,
    }

    fn parsed(args: &[&str]) -> Result<TrainFlags, clap::Error> {
        Line::try_parse_from([&["x", "data"], args].concat()).map(|line| line.train)
    }

    #[test]
    fn the_defaults_are_consistent() {
        let flags = parsed(&[]).unwrap();
        flags.check().unwrap();
        assert!(flags.patience.is_none(), "early stopping is off unless asked for");
    }

    #[test]
    fn resuming_and_intervals_need_a_checkpoint() {
        assert!(parsed(&["--resume"]).unwrap_err().to_string().contains("--checkpoint"));
        assert!(parsed(&["--checkpoint-every", "10"]).unwrap_err().to_string().contains("--checkpoint"));
        assert!(parsed(&["--resume", "--checkpoint", "run"]).is_ok());
        assert!(parsed(&["--overwrite-checkpoint"]).unwrap_err().to_string().contains("--checkpoint"));
        assert!(parsed(&["--overwrite-checkpoint", "--checkpoint", "run"]).is_ok());
        assert!(parsed(&["--overwrite-checkpoint", "--resume", "--checkpoint", "run"]).is_err());
    }

    #[test]
    fn attention_is_for_gat_and_its_heads_divide_the_width() {
        parsed(&["--model", "gat", "--heads", "4", "--attention-dropout", "0.6"]).unwrap().check().unwrap();
        let refused = |args: &[&str]| parsed(args).unwrap().check().unwrap_err().to_string();
        assert!(refused(&["--heads", "4"]).contains("--heads"));
        assert!(refused(&["--output-heads", "1"]).contains("--output-heads"));
        assert!(parsed(&["--model", "gat", "--output-heads", "1", "--residual"]).is_err());
        assert!(refused(&["--model", "gcn", "--attention-dropout", "0"]).contains("--attention-dropout"));
        assert!(refused(&["--model", "gat", "--hidden", "100"]).contains("8 heads"));
    }

    #[test]
    fn rates_out_of_range_are_refused() {
        for (option, value) in [
            ("--dropout", "1"),
            ("--dropout", "-0.1"),
            ("--attention-dropout", "1"),
            ("--lr", "0"),
            ("--lr", "nan"),
            ("--weight-decay", "-1"),
        ] {
            assert!(parsed(&[&format!("{option}={value}")]).is_err(), "{option} {value} was taken");
        }
    }
}

//! `uvatrain train`.

use std::path::PathBuf;

use clap::Args;
use uva_launch::training::{
    OF_HOP_SETS, TrainingOptions, of_no_use_with_a_hop_set, of_no_use_without_a_hop_set,
};
use uva_runtime::RuntimeError;
use uva_runtime::options::hop_options::{HopOptions, HopRowsPlace, Shuffle};
use uva_runtime::spec::Field;

use crate::flags::declared::Declared;
use crate::flags::{BackendFlags, CacheFlags, LoaderFlags};
use crate::ui::listen;

const MACHINE: &str = "Machine";
const OUTPUT: &str = "Output";

/// The options of `uvatrain train`.
#[derive(Args, Clone, Debug, serde::Serialize)]
#[command(after_long_help = "\
Example:
  uvatrain train data/demo --model sage --fanouts 15,10,5 --batch-size 1024 --epochs 3

  Stopped with Ctrl-C, then resumed at the next batch; after completion, ten more epochs:
  uvatrain train data/demo --checkpoint run1 --epochs 30
  uvatrain train data/demo --checkpoint run1 --epochs 30 --resume
  uvatrain train data/demo --checkpoint run1 --epochs 40 --resume")]
pub struct TrainFlags {
    /// Dataset directory, or a hop set
    ///
    /// A dataset is a directory of .npy files, as `generate` and `import` write it. Features are float32, float16, bfloat16,
    /// uint8 or int8; the model computes in float32. `propagate` writes hop sets.
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// Model, optimisation, evaluation and checkpoints.
    #[command(flatten)]
    #[serde(flatten)]
    pub training: Declared<TrainingOptions>,

    /// Training nodes instead of those of the split: a .npy file of node ids (int64, int32) or of a bool for each node, or
    /// text with one id per line; in a typed graph also TYPE=FILE
    #[arg(long, value_name = "[TYPE=]FILE", help_heading = "Batches", hide_short_help = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_nodes: Option<PathBuf>,

    /// Hop set of DATA with the first layer's aggregation over whole neighbour lists, for sage and gcn: the model has one
    /// layer more than there are fanouts, and batches have a hop fewer (docs/guide/propagation.md)
    #[arg(long, value_name = "HOPSET", help_heading = "Model", hide_short_help = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_layer: Option<PathBuf>,

    /// In which order epochs visit the rows of a hop set.
    #[command(flatten)]
    #[serde(flatten)]
    pub hops: Declared<HopOptions>,

    /// How batches are made and handed on.
    #[command(flatten)]
    pub loader: LoaderFlags,

    /// What to cache.
    #[command(flatten)]
    pub cache: CacheFlags,

    /// Where features are gathered and the model trains.
    #[command(flatten)]
    pub backend: BackendFlags,

    /// Folder of libtorch: the one with lib/libtorch_cpu.so, or lib itself [default: UVATRAIN_LIBTORCH, the folder of the
    /// program, its Python environment, the cache folder, the active environment]
    #[arg(long, value_name = "DIR", help_heading = MACHINE, hide_short_help = true)]
    #[serde(skip)]
    pub libtorch: Option<PathBuf>,

    /// File of metrics: one JSON line per batch and epoch
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub metrics: Option<PathBuf>,

    /// Serve the metrics of the run over HTTP for Prometheus, at /metrics of this port; on localhost unless a HOST is given
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen::address, help_heading = OUTPUT, hide_short_help = true)]
    pub metrics_listen: Option<std::net::SocketAddr>,

    /// File of a timeline of the batches, for ui.perfetto.dev and chrome://tracing
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, hide_short_help = true)]
    pub trace: Option<PathBuf>,

    /// Print stages, buffers and memory; do not start the run
    #[arg(long, help_heading = OUTPUT)]
    #[serde(skip)]
    pub dry_run: bool,

    /// Print the time of each role and the memory of each process at the end
    #[arg(long, help_heading = OUTPUT, hide_short_help = true)]
    #[serde(skip)]
    pub verbose: bool,

    /// Print the result as one JSON object
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

/// Options of a GPU that are not valid with a hop set: its rows are copied to the GPU, and nothing is sampled.
const OF_GATHERS: [&str; 7] =
    ["gather", "kernel", "sampler", "mps_sampler_percentage", "gpu_slots", "table_pages", "remeasure"];

impl TrainFlags {
    /// Checks that clap cannot do, for a hop set: options that are not valid with it, or contradict each other.
    ///
    /// # Errors
    /// Bad usage; the message names the option.
    pub fn check_for_hops(&self) -> Result<(), RuntimeError> {
        let hops = self.hops.options();
        self.hops.given.check_use(&hops)?;
        let of_loader = self.loader.typed().iter().filter(|field| !OF_HOP_SETS.contains(&field.name));
        let input_nodes = self.input_nodes.is_some().then_some("input_nodes");
        let first_layer = self.first_layer.is_some().then_some("first_layer");
        let of_gpu = self.backend.typed.iter().filter(|field| OF_GATHERS.contains(&field.name));
        let fields = of_loader.chain(&self.cache.typed).chain(of_gpu);
        let mut refused = fields.map(|field: &&Field| field.name).chain(input_nodes).chain(first_layer);
        if let Some(name) = refused.next() {
            return Err(of_no_use_with_a_hop_set(name).into());
        }
        self.loader.check_use()?;
        Ok(self.backend.options().check()?)
    }

    /// What clap cannot see: options that contradict each other.
    ///
    /// # Errors
    /// Bad usage; the message names the options and what would do instead.
    pub fn check(&self) -> anyhow::Result<()> {
        // A full shuffle is what a dataset has.
        let hops = self.hops.options();
        let of_hops = [
            ("shuffle", hops.shuffle != Shuffle::Full),
            ("chunk", self.hops.gives("chunk")),
            ("place", hops.place != HopRowsPlace::Auto),
        ];
        if let Some((name, _)) = of_hops.into_iter().find(|(_, given)| *given) {
            return Err(RuntimeError::from(of_no_use_without_a_hop_set(name)).into());
        }
        self.loader.check()?;
        self.training.options().check(&self.loader.options()).map_err(RuntimeError::from)?;
        Ok(self.backend.options().check().map_err(RuntimeError::from)?)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use uva_runtime::spec::Spelling;

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
        assert!(!flags.training.gives("patience"), "early stopping is off by default");
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
        let refused = |args: &[&str]| {
            let problem = parsed(args).unwrap().check().unwrap_err();
            problem.downcast::<RuntimeError>().unwrap().spelled(Spelling::CommandLine)
        };
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

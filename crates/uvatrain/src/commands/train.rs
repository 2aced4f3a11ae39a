//! `uvatrain train`.

#[cfg(feature = "train")]
use crate::flags::TrainFlags;

#[cfg(not(feature = "train"))]
pub use without_models::{NO_MODELS, run};

/// Trains a built-in model.
#[cfg(feature = "train")]
pub fn run(flags: &TrainFlags) -> anyhow::Result<()> {
    use uva_graph::Dataset;
    use uva_runtime::metrics::Event;
    use uva_runtime::training::TrainingRun;

    use super::pipeline::{Observers, Outputs, backend_options, check_paths, loader_options};
    use crate::flags::share_of_cores;
    use crate::ui::{log, out, progress, summary};

    flags.check()?;
    // In one process the thread of the command is the consumer.
    log::name_process(if flags.loader.in_process { "consumer" } else { "launcher" });
    check_paths(&[
        ("DATA", Some(&flags.data)),
        ("--checkpoint", flags.checkpoint.as_deref()),
        ("--metrics", flags.metrics.as_deref()),
        ("--trace", flags.trace.as_deref()),
        ("--plan", flags.cache.plan.as_deref()),
    ])?;
    let dataset = Dataset::open(&flags.data)?;
    let run = TrainingRun::new(
        dataset,
        &loader_options(flags.loader.options_of_models(), &flags.loader, &flags.backend)?,
        flags.epochs,
        with_models::training_options(flags),
        &backend_options(&flags.backend, &flags.cache),
        flags.cache.request(),
        flags.loader.in_process,
    )?;
    if flags.loader.in_process {
        with_models::restart_with(run.environment())?;
    }
    let outputs = Outputs {
        metrics: flags.metrics.as_deref(),
        append: flags.resume,
        trace: flags.trace.as_deref(),
        listen: flags.metrics_listen,
    };
    let mut view = progress::Training::new();
    let train_threads = run.cpu_threads();
    let end = {
        let mut observer = Observers::open(&outputs, &mut view)?;
        run.run(serde_json::to_value(flags)?, &mut observer)
    };
    view.finish();
    let end = end?;
    if flags.json {
        out::json(&Event::End(Box::new(end.clone())))?;
    }
    let besides = summary::Besides {
        metrics: flags.metrics.as_deref(),
        checkpoint: flags.checkpoint.as_deref(),
        train_threads,
        cores: share_of_cores(1),
    };
    out::say(&summary::of_run(&end, &besides));
    Ok(())
}

#[cfg(feature = "train")]
mod with_models {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use anyhow::Context;
    use uva_runtime::training;
    use uva_runtime::training::{EvaluateBy, TrainerOptions, TrainingOptions};

    use crate::flags::{Evaluation, FeatureNorm, Metric, Model, Norm, TrainFlags, share_of_cores};

    /// The flags as the runtime takes them.
    pub fn training_options(flags: &TrainFlags) -> TrainingOptions {
        TrainingOptions {
            trainer: TrainerOptions {
                model: match flags.model {
                    Model::Sage => training::ModelKind::Sage,
                    Model::Gcn => training::ModelKind::Gcn,
                    Model::Gat => training::ModelKind::Gat,
                },
                hidden: flags.hidden as usize,
                heads: flags.heads() as usize,
                output_heads: flags.output_heads.map(|heads| heads as usize),
                attention_dropout: flags.attention_dropout.unwrap_or(0.0),
                residual: flags.residual,
                norm: match flags.norm {
                    Norm::None => training::NormKind::None,
                    Norm::Layer => training::NormKind::Layer,
                },
                layers: flags.loader.fanouts.layers(),
                dropout: flags.dropout,
                input_dropout: flags.input_dropout,
                learning_rate: flags.lr,
                weight_decay: flags.weight_decay,
                feature_norm: match flags.feature_norm {
                    FeatureNorm::None => training::FeatureNorm::None,
                    FeatureNorm::Row => training::FeatureNorm::Row,
                },
                seed: flags.loader.seed,
                threads: flags.train_threads.map(|threads| threads as usize),
            },
            usual_threads: Some(usual_threads()),
            evaluate_by: match flags.eval {
                Evaluation::Sampled => EvaluateBy::Sampled,
                Evaluation::Full => EvaluateBy::Full,
            },
            metric: match flags.metric {
                Metric::Auto => None,
                Metric::Accuracy => Some(training::Metric::Accuracy),
                Metric::RocAuc => Some(training::Metric::RocAuc),
            },
            patience: flags.patience,
            checkpoint: flags.checkpoint.clone(),
            checkpoint_every: flags.checkpoint_every,
            resume: flags.resume,
            overwrite_checkpoint: flags.overwrite_checkpoint,
            fingerprint: serde_json::Value::Null,
        }
    }

    /// Threads of the model's arithmetic where nobody has asked for a number: half the cores.
    fn usual_threads() -> usize {
        share_of_cores(2)
    }

    /// Starts this process anew unless its environment holds these variables already: libtorch read them when it was
    /// loaded, before `main`.
    pub fn restart_with(environment: Vec<(String, String)>) -> anyhow::Result<()> {
        if environment
            .iter()
            .all(|(name, value)| std::env::var_os(name).is_some_and(|is| is == value.as_str()))
        {
            return Ok(());
        }
        let program = std::env::current_exe().context("cannot find this program to start it anew")?;
        let mut arguments = std::env::args_os();
        let mut command = Command::new(program);
        if let Some(name) = arguments.next() {
            command.arg0(name);
        }
        Err(command.args(arguments).envs(environment).exec()).context("cannot start this program anew")
    }
}

#[cfg(not(feature = "train"))]
mod without_models {
    use crate::exit;
    use crate::flags::TrainFlags;

    /// Why this build cannot train.
    pub const NO_MODELS: &str = "this build has no models (it was built without the feature `train`): run \
                                 `./scripts/setup/libtorch.sh && cargo build --release` in the checkout";

    /// Says so.
    pub fn run(flags: &TrainFlags) -> anyhow::Result<()> {
        flags.check()?;
        Err(exit::lacking(NO_MODELS).into())
    }
}
